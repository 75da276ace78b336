"""The outlines of the shapes, and their signed distance tables for antialiased drawing."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

EXTENT: Final = 1.3
"""A distance table covers [-EXTENT, EXTENT] squared, in units of the shape's radius: the shape and a soft rim."""

TABLE_SIZE: Final = 512

FOLDS: Final = {"square": 4, "triangle": 3, "star": 5, "heart": 1, "cross": 4, "moon": 1}
"""How many times in a full turn a shape looks the same."""


@cache
def outline(shape: str) -> NDArray[np.float32]:
    """Corners of an upright shape, (corners, 2), x to the right, y down, centroid at 0, the furthest corner at 1."""
    corners = _OUTLINES[shape]()
    x, y = corners.T
    next_x, next_y = np.roll(corners, -1, axis=0).T
    cross = x * next_y - next_x * y
    centroid = np.array([((x + next_x) * cross).sum(), ((y + next_y) * cross).sum()]) / (3 * cross.sum())
    corners = corners - centroid
    scaled: NDArray[np.float32] = (corners / np.hypot(*corners.T).max()).astype(np.float32)
    return scaled


def reach(shape: str, angle: float, direction: tuple[float, float]) -> float:
    """How far a shape of radius 1, turned by `angle` radians, reaches from its centre in a (unit) direction."""
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = outline(shape).T
    return float((direction[0] * (cos * x - sin * y) + direction[1] * (sin * x + cos * y)).max())


@cache
def distance_table(shape: str) -> NDArray[np.float32]:
    """Signed distance to the outline, negative inside, (TABLE_SIZE, TABLE_SIZE), in units of the shape's radius."""
    axis = (((np.arange(TABLE_SIZE) + 0.5) / TABLE_SIZE * 2 - 1) * EXTENT).astype(np.float32)
    x, y = axis[None, :], axis[:, None]
    squared = np.full((TABLE_SIZE, TABLE_SIZE), np.inf, np.float32)
    inside = np.zeros((TABLE_SIZE, TABLE_SIZE), bool)
    corners = outline(shape)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        ex, ey = bx - ax, by - ay
        along = np.clip(((x - ax) * ex + (y - ay) * ey) / (ex * ex + ey * ey), 0, 1)
        np.minimum(squared, (x - ax - along * ex) ** 2 + (y - ay - along * ey) ** 2, out=squared)
        if ey != 0:
            inside ^= ((y >= ay) != (y >= by)) & (x < ax + (y - ay) * (ex / ey))
    distance: NDArray[np.float32] = np.sqrt(squared)
    return np.where(inside, -distance, distance)


def _ring(angles: NDArray[np.float64], radii: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.stack([radii * np.sin(angles), -radii * np.cos(angles)], axis=1)


def _square() -> NDArray[np.float64]:
    return _ring((np.arange(4) + 0.5) * np.pi / 2, 1.0)


def _triangle() -> NDArray[np.float64]:
    return _ring(np.arange(3) * 2 * np.pi / 3, 1.0)


def _star() -> NDArray[np.float64]:
    return _ring(np.arange(10) * np.pi / 5, np.where(np.arange(10) % 2, 0.45, 1.0))


def _cross() -> NDArray[np.float64]:
    arm = np.array([[-0.33, -1.0], [0.33, -1.0], [0.33, -0.33]])
    turns = [np.array([[c, -s], [s, c]]) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    return np.concatenate([arm @ turn.T for turn in turns])


def _heart() -> NDArray[np.float64]:
    t = np.arange(48) * 2 * np.pi / 48
    x = 16 * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return np.stack([x, -y], axis=1)


def _moon() -> NDArray[np.float64]:
    offset, inner = 0.56, 0.74
    tip = np.array([(1 + offset**2 - inner**2) / (2 * offset), 0.0])
    tip[1] = np.sqrt(1 - tip[0] ** 2)
    outer_angle, inner_angle = np.arctan2(tip[1], tip[0]), np.arctan2(tip[1], tip[0] - offset)
    outer_angles = np.linspace(outer_angle, 2 * np.pi - outer_angle, 32)
    inner_angles = np.linspace(2 * np.pi - inner_angle, inner_angle, 24)[1:-1]
    outer_arc = np.stack([np.cos(outer_angles), np.sin(outer_angles)], axis=1)
    inner_arc = np.stack([offset + inner * np.cos(inner_angles), inner * np.sin(inner_angles)], axis=1)
    return np.concatenate([outer_arc, inner_arc])


_OUTLINES: Final = {
    "square": _square,
    "triangle": _triangle,
    "star": _star,
    "heart": _heart,
    "cross": _cross,
    "moon": _moon,
}
