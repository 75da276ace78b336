"""Scenes to frames: antialiased drawing with numpy.

Only the object's surroundings are drawn anew for each frame; the background is drawn once a clip and shifted by whole
pixels for the camera's jitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.errors import InputError
from watchword.playground.motion import Poses, inner_times, poses
from watchword.playground.scene import Scene
from watchword.playground.setting import RGB, Background, Block, Setting
from watchword.playground.shapes import EXTENT, TABLE_SIZE, distance_table

Frame = NDArray[np.float32]

_RIM: Final = 0.13
_SHADE: Final = 0.62
_SHADOW: Final = 0.3
_NOISE_SPARE: Final = 64


def render_frames(scene: Scene, times_seconds: Sequence[float] | NDArray[np.float64], *, size: int = 128) -> NDArray[np.uint8]:
    """The scene at the given times.

    A frame is a function of (scene, time, size) only, whatever else is rendered with it.

    Args:
        scene: what to show.
        times_seconds: (times,) seconds from the start of the clip, such as ``scene.times``.
        size: side of the square frames in pixels, at least 16.

    Returns:
        uint8 RGB, (times, size, size, 3).
    """
    times = inner_times(scene, np.asarray(times_seconds, np.float64))
    where = poses(scene, np.asarray(times_seconds, np.float64))
    props = () if scene.prop is None else (scene.prop,)
    return paint(scene.setting, props, scene.shape, scene.rgb, where, times, seed=scene.seed, size=size)


def paint(
    setting: Setting,
    props: tuple[Block, ...],
    shape: str,
    rgb: RGB,
    where: Poses,
    times: NDArray[np.float64],
    *,
    seed: int,
    size: int,
) -> NDArray[np.uint8]:
    """Frames of one object in its surroundings, (times, size, size, 3); see `render_frames`."""
    if size < 16:
        raise InputError(f"frames of {size} pixels are too small to draw: use a size of at least 16")
    num_times = len(times)
    camera_x, camera_y, gain = _camera(setting, times)
    shift_x, shift_y = np.rint(camera_x * size).astype(int), np.rint(camera_y * size).astype(int)
    margin = int(np.ceil(setting.jitter * size))
    drifting = [block for block in setting.distractors if block.speed_x or block.speed_y]
    backdrop = _backdrop(setting.background, size, margin)
    for block in (*(block for block in setting.distractors if block not in drifting), *props):
        _draw_block(backdrop, block, 0.0, size, margin)
    frames = np.empty((num_times, size, size, 3), np.float32)
    for index in range(num_times):
        top, left = margin - shift_y[index], margin - shift_x[index]
        frames[index] = backdrop[top : top + size, left : left + size]
    for block in drifting:
        for frame, time, x, y in zip(frames, times, shift_x, shift_y, strict=True):
            _draw_block(frame, block, float(time), size, 0, x, y)
    for copy in range(len(where.x)):
        _draw_object(frames, shape, rgb, where, copy, shift_x, shift_y)
    if setting.flicker:
        frames *= gain[:, None, None, None]
    if setting.noise:
        _add_noise(frames, setting.noise, times, seed)
    np.clip(frames, 0, 255, out=frames)
    return frames.astype(np.uint8)


def _camera(setting: Setting, times: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """The camera's shift in x and y, in frame sides, and the gain of its brightness, each (times,)."""
    first, second, third = (2 * np.pi * phase for phase in setting.phases)
    shift_x = 0.6 * np.sin(8.2 * times + first) + 0.4 * np.sin(17.3 * times + second)
    shift_y = 0.6 * np.sin(7.1 * times + third) + 0.4 * np.sin(19.1 * times + first)
    return setting.jitter * shift_x, setting.jitter * shift_y, 1 + setting.flicker * np.sin(5.3 * times + second)


def _backdrop(background: Background, size: int, margin: int) -> Frame:
    """The background with a margin on each side, (size + 2 * margin, size + 2 * margin, 3)."""
    axis = ((np.arange(-margin, size + margin) + 0.5) / size - 0.5).astype(np.float32)
    x, y = axis[None, :], axis[:, None]
    cos, sin = np.float32(np.cos(background.angle)), np.float32(np.sin(background.angle))
    along, across = cos * x + sin * y, cos * y - sin * x
    sharpness = size / background.cells / 2
    match background.kind:
        case "plain":
            mix = np.zeros_like(along)
        case "gradient":
            mix = along + np.float32(0.5)
        case "checker":
            waves = np.sin(np.pi * background.cells * along) * np.sin(np.pi * background.cells * across)
            mix = np.clip(0.5 + sharpness * waves, 0, 1)
        case "stripes":
            mix = np.clip(0.5 + sharpness * np.sin(np.pi * background.cells * along), 0, 1)
        case "blobs":
            mix = _blobs(axis, 6, background.seed)
        case "texture":
            mix = _blobs(axis, 28, background.seed)
    first, second = np.array(background.first, np.float32), np.array(background.second, np.float32)
    backdrop: Frame = first + np.clip(mix, 0, 1).astype(np.float32)[..., None] * (second - first)
    return backdrop


