"""A model at work on a user's behalf: left as it was found, and what it gave for texts kept for as long as its weights stay as they are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

__all__ = ["evaluating", "kept_features"]

MAX_KEPT = 100_000


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode within the block; afterwards every part is in the mode it was in before."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


Fingerprint = tuple[object, ...]
Features = dict[Hashable, Tensor]
_KEPT: WeakKeyDictionary[nn.Module, tuple[Fingerprint, Features]] = WeakKeyDictionary()


def kept_features(model: nn.Module, weights: Sequence[Tensor]) -> Features:
    """What was computed of texts with these weights of the model, by whatever the caller names it by. The caller fills it.

    It is empty again once one of the weights has changed, by training or in place, once the precision is another (autocast), and
    where more than 100,000 are kept. It goes when the model does.
    """
    fingerprint = _fingerprint(weights)
    known = _KEPT.get(model)
    if known is None or known[0] != fingerprint or len(known[1]) > MAX_KEPT:
        known = _KEPT[model] = (fingerprint, {})
    return known[1]


def _fingerprint(weights: Sequence[Tensor]) -> Fingerprint:
    """The sums see what the version counters do not: writes through ``.data`` or shared memory."""
    precision = torch.get_autocast_dtype(weights[0].device.type) if torch.is_autocast_enabled(weights[0].device.type) else None
    versions = tuple((weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights)
    with torch.no_grad():
        sums = torch.stack([_bits(weight).sum(dtype=torch.int64) for weight in weights]).tolist()
    return precision, versions, tuple(sums)


def _bits(weight: Tensor) -> Tensor:
    """The weight's bytes as whole numbers, of eight bytes where they divide evenly: those are summed without a wider copy."""
    weight = weight.detach()
    size, per_number = weight.element_size(), 8 // weight.element_size()
    if weight.is_contiguous() and weight.storage_offset() % per_number == 0 and weight.numel() % per_number == 0:
        return weight.flatten().view(torch.int64)
    return weight.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
