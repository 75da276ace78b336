"""Positions told to attention by what they do to queries and keys: rotary embedding, and the scheme MERLOT Reserve was released with."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Rotary", "rotary_angles"]


def rotary_angles(coordinates: Tensor, num_features: int, *, highest: float = 5.0) -> Tensor:
    """Angles (..., num_features) of coordinates (..., k), in radians (Reserve spec section 2.2).

    Each coordinate has num_features / 2k frequencies, spaced evenly in the logarithm from 1 to ``highest``; the angle is
    pi * coordinate * frequency. Features run through the frequencies of the first coordinate, then of the second, and so on, two
    neighbouring features sharing an angle.
    """
    num_coordinates = coordinates.shape[-1]
    if num_features % (2 * num_coordinates):
        raise ValueError(f"{num_features} rotary features cannot be shared by {num_coordinates} coordinates in pairs")
    num_frequencies = num_features // (2 * num_coordinates)
    frequencies = 2 ** torch.linspace(0, math.log2(highest), num_frequencies, device=coordinates.device)
    angles = coordinates[..., None].float() * frequencies * torch.pi
    return angles.flatten(-2).repeat_interleave(2, dim=-1)


@dataclass(frozen=True)
class Rotary:
    """What a token's place does to its query and key: each feature becomes ``own`` times itself plus ``partner`` times the other feature
    of its pair (2j, 2j+1).

    Attributes:
        own: (..., length, head_size), broadcasting to (batch, heads, length, head_size).
        partner: the same shape, or None if the other feature has no part.
    """

    own: Tensor
    partner: Tensor | None = None

    @classmethod
    def rotation(cls, angles: Tensor, head_size: int) -> Rotary:
        """Rotary embedding proper: pair j is turned by its angle; features beyond those of ``angles`` stay as they are."""
        sine = angles.sin()
        signed = torch.stack([-sine[..., ::2], sine[..., 1::2]], -1).flatten(-2)
        return cls(_filled(angles.cos(), head_size, 1.0), _filled(signed, head_size, 0.0))

    @classmethod
    def released_scaling(cls, angles: Tensor, head_size: int) -> Rotary:
        """What the released MERLOT Reserve weights were trained with (spec section 2.2): not a rotation.

        That code takes the sines for cosines and the other way round, and does not swap the members of a pair, so that each feature is
        only scaled: even ones by sin - cos, odd ones by sin + cos.
        """
        sine, cosine = angles.sin(), angles.cos()
        # The deviation: a rotation would have ``cosine`` here and give the pair's other feature a share of ``sine``.
        own = torch.stack([sine[..., ::2] - cosine[..., ::2], sine[..., 1::2] + cosine[..., 1::2]], -1).flatten(-2)
        return cls(_filled(own, head_size, 1.0))

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, heads, length, head_size) -> the same shape and dtype."""
        placed = x * self.own.to(x.dtype)
        if self.partner is None:
            return placed
        swapped = x.reshape(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)
        return placed + swapped * self.partner.to(x.dtype)


def _filled(factors: Tensor, head_size: int, value: float) -> Tensor:
    """The factors, followed by ``value`` for the features that have none."""
    return torch.nn.functional.pad(factors, (0, head_size - factors.shape[-1]), value=value)
