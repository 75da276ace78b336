"""What each action shows is measured from the pixels: the object is where the picture differs from an empty one."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from watchword.errors import InputError
from watchword.playground import HEARD_ACTIONS, SEEN_ACTIONS, Scene, render_frames, sample_scene
from watchword.playground.motion import event_times, poses
from watchword.playground.scene import MARGIN
from watchword.playground.shapes import reach
from watchword.playground.world import REVERSED

SEEDS = range(4)
NUM_FRAMES = 8


def plain(scene: Scene) -> Scene:
    """The scene in front of a plain grey, without anything else that changes."""
    background = replace(scene.setting.background, kind="plain", first=(128.0,) * 3)
    setting = replace(scene.setting, background=background, distractors=(), noise=0.0, jitter=0.0, flicker=0.0)
    return replace(scene, setting=setting, prop=None)


def masks(scene: Scene) -> NDArray[np.bool_]:
    """Where the object is in eight evenly spaced frames, (8, 96, 96), from its saturated colour."""
    frames = render_frames(plain(scene), scene.times[1::3], size=96).astype(int)
    assert len(frames) == NUM_FRAMES
    seen: NDArray[np.bool_] = np.ptp(frames, axis=-1) > 12
    return seen


def centroids(scene: Scene) -> NDArray[np.float64]:
    """Centre of the object in each of the eight frames, (8, 2) as x, y in frame sides."""
    return np.array([np.argwhere(mask).mean(axis=0)[::-1] / 96 for mask in masks(scene)])


def areas(scene: Scene) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = masks(scene).sum(axis=(1, 2)).astype(np.float64)
    return sums


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("action", "axis", "sign"),
    [("moves left", 0, -1), ("moves right", 0, 1), ("moves up", 1, -1), ("moves down", 1, 1)],
)
def test_moves(seed: int, action: str, axis: int, sign: int) -> None:
    places = centroids(sample_scene(seed, action=action))
    steps = np.diff(places[:, axis]) * sign
    assert steps.min() > -0.005
    assert steps.sum() > 0.3
    assert np.ptp(places[:, 1 - axis]) < 0.08


@pytest.mark.parametrize("seed", SEEDS)
def test_grows_and_shrinks(seed: int) -> None:
    grown, shrunk = (areas(sample_scene(seed, action=action)) for action in ("grows", "shrinks"))
    assert np.all(np.diff(grown) >= -4)
    assert grown[-1] > 2.5 * grown[0]
    assert np.all(np.diff(shrunk) <= 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_appears_vanishes_and_blinks(seed: int) -> None:
    appeared = areas(sample_scene(seed, action="appears"))
    assert appeared[0] < appeared[-1]
    vanished = areas(sample_scene(seed, action="vanishes"))
    assert vanished[0] > vanished[-1]
    shown = areas(sample_scene(seed, action="blinks")) > 0
    assert 2 <= shown.sum() <= 6
    assert np.abs(np.diff(shown.astype(int))).sum() >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_splits_into_two(seed: int) -> None:
    seen = masks(sample_scene(seed, shape="square", action="splits"))
    spreads = [np.argwhere(mask).std(axis=0).max() for mask in seen]
    assert spreads[-1] > 1.8 * spreads[0]
    last = sample_scene(seed, action="splits")
    where = poses(last, last.times)
    gap = np.hypot(where.x[0] - where.x[1], where.y[0] - where.y[1])
    assert gap[0] == 0
    assert gap[-1] > 2 * where.radius[0, -1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", ["square", "star", "triangle", "moon"])
def test_spins_in_place_and_looks_different_each_time(seed: int, shape: str) -> None:
    seen = masks(sample_scene(seed, shape=shape, action="spins"))
    places = np.array([np.argwhere(mask).mean(axis=0) for mask in seen])
    assert np.ptp(places, axis=0).max() < 2
    changes = [(first ^ second).sum() for first, second in itertools.pairwise(seen)]
    assert np.median(changes) > 0.05 * seen[0].sum()


@pytest.mark.parametrize("seed", SEEDS)
def test_bounces_up_and_down(seed: int) -> None:
    scene = sample_scene(seed, action="bounces")
    where = poses(scene, np.linspace(0, scene.times[-1], 200))
    assert np.ptp(where.x) == 0
    contacts = event_times(scene)
    assert 2 <= len(contacts) <= 4
    heights = scene.y - poses(scene, np.array(contacts)).y
    assert np.abs(heights).max() < 1e-9
    assert np.ptp(centroids(scene)[:, 1]) > 0.15


@pytest.mark.parametrize("seed", SEEDS)
def test_orbits_around_its_post(seed: int) -> None:
    scene = sample_scene(seed, action="orbits")
    assert scene.prop is not None
    away = centroids(scene) - (scene.prop.x, scene.prop.y)
    distance = np.hypot(*away.T)
    assert np.ptp(distance) < 0.02
    assert (np.ptp(away, axis=0) > 1.2 * distance.mean()).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_collides_with_a_wall_and_is_thrown_back(seed: int) -> None:
    scene = sample_scene(seed, action="collides")
    assert scene.prop is not None
    where = poses(scene, np.linspace(0, scene.times[-1], 400))
    distance = np.hypot(where.x[0] - scene.prop.x, where.y[0] - scene.prop.y)
    impact = int(distance.argmin())
    assert abs(np.linspace(0, scene.times[-1], 400)[impact] - event_times(scene)[0]) < 0.02
    assert distance[0] > distance[-1] > distance[impact] + 0.08


@pytest.mark.parametrize("seed", SEEDS)
def test_shakes_less_than_a_move_but_more_than_at_rest(seed: int) -> None:
    width = np.ptp(centroids(sample_scene(seed, action="shakes"))[:, 0])
    assert 0.05 < width < 0.2
    assert np.ptp(centroids(sample_scene(seed, action="rings")), axis=0).max() < 0.03


@pytest.mark.parametrize("seed", range(20))
def test_the_object_stays_inside_the_frame(seed: int) -> None:
    for action in SEEN_ACTIONS:
        scene = sample_scene(seed, action=action)
        where = poses(scene, np.linspace(0, scene.times[-1], 50))
        for place, step in ((where.x, (1.0, 0.0)), (where.y, (0.0, 1.0))):
            behind, ahead = (where.radius * reaches(scene.shape, where.angle, (sign * step[0], sign * step[1])) for sign in (-1, 1))
            assert (place - behind).min() > MARGIN - 1e-6
            assert (place + ahead).max() < 1 - MARGIN + 1e-6


def reaches(shape: str, angles: NDArray[np.float64], direction: tuple[float, float]) -> NDArray[np.float64]:
    return np.array([reach(shape, angle, direction) for angle in angles.flat]).reshape(angles.shape)


@pytest.mark.parametrize("seed", range(12))
def test_opposite_actions_show_the_same_frames_in_opposite_order(seed: int) -> None:
    for backward, forward in REVERSED.items():
        one, other = (sample_scene(seed, shape="heart", colour="red", action=name) for name in (forward, backward))
        first, second = (render_frames(scene, scene.times, size=48) for scene in (one, other))
        assert not np.array_equal(first[0], first[-1])
        np.testing.assert_array_equal(first, second[::-1])


def test_actions_that_are_only_heard_look_the_same() -> None:
    clips = []
    for action in HEARD_ACTIONS:
        scene = sample_scene(3, shape="star", colour="blue", action=action)
        clips.append(render_frames(scene, scene.times, size=48))
    for clip in clips[1:]:
        np.testing.assert_array_equal(clip, clips[0])


def test_a_seed_fixes_every_byte_and_a_frame_is_the_same_whatever_else_is_rendered() -> None:
    for seed in range(8):
        scene = sample_scene(seed)
        assert scene == sample_scene(seed)
        frames = render_frames(scene, scene.times, size=64)
        assert frames.shape == (24, 64, 64, 3)
        assert frames.dtype == np.uint8
        np.testing.assert_array_equal(frames[[5, 2]], render_frames(scene, scene.times[[5, 2]], size=64))
    assert sample_scene(1) != sample_scene(2)


def test_sizes_agree() -> None:
    scene = replace(sample_scene(5), setting=plain(sample_scene(5)).setting)
    small = render_frames(scene, [1.0], size=64)[0].astype(float)
    large = render_frames(scene, [1.0], size=256)[0].astype(float).reshape(64, 4, 64, 4, 3).mean(axis=(1, 3))
    assert np.abs(small - large).mean() < 1.0


def test_a_scene_is_plain_data() -> None:
    for action in ("collides", "spins"):
        assert json.loads(json.dumps(sample_scene(1, action=action).as_dict()))["action"] == action


def test_unusable_requests_are_refused() -> None:
    with pytest.raises(InputError, match="fewer than 2 frames"):
        sample_scene(0, duration_seconds=0.1)
    with pytest.raises(InputError, match="seed cannot be -1"):
        sample_scene(-1)
    with pytest.raises(InputError, match="at least 16"):
        render_frames(sample_scene(0), [0.0], size=8)
