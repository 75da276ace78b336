"""Small pictures of a video, spread over its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, set_cell_size

from ..errors import WatchwordError
from ..media import VideoReader

__all__ = ["Thumbnail", "shorten", "thumbnails"]


@dataclass(frozen=True)
class Thumbnail:
    """A frame shown at ``time_seconds``, uint8 RGB (height, width, 3)."""

    time_seconds: float
    rgb: npt.NDArray[np.uint8]


def thumbnails(
    path: str | Path, count: int, *, height: int, span: Sequence[float] | npt.NDArray[np.float64] | None = None
) -> list[Thumbnail]:
    """``count`` frames from the middles of equal parts of the video's time; none if the file can no longer be read.

    ``span``: start and end in seconds, if not the whole file.
    """
    try:
        with VideoReader(Path(path)) as reader:
            start, end = (reader.start_seconds, reader.end_seconds) if span is None else map(float, span)
            times = start + (np.arange(count) + 0.5) * (end - start) / count
            video = reader.info.video
            assert video is not None
            width = max(1, round(height * video.width / video.height))
            frames = reader.at(times, size=(height, width))
    except WatchwordError:
        return []
    return [Thumbnail(float(time), rgb) for time, rgb in zip(times, frames.rgb, strict=True)]


def shorten(text: str, length: int) -> str:
    """The text in at most ``length`` columns, of which Chinese and Japanese characters take two, with the middle left out."""
    if cell_len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{set_cell_size(text, head)}…{set_cell_size(text[::-1], length - 1 - head)[::-1]}"