def _blobs(axis: Frame, cells: int, seed: int) -> Frame:
    """Smooth random patches, about `cells` a frame side, in about [0, 1]."""
    grid = np.random.Generator(np.random.Philox(seed)).uniform(-0.6, 1.6, (cells + 3, cells + 3))
    knots = (np.arange(cells + 3) - 1) / cells - 0.5
    weights = np.exp(-(((axis[:, None] - knots) * cells / 0.75) ** 2))
    weights /= weights.sum(axis=1, keepdims=True)
    blobs: Frame = (weights @ grid @ weights.T).astype(np.float32)
    return blobs


def _draw_block(frame: Frame, block: Block, time: float, size: int, margin: int, shift_x: int = 0, shift_y: int = 0) -> None:
    center_x = (block.x + block.speed_x * time) * size + margin + shift_x - 0.5
    center_y = (block.y + block.speed_y * time) * size + margin + shift_y - 0.5
    half_width, half_height = block.half_width * size, block.half_height * size
    left, right = (int(np.clip(center_x + side * (half_width + 2), 0, frame.shape[1])) for side in (-1, 1))
    top, bottom = (int(np.clip(center_y + side * (half_height + 2), 0, frame.shape[0])) for side in (-1, 1))
    x = np.abs(np.arange(left, right, dtype=np.float32) - center_x)[None, :]
    y = np.abs(np.arange(top, bottom, dtype=np.float32) - center_y)[:, None]
    if block.kind == "disc":
        cover = np.clip(half_width + 0.5 - np.hypot(x, y), 0, 1)
    else:
        cover = np.clip(half_width + 0.5 - x, 0, 1) * np.clip(half_height + 0.5 - y, 0, 1)
    region = frame[top:bottom, left:right]
    region += cover.astype(np.float32)[..., None] * (np.float32(block.grey) - region)


def _draw_object(
    frames: Frame,
    shape: str,
    rgb: RGB,
    where: Poses,
    copy: int,
    shift_x: NDArray[np.int_],
    shift_y: NDArray[np.int_],
) -> None:
    """Draw one copy of the object, with a darker rim and a soft shadow around it, into all frames."""
    size = frames.shape[1]
    shown = np.flatnonzero(where.opacity[copy] > 0)
    if not len(shown):
        return
    radius = (where.radius[copy, shown] * size).astype(np.float32)[:, None, None]
    center_x = where.x[copy, shown] * size + shift_x[shown] - 0.5
    center_y = where.y[copy, shown] * size + shift_y[shown] - 0.5
    half = int(np.ceil(radius.max() * EXTENT))
    left, top = np.rint(center_x).astype(int) - half, np.rint(center_y).astype(int) - half
    steps = np.arange(2 * half + 1)
    x = (left[:, None] + steps - center_x[:, None]).astype(np.float32)[:, None, :]
    y = (top[:, None] + steps - center_y[:, None]).astype(np.float32)[:, :, None]
    scale = TABLE_SIZE / (2 * EXTENT) / radius
    angle = where.angle[copy, shown].astype(np.float32)[:, None, None]
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    column = np.clip(cos * x + (sin * y + np.float32(TABLE_SIZE / 2)), 0, TABLE_SIZE - 1).astype(np.int32)
    row = np.clip(cos * y - (sin * x - np.float32(TABLE_SIZE / 2)), 0, TABLE_SIZE - 1).astype(np.int32)
    distance = distance_table(shape).ravel()[row * TABLE_SIZE + column]

    opacity = where.opacity[copy, shown].astype(np.float32)[:, None, None]
    cover = np.clip(0.5 - distance * radius, 0, 1) * opacity
    inner = np.clip(0.5 - (distance + np.float32(_RIM)) * radius, 0, 1)
    shadow = np.clip(1 - distance / np.float32(EXTENT - 1), 0, 1)
    kept = (1 - cover) * (1 - np.float32(_SHADOW) * opacity * shadow * shadow)
    strength = cover * (np.float32(_SHADE) + np.float32(1 - _SHADE) * inner)
    added = strength[..., None] * np.array(rgb, np.float32)
    for index, box_top, box_left, box_kept, box_added in zip(shown, top, left, kept, added, strict=True):
        y0, x0 = max(0, -box_top), max(0, -box_left)
        region = frames[index, box_top + y0 : box_top + len(steps), box_left + x0 : box_left + len(steps)]
        height, width = region.shape[:2]
        region *= box_kept[y0 : y0 + height, x0 : x0 + width, None]
        region += box_added[y0 : y0 + height, x0 : x0 + width]


@lru_cache(maxsize=4)
def _noise_tile(size: int) -> Frame:
    side = size + _NOISE_SPARE
    return np.random.Generator(np.random.Philox(0)).standard_normal((side, side, 3), dtype=np.float32)


def _add_noise(frames: Frame, noise: float, times: NDArray[np.float64], seed: int) -> None:
    """Add pixel noise: windows of one fixed tile of noise, at places that depend on the seed and the time only."""
    size = frames.shape[1]
    tile = _noise_tile(size) * np.float32(noise)
    for frame, time in zip(frames, times, strict=True):
        mixed = (seed * 2654435761 + round(float(time) * 1000) * 40503) & 0xFFFFFFFF
        top, left = (mixed * 2246822519 >> 8) % _NOISE_SPARE, (mixed * 3266489917 >> 16) % _NOISE_SPARE
        frame += tile[top : top + size, left : left + size]
