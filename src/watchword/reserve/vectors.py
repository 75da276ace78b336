"""Vectors that are compared: brought to unit length, and read off the positions that stand for a blank."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["sum_by_pointer", "unit_normalize"]


def unit_normalize(x: Tensor) -> Tensor:
    """x / sqrt(sum(x^2) + 1e-5) over the last axis, in float32 (spec section 2.5). Zero stays zero, other lengths stay just below 1."""
    wide = x.float()
    return (wide * (wide.square().sum(dim=-1, keepdim=True) + 1e-5).rsqrt()).to(x.dtype)


def sum_by_pointer(vectors: Tensor, chosen: Tensor, pointers: Tensor, num_examples: int, num_slots: int) -> tuple[Tensor, Tensor]:
    """Sum the chosen rows of each example into the slots they point at (spec section 4.3).

    Args:
        vectors: (B, L, width); the B sequences are those of ``num_examples`` examples, in order.
        chosen: (B, L), true where a row counts.
        pointers: (B, L), the slot of each row; what points to none (-1, or out of range) adds nothing.

    Returns the sums (num_examples, num_slots, width) and how many rows each slot got (num_examples, num_slots).
    """
    places = pointers.reshape(num_examples, -1, 1)
    counts = chosen.reshape(num_examples, -1, 1).bool() & (places == torch.arange(num_slots, device=places.device))
    one_hot = counts.to(vectors.dtype)
    return one_hot.transpose(1, 2) @ vectors.reshape(num_examples, -1, vectors.shape[-1]), counts.sum(dim=1)
