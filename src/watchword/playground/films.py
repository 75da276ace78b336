"""Films: many scenes in a row, minutes long, rendered at any moment without the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.errors import InputError
from watchword.playground.render import render_frames
from watchword.playground.scene import FPS, Scene, sample_scene
from watchword.playground.setting import generator
from watchword.playground.sound import SOUND_RATE, render_sound
from watchword.playground.world import Split, combinations

NUM_SCENES: Final = (24, 60)
"""Fewest and most scenes of a film whose number is drawn."""

SCENE_SECONDS: Final = (4.0, 6.0)
OFF_TIME: Final = 1 / 6

_FIRST_STREAM: Final = 10


@dataclass(frozen=True)
class Film:
    """Scenes that follow each other without a pause, and how they are narrated.

    Attributes:
        seed: the seed it was sampled from; it also fixes what is said.
        scenes: all of one frame rate.
        off_time: share of the phrases that are said before or after their scene.
    """

    seed: int
    scenes: tuple[Scene, ...]
    off_time: float = OFF_TIME

    @property
    def fps(self) -> float:
        return self.scenes[0].fps

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """When each scene begins, and when the last one ends, in seconds, (scenes + 1,)."""
        return np.cumsum([0, *(scene.num_frames for scene in self.scenes)]) / self.fps

    @property
    def seconds(self) -> float:
        return float(self.edges[-1])

    @property
    def times(self) -> NDArray[np.float64]:
        """Time of each frame in seconds, (frames,)."""
        return np.arange(sum(scene.num_frames for scene in self.scenes)) / self.fps

    def scene_at(self, times_seconds: Sequence[float] | NDArray[np.float64]) -> NDArray[np.intp]:
        """Number of the scene that is on at each time, (times,); at an edge the one that begins."""
        return np.clip(np.searchsorted(self.edges, times_seconds, side="right") - 1, 0, len(self.scenes) - 1)


def sample_film(seed: int, *, num_scenes: int | None = None, split: Split | None = None, off_time: float = OFF_TIME) -> Film:
    """A random film; the same seed and options give the same film everywhere.

    No combination of shape, colour and action (the four that can only be heard among them) comes twice before all have come once.

    Args:
        seed: any whole number >= 0.
        num_scenes: of `SCENE_SECONDS` each; None draws their number from `NUM_SCENES`.
        split: ``"train"``, ``"unseen"`` (combinations held out of training), or None for both.
        off_time: share of the phrases that are said before or after their scene, 0 to 1.

    Raises:
        InputError: no scene, an unknown split, or a share outside 0 to 1.
    """
    if not 0 <= off_time <= 1:
        raise InputError(f"off_time is {off_time}; it is a share, from 0 to 1")
    rng = generator(seed, _FIRST_STREAM)
    drawn = int(rng.integers(NUM_SCENES[0], NUM_SCENES[1] + 1))
    num_scenes = drawn if num_scenes is None else num_scenes
    if num_scenes < 1:
        raise InputError(f"a film of {num_scenes} scenes: it must have at least one")
    choices = combinations(split=split, heard=True)
    laps = -(-num_scenes // len(choices))
    order = np.concatenate([rng.permutation(len(choices)) for _ in range(laps)])[:num_scenes]
    shortest, longest = (round(seconds * FPS) for seconds in SCENE_SECONDS)
    scenes = []
    for number in order:
        shape, colour, action = choices[number]
        own_seed, num_frames = int(rng.integers(2**32)), int(rng.integers(shortest, longest + 1))
        scenes.append(sample_scene(own_seed, shape=shape, colour=colour, action=action, duration_seconds=num_frames / FPS))
    return Film(seed, tuple(scenes), off_time)


def render_film_frames(film: Film, times_seconds: Sequence[float] | NDArray[np.float64], *, size: int = 128) -> NDArray[np.uint8]:
    """The film at the given times (seconds, in any order): uint8 RGB, (times, size, size, 3). Only these are drawn."""
    times = np.asarray(times_seconds, np.float64)
    frames = np.empty((len(times), size, size, 3), np.uint8)
    on = film.scene_at(times)
    for number in np.unique(on):
        rows = np.flatnonzero(on == number)
        frames[rows] = render_frames(film.scenes[number], times[rows] - film.edges[number], size=size)
    return frames


def render_film_sound(film: Film, *, rate: int = SOUND_RATE) -> NDArray[np.float32]:
    """The whole sound, float32 mono in [-0.5, 0.5], (round(seconds * rate),)."""
    sound = np.zeros(round(film.seconds * rate), np.float32)
    for scene, edge in zip(film.scenes, film.edges, strict=False):
        place = sound[round(edge * rate) :]
        samples = render_sound(scene, rate=rate)[: len(place)]
        place[: len(samples)] = samples
    return sound
