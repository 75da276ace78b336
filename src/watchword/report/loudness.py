"""How loud a video is over time, for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import WatchwordError
from ..media import iter_sound

__all__ = ["loudness"]

RATE = 8000


def loudness(path: str | Path, span: tuple[float, float], num_bins: int) -> npt.NDArray[np.float32] | None:
    """Peak of the sound in each of ``num_bins`` equal parts of the span (seconds), as a share of the loudest; nan where there is no sound.

    None if there is no sound at all, or the file can no longer be read. Memory does not grow with the length.
    """
    start, end = span
    peaks = np.full(num_bins, np.nan, np.float32)
    try:
        for block in iter_sound(Path(path), rate=RATE, start=start, end=end):
            if not block.covered:
                continue
            places = (np.flatnonzero(block.mask) / RATE + block.start_seconds - start) / max(end - start, 1e-9) * num_bins
            np.fmax.at(peaks, np.clip(places.astype(np.int64), 0, num_bins - 1), np.abs(block.samples[block.mask]))
    except WatchwordError:
        return None
    if np.isnan(peaks).all():
        return None
    return peaks / max(float(np.nanmax(peaks)), 1e-4)
