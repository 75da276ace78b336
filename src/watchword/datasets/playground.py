"""Samples of the playground, rendered once into an array on disk and read from there by every run that asks for the same ones."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from torch.utils.data import Dataset

from ..files import replacing, write_text
from ..playground import PHRASES, phrase, render_frames, sample_scene
from ..playground.stills import render_still
from ..xclip.augment import Augmentation
from ..xclip.config import Preprocessing
from .order import Position

__all__ = ["PlaygroundClips", "PlaygroundStills"]

Sample = dict[str, Any]


class PlaygroundClips(Dataset[Sample]):
    """Clips of random scenes: ``frames`` uint8 (num_frames, size, size, 3) and ``label``, the index of the phrase in ``PHRASES``.

    The frames are those that sparse sampling takes from the clip: one in each of ``num_frames`` equal parts of its duration, at a
    random moment of it, drawn once a clip. ``augment`` changes them by (seed, epoch, index).
    """

    def __init__(
        self, num_clips: int, *, num_frames: int, size: int, seed: int, split: str, cache: Path, augment: Augmentation | None = None
    ) -> None:
        self.augment, self.seed, self.preprocessing = augment, seed, Preprocessing(crop_size=size, short_side=size)
        render = partial(_render_clip, num_frames=num_frames, size=size, seed=seed, split=split)
        name = f"clips-{split}-{num_clips}x{num_frames}x{size}-seed{seed}"
        self.frames, self.labels = _rendered(cache / name, num_clips, (num_frames, size, size, 3), render)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: Position) -> Sample:
        epoch, index = position
        frames = np.array(self.frames[index])
        if self.augment is not None:
            frames = self.augment.draw(len(frames), np.random.default_rng((self.seed, epoch, index))).clip(frames, self.preprocessing)
        return {"frames": frames, "label": PHRASES.index(self.labels[index])}


class PlaygroundStills(Dataset[Sample]):
    """Single frames with captions of several kinds.

    ``frames`` uint8 (1, size, size, 3) and ``captions`` (kinds,), indices into ``captions``, one of each of ``stills.CAPTION_KINDS``.
    """

    def __init__(self, num_stills: int, *, size: int, seed: int, cache: Path) -> None:
        render = partial(_render_still, size=size, seed=seed)
        self.frames, told = _rendered(cache / f"stills-{num_stills}x{size}-seed{seed}", num_stills, (1, size, size, 3), render)
        self.captions = tuple(sorted({caption for captions in told for caption in captions}))
        numbers = {caption: number for number, caption in enumerate(self.captions)}
        self.caption_numbers = np.array([[numbers[caption] for caption in captions] for captions in told])

    def __len__(self) -> int:
        return len(self.caption_numbers)

    def __getitem__(self, position: Position) -> Sample:
        _, index = position
        return {"frames": np.array(self.frames[index]), "captions": self.caption_numbers[index]}


def _render_clip(index: int, *, num_frames: int, size: int, seed: int, split: Any) -> tuple[np.ndarray, str]:
    scene = sample_scene(_scene_seed(seed, index), split=split)
    moments = np.random.default_rng((seed, index)).uniform(size=num_frames)
    times = (np.arange(num_frames) + moments) / num_frames * scene.duration_seconds
    return render_frames(scene, times, size=size), phrase(scene.shape, scene.colour, scene.action)


def _render_still(index: int, *, size: int, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
    frame, captions = render_still(_scene_seed(seed, index), size=size)
    return frame[None], captions


def _scene_seed(seed: int, index: int) -> int:
    return seed * 10_000_000 + index


def _rendered(
    path: Path, count: int, shape: tuple[int, ...], render: Callable[[int], tuple[np.ndarray, Any]]
) -> tuple[np.ndarray, list[Any]]:
    """Frames (count, *shape) and labels at ``path``.npy and ``path``.json, rendered on all cores if they are not there."""
    array_path, labels_path = path.with_suffix(".npy"), path.with_suffix(".json")
    if not labels_path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        labels = []
        with replacing(array_path) as beside, multiprocessing.get_context("spawn").Pool() as pool:
            frames = open_memmap(beside, mode="w+", dtype=np.uint8, shape=(count, *shape))
            for index, (sample, label) in enumerate(pool.imap(render, range(count), chunksize=64)):
                frames[index] = sample
                labels.append(label)
            frames.flush()
        write_text(labels_path, json.dumps(labels))
    return np.load(array_path, mmap_mode="r"), json.loads(labels_path.read_text())
