"""Labelled video files, read as MERLOT Reserve classifies them; and some of the playground whose classes only their sound tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from torch.utils.data import Dataset

from ..playground import HEARD_ACTIONS, sample_scene, write_clip
from ..reserve.images import Grid
from ..reserve.labelled_clips import read_clips
from .order import Position
from .playground import world_hash
from .videos import class_numbers

__all__ = ["SOUND_CLASSES", "VideosWithSound", "write_sound_classes"]

SOUND_CLASSES = tuple(action.name for action in HEARD_ACTIONS)


class VideosWithSound(Dataset[dict[str, Any]]):
    """A clip of each video, see ``LabelledClip``, by names, with ``label``, an index into ``class_names``. In training the clip and its
    changes are drawn by (seed, epoch, index) alone; otherwise it is the middle one.
    """

    def __init__(
        self,
        annotations: Sequence[tuple[Path, str]],
        class_names: Sequence[str],
        *,
        grid: Grid,
        sound: bool,
        training: bool,
        seed: int = 0,
    ) -> None:
        self.annotations, self.labels = list(annotations), class_numbers(annotations, class_names)
        self.grid, self.sound, self.training, self.seed = grid, sound, training, seed

    def __len__(self) -> int:
        return len(self.annotations)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        random = np.random.default_rng((self.seed, epoch, index)) if self.training else None
        (clip,) = read_clips(self.annotations[index][0], self.grid, sound=self.sound, random=random)
        return {**clip._asdict(), "label": self.labels[index]}


def write_sound_classes(num_clips: int, *, size: int, seed: int, cache_folder: Path) -> list[tuple[Path, str]]:
    """Video files of two seconds and what is heard in each: a resting shape rings, buzzes, knocks or whistles, as often each.

    They are written once into ``cache_folder``, for every run that asks for the same ones.
    """
    folder = cache_folder / f"sounds-{size}-seed{seed}-{world_hash()}"
    videos = [(folder / f"{index:05}.mp4", SOUND_CLASSES[index % len(SOUND_CLASSES)]) for index in range(num_clips)]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # runs side by side want the same ones: one writes, the others wait
        for index, (path, action) in enumerate(videos):
            if not path.exists():
                write_clip(sample_scene(seed * 10_000_000 + index, action=action), path, size=size)
    return videos
