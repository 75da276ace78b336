"""What results of both models have in common: ranking, the mean over time, and why a file has none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import InputError, WatchwordError

__all__ = ["NONE_OF_THESE", "Failure", "PathLike", "check_choice", "check_paths", "finite", "mean_over_time"]

NONE_OF_THESE = "(none of these)"

PathLike = str | os.PathLike[str]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file has no result: the stage that failed (``find``, ``open``, ``decode``), a fixed word, and the error."""

    stage: str
    reason: str
    error: WatchwordError

    @classmethod
    def of(cls, error: WatchwordError, stage: str) -> Failure:
        return cls(stage, getattr(error, "reason", type(error).__name__), error)


def mean_over_time(numbers: Floats, spans: npt.NDArray[np.float64]) -> Floats:
    """The mean (K,) of numbers (windows, K), each window by its length: a short rest at the end counts for little.

    spans: (windows, 2), start and end in seconds.
    """
    lengths = spans[:, 1] - spans[:, 0]
    mean: Floats = np.average(numbers, axis=0, weights=lengths if lengths.sum() > 0 else None).astype(np.float32)
    return mean


def finite(scores: Floats) -> Floats:
    """The scores. InputError if one of them is no number."""
    if not np.isfinite(scores).all():
        raise InputError("the model gave scores that are not numbers: its weights are damaged, or the precision is too low for them")
    return scores


def check_choice(top: int | None, threshold: float | None) -> None:
    """InputError unless ``top`` is at least 1 and ``threshold`` from 0 to 1, where they are given."""
    if top is not None and top < 1:
        raise InputError(f"top is {top}, but must be at least 1")
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"the threshold is {threshold}, but must be between 0 and 1")


def check_paths(paths: Sequence[PathLike]) -> list[Path]:
    """A list of paths. InputError for one path alone, or for something else in the list."""
    if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
        raise InputError(f"paths are {paths!r}, but must be a list of paths")
    listed = list(paths)
    for number, path in enumerate(listed, start=1):
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"video {number} is {type(path).__name__}, but must be a path; frames go to the model itself")
    return [Path(path) for path in listed]
