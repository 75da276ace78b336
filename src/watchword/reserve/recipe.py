"""How MERLOT Reserve's parameters are trained: which of them decay (spec sections 5 and 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import nn

from .model import Reserve
from .names import released_name, released_shape

__all__ = ["decays", "parameter_groups"]

SMALL = 4096  # numbers; what has no more stays free in finetuning


def decays(shape: Sequence[int], *, finetuning: bool = False) -> bool:
    """Whether weight decay applies to a parameter of this shape *as released*: to all of more than one axis, and so to the biases of
    queries, keys and values, which have an axis for the heads; in finetuning only where there are more than 4096 numbers.
    """
    return len(shape) > 1 and (not finetuning or prod(shape) > SMALL)


def parameter_groups(model: Reserve, *, learning_rate: float, weight_decay: float = 0.1, finetuning: bool = False) -> list[dict[str, Any]]:
    """The optimizer's groups: those that decay, and those that do not."""
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        path = released_name(name)
        shape = released_shape(path, parameter.shape, model.config.head_size, model.config.audio_patch)
        groups[decays(shape, finetuning=finetuning)].append(parameter)
    return [
        {"params": parameters, "lr": learning_rate, "weight_decay": weight_decay if decaying else 0.0}
        for decaying, parameters in groups.items()
    ]
