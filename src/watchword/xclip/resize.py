"""Bilinear resizing of 8-bit frames, bit for bit as the released weights were evaluated (spec section 13.1).

The rule is OpenCV's ``INTER_LINEAR`` on unsigned bytes: half-pixel centres, no antialiasing, 11-bit integer weights. Only the rows
and columns that the crop keeps are computed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Box", "centre_box", "rescaled_size", "resize", "three_boxes"]

UInt8 = npt.NDArray[np.uint8]
Int32 = npt.NDArray[np.int32]
WEIGHT_ONE = 2048
BAND = 16  # rows worked on at once: their arrays stay in the cache and under the size that malloc maps anew each time


class Box(NamedTuple):
    """A rectangle in pixels: its upper left corner and its size."""

    x: int
    y: int
    width: int
    height: int


def rescaled_size(width: int, height: int, short_side: int) -> tuple[int, int]:
    """(width, height) after the shorter side has become ``short_side`` with the ratio kept, rounded half up."""
    factor = short_side / min(width, height)
    return int(width * factor + 0.5), int(height * factor + 0.5)


def centre_box(width: int, height: int, size: int) -> Box:
    """The middle ``size`` x ``size`` of a picture; an odd excess leaves the extra pixel at the right and below."""
    return Box((width - size) // 2, (height - size) // 2, size, size)


def three_boxes(width: int, height: int, size: int) -> tuple[Box, Box, Box]:
    """Crops along the longer side in the released order: start, end, middle. ``size`` is the shorter side."""
    step_x, step_y = (width - size) // 2, (height - size) // 2
    return (
        Box(0, 0, size, size),
        Box(2 * step_x, 2 * step_y, size, size),
        Box(step_x, step_y, size, size),
    )


def resize(frame: UInt8, width: int, height: int, box: Box | None = None) -> UInt8:
    """Resize an 8-bit (height, width, 3) frame to ``width`` x ``height`` and give the pixels inside ``box`` (None: all)."""
    source_height, source_width = frame.shape[:2]
    box = box or Box(0, 0, width, height)
    if (source_width, source_height) == (width, height):
        return np.ascontiguousarray(frame[box.y : box.y + box.height, box.x : box.x + box.width])
    columns = _columns(source_width, width, box.x, box.width)
    out = np.empty((box.height, box.width * 3), dtype=np.uint8)
    for start in range(0, box.height, BAND):
        band = out[start : start + BAND]
        band[:] = _resized_rows(frame, columns, _rows(source_height, height, box.y + start, len(band)))
    return out.reshape(box.height, box.width, 3)


def _resized_rows(frame: UInt8, columns: _Columns, rows: _Rows) -> Int32:
    first, last = columns.span
    needed = frame[rows.needed, first:last].reshape(len(rows.needed), -1)
    across: Int32 = np.take(needed, columns.left, axis=1) * columns.left_weight
    across += np.take(needed, columns.right, axis=1) * columns.right_weight
    across >>= 4
    upper, lower = across[rows.upper], across[rows.lower]
    upper *= rows.upper_weight
    lower *= rows.lower_weight
    upper >>= 16
    lower >>= 16
    upper += lower
    upper += 2
    upper >>= 2
    return upper


class _Columns(NamedTuple):
    """Where the kept columns come from, counted in values (three a pixel) from the first pixel of ``span``."""

    span: tuple[int, int]
    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    left_weight: Int32
    right_weight: Int32


class _Rows(NamedTuple):
    """The source rows that the kept rows need, and for each kept row its two positions among them and their weights."""

    needed: npt.NDArray[np.intp]
    upper: npt.NDArray[np.intp]
    lower: npt.NDArray[np.intp]
    upper_weight: Int32
    lower_weight: Int32


@lru_cache(maxsize=64)
def _columns(source: int, target: int, start: int, count: int) -> _Columns:
    left, ratio = _positions(source, target, start, count)
    outside = (left < 0) | (left >= source - 1)  # at the edge the nearest pixel is taken whole
    ratio = np.where(outside, np.float32(0), ratio)
    left = left.clip(0, source - 1)
    right = np.minimum(left + 1, source - 1)
    first = int(left.min())
    channels = np.arange(3)
    left_weight, right_weight = _weights(ratio)
    return _Columns(
        (first, int(right.max()) + 1),
        ((left - first)[:, None] * 3 + channels).ravel(),
        ((right - first)[:, None] * 3 + channels).ravel(),
        np.repeat(left_weight, 3),
        np.repeat(right_weight, 3),
    )


@lru_cache(maxsize=1024)
def _rows(source: int, target: int, start: int, count: int) -> _Rows:
    upper, ratio = _positions(source, target, start, count)
    lower = (upper + 1).clip(0, source - 1)
    upper = upper.clip(0, source - 1)
    needed, where = np.unique(np.concatenate([upper, lower]), return_inverse=True)
    upper_weight, lower_weight = _weights(ratio)
    return _Rows(needed, where[:count], where[count:], upper_weight[:, None], lower_weight[:, None])


def _positions(source: int, target: int, start: int, count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """For each kept position: the source pixel before it, and how far it lies towards the next, in float32 as OpenCV has it."""
    exact = ((np.arange(start, start + count) + 0.5) * (source / target) - 0.5).astype(np.float32)
    before = np.floor(exact)
    return before.astype(np.intp), exact - before


def _weights(ratio: npt.NDArray[np.float32]) -> tuple[Int32, Int32]:
    one = np.float32(1)
    scale = np.float32(WEIGHT_ONE)
    return np.rint((one - ratio) * scale).astype(np.int32), np.rint(ratio * scale).astype(np.int32)
