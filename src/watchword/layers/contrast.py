"""The symmetric contrastive losses, over all processes: of image-text pairs, and of vectors with further candidates."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..processes import gather, gather_rows, rank

__all__ = ["candidate_loss", "contrastive_loss"]


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


def candidate_loss(
    x: Tensor, y: Tensor, extra: Tensor | None = None, *, also: Tensor | None = None, chunk_rows: int | None = None
) -> tuple[Tensor, Tensor]:
    """Mean of both directions' cross entropy of pairs of vectors that are scaled already (MERLOT Reserve; its spec, section 4.5).

    Row i of x is to find row i of y among the rows of y and ``extra`` of all processes, and row i of y that of x among those of x. The
    mean is over this process's rows, as of ``contrastive_loss``. Computed in float32, whatever the input.

    Args:
        x, y: (batch, width).
        extra: (any number, width), which y's side has besides and which belong to no x.
        also: (batch, batch), which rows of y are right for each x besides its own, and of x for each y: the loss is of the sum of the
            probabilities of all right ones. Not in chunks.
        chunk_rows: so many rows are compared with the candidates at a time, and the matrix of all with all is never held. The gradients
            are made along with the loss, in the same pass and the same number of products, so they take the memory of the candidates
            from then on; equal to about 1e-6. There are no second derivatives. None: the whole matrix.

    Returns the loss, a scalar, and the loss of each row (batch,), which has no gradient.
    """
    with torch.autocast(x.device.type, enabled=False):
        own_x = x.float()
        own_y = y.float() if extra is None else torch.cat([y.float(), extra.float()])
        (all_x,), (all_y,) = gather_rows(own_x), gather_rows(own_y)  # apart: gather_rows takes one number of rows for all it is given
        starts = [sum(sizes[: rank()]) for sizes in zip(*gather((len(own_x), len(own_y))), strict=True)]
        here, there = (slice(start, start + len(x)) for start in starts)
        if chunk_rows is not None and also is None:
            with_gradients = torch.is_grad_enabled() and (all_x.requires_grad or all_y.requires_grad)
            return _ChunkedLoss.apply(all_x, all_y, here, there, chunk_rows, with_gradients)  # type: ignore[no-untyped-call, no-any-return]
        left, right = all_x[here], all_y[there]
        if also is not None:
            rows = (_any_right(left @ all_y.T, there.start, also) + _any_right(right @ all_x.T, here.start, also.T)) / 2
            return rows.mean(), rows.detach()
        to_y, to_x = (torch.arange(own.start, own.stop, device=x.device) for own in (there, here))
        rows = F.cross_entropy(left @ all_y.T, to_y, reduction="none") + F.cross_entropy(right @ all_x.T, to_x, reduction="none")
        rows = rows / 2
        return rows.mean(), rows.detach()


def _any_right(logits: Tensor, first: int, also: Tensor) -> Tensor:
    """(batch,) the negative log of the share that all right candidates have together; row i's own is number ``first + i``."""
    right = torch.zeros_like(logits, dtype=torch.bool)
    right[:, first : first + len(also)] = also | torch.eye(len(also), dtype=torch.bool, device=also.device)
    return logits.logsumexp(dim=1) - logits.masked_fill(~right, float("-inf")).logsumexp(dim=1)


class _ChunkedLoss(torch.autograd.Function):
    """A loss that is a mean has gradients that are known, up to one factor, as soon as a chunk's logits are: they are kept, not the logits.

    Rows ``here`` of the x and ``there`` of the y of all processes are this one's.
    """

    @staticmethod
    def forward(
        ctx: Any, all_x: Tensor, all_y: Tensor, here: slice, there: slice, chunk_rows: int, with_gradients: bool
    ) -> tuple[Tensor, Tensor]:
        x, y = all_x[here], all_y[there]
        rows = x.new_zeros(len(x))
        to_x = to_y = None
        if with_gradients:
            to_x, to_y = torch.zeros_like(all_x), torch.zeros_like(all_y)
        for queries, own, to_queries, candidates, right, to_candidates in (
            (x, here, to_x, all_y, there, to_y),
            (y, there, to_y, all_x, here, to_x),
        ):
            for start in range(0, len(queries), chunk_rows):
                chunk = queries[start : start + chunk_rows]
                logits = chunk @ candidates.T
                column = torch.arange(right.start + start, right.start + start + len(chunk), device=x.device)[:, None]
                highest = logits.amax(dim=1, keepdim=True)
                over = highest - logits.gather(1, column)  # how far the right one is below
                shares = logits.sub_(highest).exp_()
                total = shares.sum(dim=1, keepdim=True)
                rows[start : start + chunk_rows] += (over + total.log())[:, 0] / 2
                if to_queries is not None and to_candidates is not None:
                    shares.div_(2 * len(x) * total).scatter_add_(1, column, total.new_full(column.shape, -1 / (2 * len(x))))
                    to_queries[own.start + start : own.start + start + len(chunk)].addmm_(shares, candidates)
                    to_candidates.addmm_(shares.T, chunk)
                del logits, shares  # before the next chunk's are made
        ctx.save_for_backward(to_x, to_y)
        ctx.mark_non_differentiable(rows)
        return rows.mean(), rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        to_x, to_y = ctx.saved_tensors
        return to_x * gradients[0], to_y * gradients[0], None, None, None, None
