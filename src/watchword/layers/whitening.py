"""A first linear map that gives about uncorrelated outputs: what the first layer of a small model should not have to learn."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["whitening"]


@torch.no_grad()
def whitening(rows: Tensor, width: int, floor: float) -> Tensor:
    """A (width, features) map under which ``rows`` (n, features) get about uncorrelated outputs of variance one (about zero, not the mean).

    Else what all features have in common, such as a patch's mean colour, drowns what tells them apart. Directions whose variance is below
    ``floor``, noise mostly, are left small. The ``width`` strongest directions are kept, turned by a random rotation from torch's global
    generator.
    """
    variances, directions = torch.linalg.eigh(rows.T @ rows / len(rows))
    kept = (directions / (variances.clamp(min=0) + floor).sqrt()).T.flip(0)[:width]
    rotation = torch.linalg.qr(torch.randn(width, len(kept)))[0]
    turned: Tensor = rotation @ kept
    return turned
