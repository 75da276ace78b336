"""Where tokens stand: the coordinates that each encoder's attention is told (spec section 2.3), shape (length, coordinates)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..layers import Rotary, rotary_angles
from .config import ReserveConfig

__all__ = ["audio_coordinates", "grid_coordinates", "joint_coordinates", "rotary_of", "span_coordinates"]

ROTARY_FEATURES = 32  # of every head, the first ones
SEGMENT_UNIT = 16
TOKEN_UNIT = 1024
SPAN_UNIT = 16


def rotary_of(coordinates: Tensor, config: ReserveConfig) -> Rotary:
    """Coordinates (L, k) or (B, L, k) -> what they do to queries and keys of (B, heads, L, head_size)."""
    angles = rotary_angles(coordinates, min(ROTARY_FEATURES, config.head_size))
    if angles.ndim == 3:
        angles = angles[:, None]
    scheme = Rotary.released_scaling if config.rotary == "released" else Rotary.rotation
    return scheme(angles, config.head_size)


def centred(count: int, device: torch.device | None = None) -> Tensor:
    """-(count // 2), ..., -1, 1, ...: zero is skipped, it is the CLS token's place."""
    places = torch.arange(count, device=device) - count // 2
    return (places + (places >= 0)).float()


def grid_coordinates(grid: tuple[int, int], device: torch.device | None = None) -> Tensor:
    """(row, column) of each patch, row by row, (rows x columns, 2)."""
    rows, columns = (centred(side, device) / (max(grid) + 1) for side in grid)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).flatten(0, 1)


def audio_coordinates(num_tokens: int, device: torch.device | None = None) -> Tensor:
    return centred(num_tokens, device)[:, None] / num_tokens


def span_coordinates(num_tokens: int, device: torch.device | None = None) -> Tensor:
    return torch.arange(1, num_tokens + 1, device=device)[:, None] / SPAN_UNIT


def joint_coordinates(
    segments: Tensor | None, language_length: int, frame_grid: tuple[int, int], frame_segments: Tensor, device: torch.device | None = None
) -> Tensor:
    """(row, column, segment, token) of the language part and then of the frames' pooled tokens.

    Args:
        segments: (B, L) whole numbers, or None: the language part has no segment, which is coordinate 0.
        frame_grid: of the pooled tokens of a frame.
        frame_segments: (S,), the segment of each frame.

    Returns (B, L + S x rows x columns, 4); B is 1 if ``segments`` is None.
    """
    if segments is None:
        segments = torch.zeros(1, language_length, device=device)
    batch = segments.shape[0]
    language = torch.zeros(batch, language_length, 4, device=device)
    language[..., 2] = segments / SEGMENT_UNIT
    language[..., 3] = torch.arange(1, language_length + 1, device=device) / TOKEN_UNIT
    places = grid_coordinates(frame_grid, device)
    frames = torch.zeros(len(frame_segments), len(places), 4, device=device)
    frames[..., :2] = places
    frames[..., 2] = frame_segments[:, None] / SEGMENT_UNIT
    return torch.cat([language, frames.flatten(0, 1).expand(batch, -1, -1)], dim=1)
