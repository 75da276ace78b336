"""A scene: one object doing one thing, with every parameter fixed by a seed.

Lengths and places are in units of the frame's side, x to the right, y down; times are in seconds, angles in radians.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from watchword.errors import InputError
from watchword.playground.setting import RGB, Block, Setting, generator, sample_colour, sample_grey, sample_setting
from watchword.playground.shapes import FOLDS, reach
from watchword.playground.world import (
    ACTIONS,
    HEARD_ACTIONS,
    REVERSED,
    Action,
    Split,
    combinations,
    find_action,
    phrase,
)

Profile = Literal["linear", "smooth", "ease in", "ease out"]

DURATION_SECONDS: Final = 2.0
FPS: Final = 12

MARGIN: Final = 0.04
"""The object keeps this far from the edges of the frame (before camera jitter)."""

NUM_TELLING_FRAMES: Final = 8
"""Periodic actions avoid rates that would look still, or like another action, in this many evenly spaced frames."""


@dataclass(frozen=True)
class Motion:
    """How the object moves; which fields count depends on the action (see `watchword.playground.motion`).

    Attributes:
        lead: share of the clip before the action begins.
        tail: share of the clip after it ends.
        profile: how the speed changes on the way.
        travel: (x, y) of the way, of an orbit's radius, or of a hop's height.
        cycles: number of turns, hops, blinks or shakes; negative turns go anticlockwise.
        ratio: how far the object grows, how much height a hop keeps, how far a collision throws back, or a phase.
    """

    lead: float
    tail: float
    profile: Profile = "linear"
    travel: tuple[float, float] = (0.0, 0.0)
    cycles: float = 0.0
    ratio: float = 1.0


@dataclass(frozen=True)
class Scene:
    """Everything that a clip shows and sounds like.

    Attributes:
        seed: the seed it was sampled from.
        shape, colour, action: names from `watchword.playground.world`.
        duration_seconds, fps: length and frame rate of the clip.
        backwards: the clip is that of the opposite action played backwards.
        rgb: the exact shade of the object.
        radius, x, y, angle: size, place and tilt of the object at rest.
        motion: how it moves.
        prop: the wall or the post that the action needs.
        setting: everything around it.
    """

    seed: int
    shape: str
    colour: str
    action: str
    duration_seconds: float
    fps: float
    backwards: bool
    rgb: RGB
    radius: float
    x: float
    y: float
    angle: float
    motion: Motion
    prop: Block | None
    setting: Setting

    @property
    def phrase(self) -> str:
        """What happens, in words, such as ``"a red square moves left"``."""
        return phrase(self.shape, self.colour, self.action)

    @property
    def num_frames(self) -> int:
        """Number of frames of the clip."""
        return round(self.duration_seconds * self.fps)

    @property
    def times(self) -> NDArray[np.float64]:
        """Time of each frame of the clip, (num_frames,), in seconds."""
        return np.arange(self.num_frames) / self.fps

    def as_dict(self) -> dict[str, Any]:
        """All parameters as plain values, fit for JSON."""
        return asdict(self)


def sample_scene(
    seed: int,
    *,
    shape: str | None = None,
    colour: str | None = None,
    action: Action | str | None = None,
    split: Split | None = None,
    duration_seconds: float = DURATION_SECONDS,
    fps: float = FPS,
) -> Scene:
    """A random scene; the same seed and options give the same scene everywhere.

    What is not given is drawn from the combinations of the split (both splits if None). An action that can only be
    heard is never drawn, only given. Two scenes of one seed, shape and colour whose actions are each other's reverse
    show exactly the same frames in opposite order; those that can only be heard show exactly the same frames.

    Args:
        seed: any whole number >= 0.
        shape, colour, action: names from `watchword.playground.world`, or None to draw them.
        split: ``"train"``, ``"unseen"`` (combinations held out of training), or None.
        duration_seconds: length of the clip.
        fps: frames a second.

    Raises:
        InputError: an unknown name, no such combination in the split, or fewer than two frames.
    """
    if round(duration_seconds * fps) < 2:
        raise InputError(f"a clip of {duration_seconds} s at {fps} frames/s has fewer than 2 frames: make it longer")
    choices = _choices(shape, colour, None if action is None else find_action(action), split)
    if not choices:
        raise InputError(f"no combination of shape={shape!r}, colour={colour!r}, action={action!r} is in split={split!r}")
    shape, colour, found = choices[generator(seed, 0).integers(len(choices))]
    rng = generator(seed, 1)
    setting = sample_setting(rng)
    rgb = sample_colour(rng, colour)
    angle = float(rng.uniform(-0.2, 0.2) if rng.random() < 0.7 else rng.uniform(-0.6, 0.6))
    base = REVERSED.get(found.name, found.name)
    place = _SAMPLERS["rests" if found.heard_only else base](rng, shape, angle, setting)
    return Scene(
        seed=seed,
        shape=shape,
        colour=colour,
        action=found.name,
        duration_seconds=duration_seconds,
        fps=fps,
        backwards=found.name in REVERSED,
        rgb=rgb,
        radius=place.radius,
        x=place.x,
        y=place.y,
        angle=angle,
        motion=place.motion,
        prop=place.prop,
        setting=setting,
    )


@cache
def _choices(shape: str | None, colour: str | None, action: Action | None, split: Split | None) -> tuple[tuple[str, str, Action], ...]:
    wanted = (shape, colour, action)
    return tuple(
        combination
        for combination in combinations(split=split, heard=action in HEARD_ACTIONS)
        if all(want is None or want == value for want, value in zip(wanted, combination, strict=True))
    )


@dataclass(frozen=True)
class _Place:
    radius: float
    x: float
    y: float
    motion: Motion
    prop: Block | None = None


_Sampler = Callable[[np.random.Generator, str, float, Setting], _Place]


def _radius(rng: np.random.Generator, low: float = 0.15, high: float = 0.21) -> float:
    return float(rng.uniform(low, high))


def _motion(rng: np.random.Generator, *, travel: tuple[float, float] = (0, 0), cycles: float = 0, ratio: float = 1) -> Motion:
    profiles: tuple[Profile, ...] = ("linear", "smooth", "ease in", "ease out")
    lead, tail = rng.uniform(0, 0.12, size=2).tolist()
    x, y = travel
    profile = profiles[rng.integers(len(profiles))]
    return Motion(lead, tail, profile, (float(x), float(y)), float(cycles), float(ratio))


def _anchor(rng: np.random.Generator, *, left: float, right: float, above: float, below: float) -> tuple[float, float]:
    """A random anchor around which so much space stays within the frame's margin."""
    return (
        float(rng.uniform(MARGIN + left, 1 - MARGIN - right)),
        float(rng.uniform(MARGIN + above, 1 - MARGIN - below)),
    )


