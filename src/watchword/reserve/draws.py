"""Where the random choices of an example come from: a generator in use, recorded numbers in a test, behind one small interface."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["Draws", "RandomDraws", "record_draws"]

Shape = int | tuple[int, ...]


class Draws(Protocol):
    """A source of random choices. Each has a name, so that a source may also hold recorded ones."""

    def uniform(self, name: str, shape: Shape, low: float = 0.0, high: float = 1.0) -> npt.NDArray[np.float32]:
        """float32 numbers from `low` up to `high`."""

    def coin(self, name: str) -> bool:
        """Heads or tails, equally likely."""

    def coins(self, name: str, count: int, chance: float) -> npt.NDArray[np.bool_]:
        """(count,) each true with this chance."""

    def distinct(self, name: str, count: int, limit: int) -> npt.NDArray[np.int64]:
        """(count,) different whole numbers below `limit`, in random order."""

    def below(self, name: str, limit: int) -> int:
        """A whole number below `limit`."""

    def weighted(self, name: str, count: int, weights: Sequence[float]) -> npt.NDArray[np.int64]:
        """(count,) whole numbers from 1 to the number of weights, as likely as these say; weights sum to 1."""


class RandomDraws:
    """Draws from a numpy generator; the names do not matter."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def uniform(self, name: str, shape: Shape, low: float = 0.0, high: float = 1.0) -> npt.NDArray[np.float32]:
        return np.float32(low) + np.float32(high - low) * self.generator.random(shape, np.float32)

    def coin(self, name: str) -> bool:
        return bool(self.generator.random() < 0.5)

    def coins(self, name: str, count: int, chance: float) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.generator.random(count) < chance
        return found

    def distinct(self, name: str, count: int, limit: int) -> npt.NDArray[np.int64]:
        return self.generator.permutation(limit)[:count]

    def below(self, name: str, limit: int) -> int:
        return int(self.generator.integers(limit))

    def weighted(self, name: str, count: int, weights: Sequence[float]) -> npt.NDArray[np.int64]:
        # By hand, since numpy's choice refuses published weights that miss 1 by rounding.
        edges = np.cumsum(weights)
        found: npt.NDArray[np.int64] = np.searchsorted(edges[:-1], self.generator.random(count) * edges[-1], side="right") + 1
        return found


def record_draws(seed: int, epoch: int, key: str) -> RandomDraws:
    """The draws of one record in one epoch: the same for the same three, wherever and in whatever order records are read.

    Raises InputError if seed or epoch is negative.
    """
    if seed < 0 or epoch < 0:
        raise InputError(f"seed {seed}, epoch {epoch}: neither may be negative")
    number: Any = int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")
    return RandomDraws(np.random.default_rng((seed, epoch, number)))
