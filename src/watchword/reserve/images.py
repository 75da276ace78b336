"""Frames to what Reserve's vision encoder reads: black bars off, fitted into the grid, cut into patches of 16 x 16 pixels.

Source: merlot-reserve-data spec section 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError
from .resample import resample

__all__ = ["PATCH", "BlackBars", "Box", "FittedImage", "fit", "patches", "stored_size", "training_scale_range", "turn_tall"]

PATCH = 16
Grid = tuple[int, int]
UInt8 = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float32]

_DARK_BELOW = 32
_MAX_CUT = 0.2
_TALL = 4 / 3
_SIDE_PADDING = 4
_SMALLEST_SIDE = 64


class Box(NamedTuple):
    """The rows y1 to y2 and columns x1 to x2 of a picture, the ends not included."""

    y1: int
    y2: int
    x1: int
    x2: int

    def of(self, frame: UInt8) -> UInt8:
        """The part of a (height, width, channels) frame inside the box."""
        return frame[self.y1 : self.y2, self.x1 : self.x2]


class BlackBars:
    """Finds the black bars of a video from its frames, which may be shown one by one.

    A row or column has content if any frame has any channel of 32 or more there. At most a fifth is cut on each side. A video that is
    dark altogether loses a fifth on all sides, as in the release.
    """

    def __init__(self) -> None:
        self._rows: npt.NDArray[np.bool_] | None = None
        self._columns: npt.NDArray[np.bool_] | None = None

    def see(self, frames: Iterable[UInt8]) -> None:
        """Take (height, width, 3) frames into account. Raises InputError if they are not all of one size."""
        for frame in frames:
            rows = frame.reshape(len(frame), -1).max(axis=1) >= _DARK_BELOW
            columns = frame.max(axis=0).max(axis=1) >= _DARK_BELOW
            if self._rows is None or self._columns is None:
                self._rows, self._columns = rows, columns
            elif (len(rows), len(columns)) != (len(self._rows), len(self._columns)):
                raise InputError(f"frames of {len(self._rows)}x{len(self._columns)} and {len(rows)}x{len(columns)} pixels; give one size")
            else:
                self._rows |= rows
                self._columns |= columns

    def box(self) -> Box:
        """What is left without the bars. Raises InputError if no frame has been seen."""
        if self._rows is None or self._columns is None:
            raise InputError("no frame to find black bars in; give at least one")
        return Box(*_content(self._rows), *_content(self._columns))


def _content(has_content: npt.NDArray[np.bool_]) -> tuple[int, int]:
    size = len(has_content)
    places = np.flatnonzero(has_content)
    first, last = (int(places[0]), int(places[-1])) if len(places) else (size // 2, size // 2)
    return min(first, int(_MAX_CUT * size)), max(last + 1, int((1 - _MAX_CUT) * size))


def stored_size(width: int, height: int, *, short: int = 288, long: int = 512) -> tuple[int, int]:
    """(width, height) at which records keep a frame. `short`, `long`: most pixels of its sides (288, 512; finetuning 450, 800)."""
    smaller, ratio = min(width, height), max(width, height) / min(width, height)
    if smaller <= short:
        return width, height
    side = short if ratio * short <= long else round(long / ratio)
    return (side, int(side * ratio)) if width < height else (int(side * ratio), side)


@dataclass(frozen=True)
class FittedImage:
    """A frame in the model's size.

    pixels: float32 (height, width, 3) from 0 to 1, the frame at the top left, zeros below and to the right.
    content: (height, width) of the frame within them.  source: (height, width) it had.
    scale: new size over old.  offset: (y, x) of the crop, in pixels of the resized frame.
    """

    pixels: FloatArray
    content: tuple[int, int]
    source: tuple[int, int]
    scale: float
    offset: tuple[int, int] = (0, 0)


def fit(
    frame: UInt8 | FloatArray,
    grid: Grid,
    *,
    zoom: float = 1.0,
    shift: tuple[float, float] = (0.0, 0.0),
    kernel: str = "bilinear",
    shrink_both: bool = True,
    random: bool = False,
) -> FittedImage:
    """Resize a frame, ratio kept, until it fits into `grid` (rows and columns of patches).

    frame: (height, width, 3), uint8, or float32 from 0 to 1.

    In training (`random`) it is enlarged to `zoom` times the size that fits, and a crop is taken at `shift` (y, x; uniform draws from
    0 to 1) of what is too much; its shorter side has at least 64 pixels then. shrink_both: off, one side always fills the grid
    (adaptation to other resolutions). The size is cut to whole pixels in float32, which can lose one, as released (D16).
    """
    height, width = grid[0] * PATCH, grid[1] * PATCH
    old_height, old_width = frame.shape[:2]
    if not (old_height and old_width and min(grid) > 0):
        raise InputError(f"a frame of {old_height}x{old_width} pixels into a grid of {grid}: all must be positive")
    pixels = frame.astype(np.float32)
    if frame.dtype == np.uint8:
        pixels /= np.float32(255)
    if not shrink_both:
        zoom = min(zoom, max(width / old_width, height / old_height))
    scale = min(np.float32(int(zoom * height)) / np.float32(old_height), np.float32(int(zoom * width)) / np.float32(old_width))
    if random:
        scale = max(scale, np.float32(_SMALLEST_SIDE) / np.float32(min(old_height, old_width)))
    new_height, new_width = max(int(np.float32(old_height) * scale), 1), max(int(np.float32(old_width) * scale), 1)
    y, x = int(max(0, new_height - height) * shift[0]), int(max(0, new_width - width) * shift[1])
    resized = np.clip(resample(pixels, new_height, new_width, kernel), 0, 1)[y : y + height, x : x + width]
    fitted = np.zeros((height, width, 3), np.float32)
    fitted[: resized.shape[0], : resized.shape[1]] = resized
    return FittedImage(fitted, (resized.shape[0], resized.shape[1]), (old_height, old_width), float(scale), (y, x))


def turn_tall(frame: UInt8) -> UInt8 | FloatArray:
    """A frame at least 4/3 as high as wide turned left, four grey columns on either side; any other as it is.

    Pretraining and finetuning do so, answering does not (defect D15). A turned frame is float32 from 0 to 1.
    """
    if frame.shape[0] < _TALL * frame.shape[1]:
        return frame
    turned = np.rot90(frame).astype(np.float32) / np.float32(255)
    return np.pad(turned, ((0, 0), (_SIDE_PADDING, _SIDE_PADDING), (0, 0)), constant_values=0.5)


def training_scale_range(grid: Grid) -> tuple[float, float]:
    """The range of `zoom` that adaptation to another resolution draws from."""
    return 1.0, max(min(grid) / max(grid) * 16 / 9, 1.0) + 0.1


def patches(pixels: FloatArray) -> Tensor:
    """float32 (patches, 768): a (height, width, 3) picture cut row by row; a patch is its pixels row by row, channels last."""
    rows, columns = pixels.shape[0] // PATCH, pixels.shape[1] // PATCH
    cut = pixels.reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 1, 3, 4)
    return torch.from_numpy(np.ascontiguousarray(cut).reshape(rows * columns, PATCH * PATCH * 3))
