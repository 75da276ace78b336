"""Wall and CPU seconds of competing tasks, in interleaved rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch

__all__ = ["Sample", "Timing", "interleaved", "matrix_rate", "measure"]


@dataclass(frozen=True)
class Sample:
    """Seconds of one run: by the clock, and of all threads of the process together."""

    wall_seconds: float
    cpu_seconds: float


@dataclass
class Timing:
    """The runs of one task."""

    samples: list[Sample] = field(default_factory=list)

    @property
    def wall_seconds(self) -> float:
        return statistics.median(sample.wall_seconds for sample in self.samples)

    @property
    def cpu_seconds(self) -> float:
        return statistics.median(sample.cpu_seconds for sample in self.samples)


def measure(task: Callable[[], object]) -> Sample:
    """Run once, with all threads of this process counted."""
    wall, cpu = time.perf_counter(), time.process_time()
    task()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(tasks: Mapping[str, Callable[[], Sample]], *, rounds: int, warm_up: bool = True) -> dict[str, Timing]:
    """Run every task once a round, beginning with another one each time, so that drifts of the machine meet all alike.

    A task measures itself (see ``measure``), since it may run in another process. One more round goes before and is not counted.
    """
    names = list(tasks)
    timings = {name: Timing() for name in names}
    if warm_up:
        for task in tasks.values():
            task()
    for round_number in range(rounds):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            timings[name].samples.append(tasks[name]())
    return timings


def matrix_rate(dtype: torch.dtype) -> float:
    """Floating-point operations a second of a product of the size of a feed-forward layer."""
    left, right = torch.randn(3200, 768).to(dtype), torch.randn(3072, 768).to(dtype)
    timing = interleaved({"product": partial(measure, lambda: torch.nn.functional.linear(left, right))}, rounds=15)["product"]
    return 2 * 3200 * 768 * 3072 / timing.wall_seconds
