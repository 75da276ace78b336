"""Labelled video files, read as clips."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ..errors import ConfigError
from ..media import VideoReader
from ..xclip.config import XClipConfig
from ..xclip.inputs import frame_transform
from ..xclip.sampling import evaluation_indices, train_indices
from .annotations import read_annotations
from .order import Position

__all__ = ["VideoClips", "read_annotations"]


class VideoClips(Dataset[dict[str, Any]]):
    """Clips of video files: ``frames`` uint8 (T, R, R, 3) and ``label``, an index into ``class_names``.

    For training, one frame is drawn from each of T parts of the video by (seed, epoch, index); otherwise the middle of each part is
    taken (spec section 12).
    """

    def __init__(
        self, annotations: Sequence[tuple[Path, str]], class_names: Sequence[str], config: XClipConfig, *, training: bool, seed: int
    ) -> None:
        self.annotations, self.config, self.training, self.seed = list(annotations), config, training, seed
        self.class_numbers = {name: number for number, name in enumerate(class_names)}
        unknown = sorted({label for _, label in annotations} - self.class_numbers.keys())
        if unknown:
            raise ConfigError(f"label {unknown[0]!r} of the held-out list does not occur in the training list")

    def __len__(self) -> int:
        return len(self.annotations)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        path, label = self.annotations[index]
        with VideoReader(path, num_threads=1) as reader:
            if self.training:
                chosen = train_indices(reader.num_frames, self.config.num_frames, np.random.default_rng((self.seed, epoch, index)))
            else:
                chosen = evaluation_indices(reader.num_frames, self.config.num_frames)[0]
            frames = reader.read(chosen, transform=frame_transform(self.config.preprocessing))
        return {"frames": frames.rgb, "label": self.class_numbers[label]}
