"""Which frames of a video make a clip (spec section 12). n is the video's number of frames, T the clip's.

The released code draws from numpy's legacy generator: give a ``numpy.random.RandomState`` for the same draws, or a
``numpy.random.Generator``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .resize import Box

__all__ = ["CropChoice", "crop_choices", "draw_crop", "evaluation_indices", "train_indices", "train_support"]

Indices = npt.NDArray[np.int64]
RandomNumbers = np.random.Generator | np.random.RandomState

CROP_SCALES = (1.0, 0.875, 0.75, 0.66)


def evaluation_indices(total_frames: int, num_frames: int, *, num_clips: int = 1) -> Indices:
    """Frames of ``num_clips`` deterministic clips: int64 (num_clips, num_frames), in order, repeating where n < T.

    Each clip has one frame in each of T equal segments; with one clip it is the middle of the segment, as in the released
    single-view test. Several clips divide the segments evenly among them, where the released code draws them at random
    (see ``train_indices``).
    """
    _check(total_frames, num_frames)
    segment = total_frames / num_frames
    offsets = (2 * np.arange(num_clips)[:, None] + 1) * segment / (2 * num_clips)
    indices = (np.arange(num_frames) * segment + offsets).astype(np.int64)
    return indices % total_frames


def train_indices(total_frames: int, num_frames: int, random: RandomNumbers) -> Indices:
    """Frames of one random training clip: int64 (num_frames,).

    One frame from each of T segments of floor(n/T) frames, so the last n mod T frames are never drawn; a video with fewer frames
    than the clip has one fixed choice (spec quirk 10). The released multi-view test draws its clips by this rule too, one after
    another.
    """
    support = train_support(total_frames, num_frames)
    length = support[0, 1] - support[0, 0] + 1
    if length == 1:
        return support[:, 0].copy()
    draw = random.randint if isinstance(random, np.random.RandomState) else random.integers
    return support[:, 0] + draw(length, size=num_frames)


def train_support(total_frames: int, num_frames: int) -> Indices:
    """The first and the last frame that each position of a training clip can have: int64 (num_frames, 2)."""
    _check(total_frames, num_frames)
    segment = total_frames // num_frames
    if segment:
        first = np.arange(num_frames, dtype=np.int64) * segment
        return np.stack([first, first + segment - 1], axis=1)
    fixed = np.around(np.arange(num_frames) * (total_frames / num_frames)).astype(np.int64) % total_frames
    return np.stack([fixed, fixed], axis=1)


class CropChoice(NamedTuple):
    """One size of the multi-scale training crop and the five places it can have: corners row by row, then the centre."""

    width: int
    height: int
    offsets: tuple[tuple[int, int], ...]


def crop_choices(width: int, height: int, crop_size: int) -> list[CropChoice]:
    """All crops that training can cut from a ``width`` x ``height`` picture (spec section 13.2, step 2).

    Sides are a scale of the shorter side, neighbouring scales may be paired, and a side within 2 pixels of ``crop_size`` becomes it.
    """
    base = min(width, height)
    sides = [int(base * scale) for scale in CROP_SCALES]
    sides = [crop_size if abs(side - crop_size) < 3 else side for side in sides]
    return [
        CropChoice(sides[w], sides[h], _offsets(width, height, sides[w], sides[h]))
        for h in range(len(sides))
        for w in range(len(sides))
        if abs(h - w) <= 1
    ]


def draw_crop(width: int, height: int, crop_size: int, random: RandomNumbers) -> Box:
    """One multi-scale training crop: uniform over the sizes, then uniform over the places."""
    choices = crop_choices(width, height, crop_size)
    choice = choices[_below(random, len(choices))]
    x, y = choice.offsets[_below(random, len(choice.offsets))]
    return Box(x, y, choice.width, choice.height)


def _offsets(width: int, height: int, crop_width: int, crop_height: int) -> tuple[tuple[int, int], ...]:
    step_x, step_y = (width - crop_width) // 4, (height - crop_height) // 4
    return ((0, 0), (4 * step_x, 0), (0, 4 * step_y), (4 * step_x, 4 * step_y), (2 * step_x, 2 * step_y))


def _below(random: RandomNumbers, limit: int) -> int:
    return int(random.randint(limit) if isinstance(random, np.random.RandomState) else random.integers(limit))


def _check(total_frames: int, num_frames: int) -> None:
    if total_frames < 1 or num_frames < 1:
        raise InputError(f"cannot choose {num_frames} frames of {total_frames}: both numbers must be at least 1")
