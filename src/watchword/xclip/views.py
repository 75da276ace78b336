"""Several views of one video: clips over time and crops over space, which evaluation adds up (spec sections 12 and 13.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..media import DEFAULT_LIMITS, Limits, VideoReader
from .config import XClipConfig
from .inputs import frame_transform, three_crops
from .sampling import evaluation_indices, train_indices

__all__ = ["Views", "read_views"]


@dataclass(frozen=True, kw_only=True)
class Views:
    """``num_clips`` clips, each cut ``num_crops`` times: 1 is the middle, 3 are start, end and middle of the longer side.

    ``random_seed`` draws the clips by the training rule, as the released multi-view test does; None spreads them evenly.

    Raises InputError for other numbers.
    """

    num_clips: int = 1
    num_crops: int = 1
    random_seed: int | None = None

    def __post_init__(self) -> None:
        if self.num_clips < 1 or self.num_crops not in (1, 3):
            raise InputError(f"views are {self.num_clips} clips x {self.num_crops} crops: give at least 1 clip and 1 or 3 crops")
        if self.random_seed is not None and self.random_seed < 0:
            raise InputError(f"the seed of random clips is {self.random_seed}, but must be at least 0")

    @classmethod
    def parse(cls, text: str, *, random_seed: int | None = None) -> Views:
        """``4x3`` is four clips of three crops. Raises InputError for anything else."""
        numbers = re.fullmatch(r"(\d{1,4})x(\d)", text.strip())
        if numbers is None:
            raise InputError(f"views are {text!r}: write CLIPSxCROPS, such as 1x1 or 4x3")
        return cls(num_clips=int(numbers[1]), num_crops=int(numbers[2]), random_seed=random_seed)

    @property
    def count(self) -> int:
        """Views of one video."""
        return self.num_clips * self.num_crops

    def __str__(self) -> str:
        drawn = "" if self.random_seed is None else f", clips drawn at random by seed {self.random_seed}"
        return f"{self.num_clips}x{self.num_crops}{drawn}"


def read_views(
    path: Path, config: XClipConfig, views: Views, *, number: int = 0, limits: Limits = DEFAULT_LIMITS, num_threads: int | None = None
) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    """All views of a file, uint8 (views, T, R, R, 3), crop by crop and within each clip by clip, and warnings about the file.

    ``number`` is the video's place in its list: with the seed it fixes the random clips, whoever reads it and when.

    Raises MediaError if the file cannot be read.
    """
    transform = frame_transform(config.preprocessing) if views.num_crops == 1 else partial(three_crops, preprocessing=config.preprocessing)
    with VideoReader(path, limits=limits, num_threads=num_threads) as reader:
        indices = _indices(reader.num_frames, config.num_frames, views, number)
        frames = reader.read(indices.reshape(-1), transform=transform).rgb
        side = config.preprocessing.crop_size
        frames = np.moveaxis(frames.reshape(views.num_clips, config.num_frames, views.num_crops, side, side, 3), 2, 0)
        return np.ascontiguousarray(frames).reshape(views.count, *frames.shape[2:]), tuple(reader.warnings)


def _indices(total_frames: int, num_frames: int, views: Views, number: int) -> npt.NDArray[np.int64]:
    if views.random_seed is None:
        return evaluation_indices(total_frames, num_frames, num_clips=views.num_clips)
    random = np.random.default_rng((views.random_seed, number))
    return np.stack([train_indices(total_frames, num_frames, random) for _ in range(views.num_clips)])
