"""The processes of one run, seen from any floor: which this one is, its share of the work, and how results come together.

Outside a process group everything here is the trivial answer of one process. ``watchword.training.parallel`` joins the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .errors import WatchwordError

__all__ = ["count", "gather", "gather_rows", "of_first", "rank", "share", "total"]

T = TypeVar("T")


def count() -> int:
    """How many processes work together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def share(num_items: int) -> range:
    """The consecutive items of ``num_items`` that are this process's; those of all processes, in order, are each item once.

    Sizes differ by one at most; with fewer items than processes some are empty.
    """
    return range(num_items * rank() // count(), num_items * (rank() + 1) // count())


def gather(value: T) -> list[T]:
    """The picklable ``value`` of every process, in order of rank."""
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    dist.all_gather_object(values, value)
    return values


def of_first(make: Callable[[], T]) -> T:
    """What ``make`` gives on the first process, a picklable value, on every process; its WatchwordError is raised on all of them."""
    if count() == 1:
        return make()
    outcome: list[Any] = [None]
    if rank() == 0:
        try:
            outcome = [(make(), None)]
        except WatchwordError as error:
            outcome = [(None, error)]
    dist.broadcast_object_list(outcome, device=torch.device("cpu"))
    value, failure = outcome[0]
    if failure is not None:
        raise failure
    made: T = value
    return made


def total(numbers: dict[str, Tensor]) -> dict[str, Tensor]:
    """The sums over processes of scalars, which every process names in the same order."""
    if count() == 1 or not numbers:
        return numbers
    summed = torch.stack([value.detach().float() for value in numbers.values()])
    dist.all_reduce(summed)
    return dict(zip(numbers, summed, strict=True))


def gather_rows(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Of each tensor (n, ...), the rows of every process, one below the other in order of rank; n may differ from process to process.

    The gradient of what each process computes from them flows back to the process that a row came from, and is summed there. All
    processes call this, forward and backward, in the same order.
    """
    if count() == 1:
        return tensors
    sizes = gather(len(tensors[0]))
    return tuple(_GatherRows.apply(tensor, sizes) for tensor in tensors)  # type: ignore[no-untyped-call]


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = rows.new_zeros((max(sizes), *rows.shape[1:]))  # the processes' tensors must be of one size to be sent
        padded[: len(rows)] = rows
        gathered = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(gathered, padded)
        return torch.cat([part[:size] for part, size in zip(gathered, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        summed = gradients[0].contiguous().clone()
        dist.all_reduce(summed)
        before = sum(ctx.sizes[: rank()])
        return summed[before : before + ctx.sizes[rank()]], None
