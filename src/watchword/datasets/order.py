"""Which samples make up which step: a function of the seed and the step alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["Position", "batches"]

Position = tuple[int, int]  # (epoch, index): what a data set is asked for, so that a sample may differ from epoch to epoch


def batches(num_samples: int, batch_size: int, *, seed: int, start_step: int, num_steps: int) -> Iterator[list[Position]]:
    """The positions of each step from ``start_step`` on, ``batch_size`` each.

    The samples are walked in one endless sequence of shuffled epochs, so a batch may span two epochs and none is ever dropped. Starting
    later gives the same steps as running up to there.
    """
    epoch, order = -1, np.empty(0, dtype=np.int64)
    for step in range(start_step, num_steps):
        batch = []
        for place in range(step * batch_size, (step + 1) * batch_size):
            if place // num_samples != epoch:
                epoch = place // num_samples
                order = np.random.default_rng((seed, epoch)).permutation(num_samples)
            batch.append((epoch, int(order[place % num_samples])))
        yield batch
