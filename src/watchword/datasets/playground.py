"""Samples of the playground, rendered once into an array on disk and read from there by every run that asks for the same ones."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.lib.format import open_memmap
from torch.utils.data import Dataset

from .. import playground
from ..files import replacing, write_text
from ..playground import PHRASES, phrase, render_frames, sample_scene
from ..playground.stills import render_still
from ..playground.world import Split, combinations
from ..xclip.augment import Augmentation
from ..xclip.config import Preprocessing
from .order import Position

__all__ = ["PlaygroundClips", "PlaygroundStills", "world_hash"]

Sample = dict[str, Any]


class PlaygroundClips(Dataset[Sample]):
    """Clips of random scenes: ``frames`` uint8 (num_frames, size, size, 3) and ``label``, the index of the phrase in ``PHRASES``.

    The frames are those that sparse sampling takes from the clip: one in each of ``num_frames`` equal parts of its duration, at a
    random moment of it, drawn once a clip. ``augment`` changes them by (seed, epoch, index). ``shots`` gives so many clips of each phrase
    of the split in place of ``num_clips`` at random. With ``num_views`` a clip is seen at other moments in every epoch below that number;
    the first view is the only one without.
    """

    def __init__(
        self,
        num_clips: int,
        *,
        num_frames: int,
        size: int,
        seed: int,
        split: Split,
        cache_folder: Path,
        shots: int | None = None,
        augment: Augmentation | None = None,
        num_views: int = 1,
    ) -> None:
        self.augment, self.seed, self.preprocessing = augment, seed, Preprocessing(crop_size=size, short_side=size)
        if shots is not None:
            num_clips = shots * len(combinations(split=split))
        render = partial(_render_clip, num_frames=num_frames, size=size, seed=seed, split=split, balanced=shots is not None)
        name = f"clips-{split}-{num_clips}{'' if shots is None else '-balanced'}x{num_frames}x{size}-seed{seed}"
        self.views = [
            _rendered(
                cache_folder / f"{name}{f'-view{view}' if view else ''}", num_clips, (num_frames, size, size, 3), partial(render, view=view)
            )
            for view in range(num_views)
        ]
        self.labels = self.views[0][1]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: Position) -> Sample:
        epoch, index = position
        frames = np.array(self.views[epoch % len(self.views)][0][index])
        if self.augment is not None:
            frames = self.augment.draw(len(frames), np.random.default_rng((self.seed, epoch, index))).clip(frames, self.preprocessing)
        return {"frames": frames, "label": PHRASES.index(self.labels[index])}


class PlaygroundStills(Dataset[Sample]):
    """Single frames with captions of several kinds.

    ``frames`` uint8 (1, size, size, 3) and ``captions`` (kinds,), indices into ``captions``, one of each of ``stills.CAPTION_KINDS``.
    """

    def __init__(self, num_stills: int, *, size: int, seed: int, cache_folder: Path) -> None:
        render = partial(_render_still, size=size, seed=seed)
        self.frames, told = _rendered(cache_folder / f"stills-{num_stills}x{size}-seed{seed}", num_stills, (1, size, size, 3), render)
        self.captions = tuple(sorted({caption for captions in told for caption in captions}))
        numbers = {caption: number for number, caption in enumerate(self.captions)}
        self.caption_numbers = np.array([[numbers[caption] for caption in captions] for captions in told])

    def __len__(self) -> int:
        return len(self.caption_numbers)

    def __getitem__(self, position: Position) -> Sample:
        _, index = position
        return {"frames": np.array(self.frames[index]), "captions": self.caption_numbers[index]}


def _render_clip(index: int, *, num_frames: int, size: int, seed: int, split: Split, balanced: bool, view: int) -> tuple[np.ndarray, str]:
    choices = combinations(split=split)
    shape, colour, action = choices[index % len(choices)] if balanced else (None, None, None)
    scene = sample_scene(_scene_seed(seed, index), shape=shape, colour=colour, action=action, split=split)
    moments = np.random.default_rng((seed, index, view) if view else (seed, index)).uniform(size=num_frames)
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
    """Frames (count, *shape) and labels in ``.npy`` and ``.json`` files named after ``path`` and the world's code, rendered on all cores if
    they are not there: what another version of the world has left is not taken for this one's.
    """
    path = path.with_name(f"{path.name}-{world_hash()}")
    array_path, labels_path = (path.with_name(path.name + ending) for ending in (".npy", ".json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):  # runs side by side want the same samples: one renders, the others wait
        if not labels_path.exists():
            _render_all(array_path, labels_path, count, shape, render)
    return np.load(array_path, mmap_mode="r"), json.loads(labels_path.read_text())


@cache
def world_hash(*also: str) -> str:
    """Eight letters that change with the code of the world, and of the files ``also`` below its folder."""
    folder = Path(playground.__file__).parent
    sources = [*sorted(folder.glob("*.py")), *(folder / name for name in also)]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:8]


def _render_all(
    array_path: Path, labels_path: Path, count: int, shape: tuple[int, ...], render: Callable[[int], tuple[np.ndarray, Any]]
) -> None:
    labels = []
    with replacing(array_path) as beside, multiprocessing.get_context("spawn").Pool() as pool:
        frames = open_memmap(beside, mode="w+", dtype=np.uint8, shape=(count, *shape))
        for index, (sample, label) in enumerate(pool.imap(render, range(count), chunksize=64)):
            frames[index] = sample
            labels.append(label)
        frames.flush()
    write_text(labels_path, json.dumps(labels))
