"""The symmetric contrastive loss of image-text pretraining, over all processes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..processes import gather_rows, rank

__all__ = ["contrastive_loss"]


def contrastive_loss(left: Tensor, right: Tensor, scale: Tensor, groups: Tensor | None = None) -> Tensor:
    """Mean of both directions' cross entropy over the batch.

    With several processes every row is contrasted with those of all of them, and the mean is over this process's rows: weighted by their
    numbers of rows, the processes' losses make the loss of the whole batch.

    Args:
        left, right: (batch, width), not normalised; row i of one belongs to row i of the other.
        scale: what multiplies the cosine, a scalar.
        groups: (batch,) integers; rows of one group (the same caption, say) are all right answers for one another and share the
            target, so that a repeated caption is not taught to be its own negative.
    """
    if groups is None:  # each row is its own, by a number that no other process has
        groups = torch.arange(len(left), device=left.device) + (rank() << 32)
    with torch.autocast(left.device.type, enabled=False):  # bfloat16 cannot tell near cosines apart
        left, right = F.normalize(left.float(), dim=-1), F.normalize(right.float(), dim=-1)
        all_left, all_right, all_groups = gather_rows(left, right, groups)
        logits, back = scale.float() * left @ all_right.T, scale.float() * right @ all_left.T
    same = (groups[:, None] == all_groups[None, :]).float()
    targets = same / same.sum(dim=1, keepdim=True)
    return (F.cross_entropy(logits, targets) + F.cross_entropy(back, targets)) / 2