def _still_place(rng: np.random.Generator, radius: float, motion: Motion) -> _Place:
    x, y = _anchor(rng, left=radius, right=radius, above=radius, below=radius)
    return _Place(radius, x, y, motion)


def _moves(rng: np.random.Generator, *, sideways: bool) -> _Place:
    radius = _radius(rng)
    span = rng.uniform(0.35, min(0.75, 1 - 2 * MARGIN - 2 * radius))
    drift = rng.uniform(-0.05, 0.05)
    if sideways:
        x, y = _anchor(rng, left=radius + span, right=radius, above=radius + 0.05, below=radius + 0.05)
        return _Place(radius, x, y, _motion(rng, travel=(-span, drift)))
    x, y = _anchor(rng, left=radius + 0.05, right=radius + 0.05, above=radius + span, below=radius)
    return _Place(radius, x, y, _motion(rng, travel=(drift, -span)))


def _moves_left(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    return _moves(rng, sideways=True)


def _moves_up(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    return _moves(rng, sideways=False)


def _grows(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    small = _radius(rng, 0.1, 0.13)
    ratio = float(rng.uniform(1.8, 2.3))
    large = small * ratio
    x, y = _anchor(rng, left=large, right=large, above=large, below=large)
    return _Place(small, x, y, _motion(rng, ratio=ratio))


def _splits(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng, 0.15, 0.19)
    direction, distance = rng.uniform(0, 2 * np.pi), rng.uniform(0.17, 0.27)
    travel = distance * np.cos(direction), distance * np.sin(direction)
    side, height = abs(travel[0]) + radius, abs(travel[1]) + radius
    x, y = _anchor(rng, left=side, right=side, above=height, below=height)
    return _Place(radius, x, y, _motion(rng, travel=travel))


def _appears(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    return _still_place(rng, _radius(rng), _motion(rng))


def _spins(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    motion = _motion(rng)
    turns = rng.uniform(1, 2.5, size=32)
    steps = turns * FOLDS[shape] / (NUM_TELLING_FRAMES * (1 - motion.lead - motion.tail)) % 1
    told = turns[(steps > 0.12) & (steps < 0.88)]
    cycles = float(told[0] * rng.choice([-1, 1]))
    return _still_place(rng, _radius(rng), Motion(motion.lead, motion.tail, cycles=cycles))


def _bounces(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng, 0.15, 0.19)
    height = rng.uniform(0.25, 0.5)
    x, y = _anchor(rng, left=radius, right=radius, above=radius + height, below=radius)
    motion = _motion(rng, travel=(0, -height), cycles=int(rng.integers(2, 5)), ratio=rng.uniform(0.6, 0.9))
    return _Place(radius, x, y, motion)


def _orbits(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng, 0.13, 0.17)
    distance, start = rng.uniform(0.19, 0.29), rng.uniform(0, 2 * np.pi)
    space = distance + radius
    x, y = _anchor(rng, left=space, right=space, above=space, below=space)
    cycles = rng.uniform(1, 1.8) * rng.choice([-1, 1])
    motion = _motion(rng, travel=(distance * np.cos(start), distance * np.sin(start)), cycles=cycles)
    half = float(rng.uniform(0.018, 0.032))
    return _Place(radius, x, y, motion, Block("disc", x, y, half, half, sample_grey(rng, setting)))


def _blinks(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    return _still_place(rng, _radius(rng), _motion(rng, cycles=rng.uniform(2.2, 3.2), ratio=rng.uniform(0, 1)))


def _collides(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng, 0.13, 0.17)
    span, half_depth, half_length = rng.uniform(0.3, 0.45), rng.uniform(0.02, 0.035), rng.uniform(0.15, 0.22)
    along = ((1, 0), (-1, 0), (0, 1), (0, -1))[rng.integers(4)]
    contact = reach(shape, angle, along) * radius
    ahead, aside = span + contact + 2 * half_depth, max(radius, half_length)
    space = {"left": aside, "right": aside, "above": aside, "below": aside}
    front, back = {(1, 0): ("right", "left"), (-1, 0): ("left", "right"), (0, 1): ("below", "above")}.get(along, ("above", "below"))
    x, y = _anchor(rng, **(space | {front: ahead, back: radius}))
    to_wall = span + contact + half_depth
    half_width, half_height = (half_depth, half_length) if along[0] else (half_length, half_depth)
    wall_x, wall_y = x + to_wall * along[0], y + to_wall * along[1]
    wall = Block("bar", wall_x, wall_y, float(half_width), float(half_height), sample_grey(rng, setting))
    motion = _motion(rng, travel=(span * along[0], span * along[1]), ratio=rng.uniform(0.35, 0.65))
    return _Place(radius, x, y, motion, wall)


def _shakes(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng)
    sway = rng.uniform(0.05, 0.08)
    x, y = _anchor(rng, left=radius + sway, right=radius + sway, above=radius, below=radius)
    cycles = rng.uniform(4.8, 6.8) if rng.random() < 0.6 else rng.uniform(9.2, 10.8)
    motion = _motion(rng, travel=(sway, 0))
    active = 1 - motion.lead - motion.tail
    return _Place(radius, x, y, Motion(motion.lead, motion.tail, travel=motion.travel, cycles=float(cycles * active)))


def _rests(rng: np.random.Generator, shape: str, angle: float, setting: Setting) -> _Place:
    radius = _radius(rng)
    sway = rng.uniform(0.006, 0.012)
    x, y = _anchor(rng, left=radius + sway, right=radius + sway, above=radius, below=radius)
    return _Place(radius, x, y, _motion(rng, travel=(sway, 0), cycles=rng.uniform(0.8, 1.6), ratio=rng.uniform(0, 1)))


_SAMPLERS: Final[dict[str, _Sampler]] = {
    "moves left": _moves_left,
    "moves up": _moves_up,
    "grows": _grows,
    "splits": _splits,
    "appears": _appears,
    "spins": _spins,
    "bounces": _bounces,
    "orbits": _orbits,
    "blinks": _blinks,
    "collides": _collides,
    "shakes": _shakes,
    "rests": _rests,
}
assert {REVERSED.get(action.name, action.name) for action in ACTIONS if not action.heard_only} < _SAMPLERS.keys()
