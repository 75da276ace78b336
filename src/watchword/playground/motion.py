"""Where the object of a scene is at each time, and when something sudden happens to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.playground.scene import Scene
from watchword.playground.world import REVERSED, find_action

Floats = NDArray[np.float64]

HALF_RADIUS: Final = 0.68
"""Radius of each half of a split object, relative to the whole: about half its area."""

_APPROACH: Final = 0.55
"""Share of a collision before the impact."""


@dataclass(frozen=True)
class Poses:
    """Places of one or two copies of the object: every field is (copies, times); angles clockwise in radians."""

    x: Floats
    y: Floats
    radius: Floats
    angle: Floats
    opacity: Floats


def inner_times(scene: Scene, times_seconds: Floats) -> Floats:
    """The scene's own time at each time of the clip: it runs backwards in a reversed scene."""
    return (scene.num_frames - 1) / scene.fps - times_seconds if scene.backwards else times_seconds


def action_span(scene: Scene) -> tuple[float, float]:
    """When the action begins and ends, in seconds of the clip."""
    last = (scene.num_frames - 1) / scene.fps
    lead, tail = scene.motion.lead, scene.motion.tail
    return (last * tail, last * (1 - lead)) if scene.backwards else (last * lead, last * (1 - tail))


def poses(scene: Scene, times_seconds: Floats) -> Poses:
    """The object at each time, (copies, times); the places are where it is, whether visible or not.

    Args:
        scene: the scene.
        times_seconds: (times,) seconds from the start of the clip.
    """
    motion = scene.motion
    last = (scene.num_frames - 1) / scene.fps
    share = (inner_times(scene, times_seconds) / last - motion.lead) / (1 - motion.lead - motion.tail)
    action = find_action(scene.action)
    base = "rests" if action.heard_only else REVERSED.get(action.name, action.name)
    return _MOTIONS[base](scene, np.clip(share, 0, 1))


def event_times(scene: Scene) -> list[float]:
    """When the object touches the floor or the wall, or starts to blink on or off, in seconds of the clip."""
    begin, end = action_span(scene)
    motion = scene.motion
    match scene.action:
        case "bounces":
            shares = _contacts(int(motion.cycles), motion.ratio)[1:]
        case "collides":
            shares = np.array([_APPROACH])
        case "blinks":
            toggles = np.arange(np.ceil(2 * motion.ratio), 2 * (motion.cycles + motion.ratio))
            shares = (toggles / 2 - motion.ratio) / motion.cycles
        case _:
            return []
    return [begin + (end - begin) * float(share) for share in shares]


def _progress(scene: Scene, share: Floats) -> Floats:
    match scene.motion.profile:
        case "linear":
            return share
        case "smooth":
            return share * share * (3 - 2 * share)
        case "ease in":
            return 0.4 * share + 0.6 * share * share
        case "ease out":
            return 1.6 * share - 0.6 * share * share


def _poses(
    scene: Scene,
    share: Floats,
    *,
    x: Floats | float = 0.0,
    y: Floats | float = 0.0,
    scale: Floats | float = 1.0,
    turn: Floats | float = 0.0,
    opacity: Floats | float = 1.0,
) -> Poses:
    """Poses from what differs from the scene's resting place; fields (copies, times), (times,) or single."""
    fields = np.broadcast_arrays(scene.x + x, scene.y + y, scene.radius * scale, scene.angle + turn, opacity, share[None, :])
    return Poses(*fields[:5])


def _moves(scene: Scene, share: Floats) -> Poses:
    progress = _progress(scene, share)
    return _poses(scene, share, x=scene.motion.travel[0] * progress, y=scene.motion.travel[1] * progress)


def _grows(scene: Scene, share: Floats) -> Poses:
    return _poses(scene, share, scale=1 + (scene.motion.ratio - 1) * _progress(scene, share))


def _splits(scene: Scene, share: Floats) -> Poses:
    progress = _progress(scene, share)
    sides = np.array([[-1.0], [1.0]]) * progress
    scale = 1 - (1 - HALF_RADIUS) * np.minimum(1, progress / 0.25)
    return _poses(scene, share, x=scene.motion.travel[0] * sides, y=scene.motion.travel[1] * sides, scale=scale)


def _appears(scene: Scene, share: Floats) -> Poses:
    return _poses(scene, share, opacity=_progress(scene, share))


def _spins(scene: Scene, share: Floats) -> Poses:
    return _poses(scene, share, turn=2 * np.pi * scene.motion.cycles * share)


def _bounces(scene: Scene, share: Floats) -> Poses:
    motion = scene.motion
    contacts = _contacts(int(motion.cycles), motion.ratio)
    hop = np.clip(np.searchsorted(contacts, share, side="right") - 1, 0, len(contacts) - 2)
    along = (share - contacts[hop]) / (contacts[hop + 1] - contacts[hop])
    return _poses(scene, share, y=motion.travel[1] * motion.ratio**hop * 4 * along * (1 - along))


def _contacts(num_hops: int, ratio: float) -> Floats:
    """When the object touches the floor, from 0 to 1: under gravity a hop lasts as the root of its height."""
    lengths = np.sqrt(ratio) ** np.arange(num_hops)
    return np.concatenate([[0.0], np.cumsum(lengths) / lengths.sum()])


def _orbits(scene: Scene, share: Floats) -> Poses:
    motion = scene.motion
    offset = complex(*motion.travel) * np.exp(2j * np.pi * motion.cycles * share)
    return _poses(scene, share, x=offset.real, y=offset.imag)


def _blinks(scene: Scene, share: Floats) -> Poses:
    shown = (scene.motion.cycles * share + scene.motion.ratio) % 1 < 0.5
    return _poses(scene, share, opacity=shown.astype(float))


def _collides(scene: Scene, share: Floats) -> Poses:
    approach = np.minimum(share / _APPROACH, 1)
    back = np.clip((share - _APPROACH) / (1 - _APPROACH), 0, 1)
    progress = approach * (0.7 + 0.3 * approach) - scene.motion.ratio * back * (2 - back)
    return _poses(scene, share, x=scene.motion.travel[0] * progress, y=scene.motion.travel[1] * progress)


def _shakes(scene: Scene, share: Floats) -> Poses:
    return _poses(scene, share, x=scene.motion.travel[0] * np.sin(2 * np.pi * scene.motion.cycles * share))


def _rests(scene: Scene, share: Floats) -> Poses:
    wave = np.sin(2 * np.pi * (scene.motion.cycles * share + scene.motion.ratio))
    return _poses(scene, share, x=scene.motion.travel[0] * wave)


_MOTIONS: Final[dict[str, Callable[[Scene, Floats], Poses]]] = {
    "moves left": _moves,
    "moves up": _moves,
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
