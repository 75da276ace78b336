"""Labelled video files, read as clips."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ..errors import ConfigError
from ..media import VideoReader
from ..xclip.augment import Augmentation
from ..xclip.config import XClipConfig
from ..xclip.inputs import frame_transform
from ..xclip.sampling import evaluation_indices, train_indices
from .annotations import read_annotations
from .order import Position

__all__ = ["VideoClips", "class_numbers", "read_annotations"]


def class_numbers(annotations: Sequence[tuple[Path, str]], class_names: Sequence[str]) -> list[int]:
    """The class of each video, as an index into ``class_names``. Raises ConfigError, naming it, for a label that is none of them."""
    numbers = {name: number for number, name in enumerate(class_names)}
    if unknown := sorted({label for _, label in annotations} - numbers.keys()):
        raise ConfigError(f"label {unknown[0]!r} of the held-out list does not occur in the training list")
    return [numbers[label] for _, label in annotations]


class VideoClips(Dataset[dict[str, Any]]):
    """Clips of video files: ``frames`` uint8 (T, R, R, 3) and ``label``, an index into ``class_names``.

    For training, one frame is drawn from each of T parts of the video, and the changes that ``augment`` makes of them are drawn (None:
    the middle of each frame as it is), by (seed, epoch, index) alone. Otherwise the middle of each part is taken (spec section 12).
    """

    def __init__(
        self,
        annotations: Sequence[tuple[Path, str]],
        class_names: Sequence[str],
        config: XClipConfig,
        *,
        training: bool,
        seed: int,
        augment: Augmentation | None = None,
    ) -> None:
        self.annotations, self.config, self.training, self.seed = list(annotations), config, training, seed
        self.augment = augment if training else None
        self.labels = class_numbers(annotations, class_names)

    def __len__(self) -> int:
        return len(self.annotations)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        path, _ = self.annotations[index]
        random = np.random.default_rng((self.seed, epoch, index))
        preprocessing = self.config.preprocessing
        with VideoReader(path, num_threads=1) as reader:
            if not self.training:
                chosen = evaluation_indices(reader.num_frames, self.config.num_frames)[0]
            else:
                chosen = train_indices(reader.num_frames, self.config.num_frames, random)
            if self.augment is None:
                rgb = reader.read(chosen, transform=frame_transform(preprocessing)).rgb
            else:
                changes = self.augment.draw(len(chosen), random)
                rgb = changes.colours(reader.read(chosen, transform=partial(changes.place, preprocessing=preprocessing)).rgb)
        return {"frames": rgb, "label": self.labels[index]}
