"""Clips for the model: whole files or sliding windows, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..errors import InputError, WatchwordError
from ..media import Limits, VideoReader, uniform_indices
from .config import XClipConfig
from .inputs import frame_transform, to_tensor

__all__ = ["EndOfFile", "ReadWindow", "Windows", "WindowsOf", "read_windows"]

GROUP_SIZE = 8  # windows whose frames are read together, so that frames they share are decoded once


class WindowsOf(Protocol):
    """What says which stretches of a video are looked at."""

    def spans(self, start: float, end: float) -> list[tuple[float, float]]:
        """(start, end) of each of a video from ``start`` to ``end`` seconds."""
        ...


@dataclass(frozen=True, kw_only=True)
class Windows:
    """Windows of ``window_seconds``, each ``stride_seconds`` after the one before (default: side by side).

    The last window is the first one that reaches the end of the video; it may be shorter.
    """

    window_seconds: float
    stride_seconds: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.window_seconds < float("inf"):
            raise InputError(f"the window is {self.window_seconds} s, but must be above 0")
        if self.stride_seconds is not None and not 0 < self.stride_seconds < float("inf"):
            raise InputError(f"the stride is {self.stride_seconds} s, but must be above 0")

    def spans(self, start: float, end: float) -> list[tuple[float, float]]:
        """(start, end) of each window of a video from ``start`` to ``end`` seconds."""
        stride = self.stride_seconds or self.window_seconds
        last = max(0, int(np.ceil((end - start - self.window_seconds) / stride - 1e-9)))
        starts = [start + number * stride for number in range(last + 1)]
        return [(begin, min(begin + self.window_seconds, end)) for begin in starts if begin < end] or [(start, end)]


@dataclass(frozen=True)
class ReadWindow:
    """One clip: its span in seconds, its frames as the model takes them (T, 3, R, R), and the share of the file read with it."""

    start_seconds: float
    end_seconds: float
    clip: Tensor
    share: float


@dataclass(frozen=True)
class EndOfFile:
    """What is known when a file is done: warnings about it, or the error that ended it and at which stage."""

    warnings: tuple[str, ...] = ()
    error: WatchwordError | None = None
    stage: str = ""


def read_windows(
    path: Path, config: XClipConfig, *, windows: WindowsOf | None, limits: Limits, num_threads: int | None
) -> Iterator[ReadWindow | EndOfFile]:
    """The windows of a file in order (one, the whole file, if ``windows`` is None), then an EndOfFile. Errors are part of it.

    The frames of a window are those of the test rule (spec section 12) among the frames within [start, end); a window in which no
    frame begins shows the frame before it.
    """
    stage = "open"
    try:
        with VideoReader(path, limits=limits, num_threads=num_threads) as reader:
            times = reader.times
            span = (reader.start_seconds, reader.end_seconds)
            spans = windows.spans(*span) if windows else [span]
            stage = "decode"
            for number, ((start, end), frames) in enumerate(_frames(reader, times, spans, config), start=1):
                yield ReadWindow(start, end, to_tensor(frames, config.preprocessing), number / len(spans))
            warnings = tuple(reader.warnings)
    except WatchwordError as error:
        yield EndOfFile(error=error, stage=stage)
    else:
        yield EndOfFile(warnings=warnings)


def _frames(
    reader: VideoReader, times: npt.NDArray[np.float64], spans: list[tuple[float, float]], config: XClipConfig
) -> Iterator[tuple[tuple[float, float], npt.NDArray[np.uint8]]]:
    """The prepared frames of each window, read forward through the file; a frame that several windows show is decoded once."""
    transform = frame_transform(config.preprocessing)
    whole = spans == [(reader.start_seconds, reader.end_seconds)]
    chosen = [uniform_indices(len(times), config.num_frames)] if whole else _choose(times, spans, config.num_frames)
    kept: dict[int, npt.NDArray[np.uint8]] = {}
    for first in range(0, len(spans), GROUP_SIZE):
        group = chosen[first : first + GROUP_SIZE]
        kept = {index: frame for index, frame in kept.items() if index >= group[0][0]}
        missing = sorted({int(index) for indices in group for index in indices} - kept.keys())
        if missing:
            kept.update(zip(missing, reader.read(missing, transform=transform).rgb, strict=True))
        for span, indices in zip(spans[first : first + GROUP_SIZE], group, strict=True):
            yield span, np.stack([kept[int(index)] for index in indices])


def _choose(times: npt.NDArray[np.float64], spans: list[tuple[float, float]], num_frames: int) -> list[npt.NDArray[np.int64]]:
    ascending = np.maximum.accumulate(times)
    chosen = []
    for start, end in spans:
        first, stop = np.searchsorted(ascending, (start, end))
        if first == stop:
            first, stop = max(0, first - 1), max(1, first)
        chosen.append(first + uniform_indices(int(stop - first), num_frames))
    return chosen
