"""The symmetric contrastive loss of image-text pretraining."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["contrastive_loss"]


def contrastive_loss(left: Tensor, right: Tensor, scale: Tensor, groups: Tensor | None = None) -> Tensor:
    """Mean of both directions' cross entropy over the batch.

    Args:
        left, right: (batch, width), not normalised; row i of one belongs to row i of the other.
        scale: what multiplies the cosine, a scalar.
        groups: (batch,) integers; rows of one group (the same caption, say) are all right answers for one another and share the
            target, so that a repeated caption is not taught to be its own negative.
    """
    with torch.autocast(left.device.type, enabled=False):  # bfloat16 cannot tell near cosines apart
        logits = scale.float() * F.normalize(left.float(), dim=-1) @ F.normalize(right.float(), dim=-1).T
    if groups is None:
        groups = torch.arange(len(left), device=left.device)
    same = (groups[:, None] == groups[None, :]).float()
    targets = same / same.sum(dim=1, keepdim=True)
    return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.T, targets)) / 2
