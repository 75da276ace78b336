"""Computing in a lower precision than the weights were trained in."""

from __future__ import annotations

from copy import deepcopy
from typing import TypeVar

import torch
from torch import nn

from .attention import Attention

__all__ = ["with_weights_in"]

Model = TypeVar("Model", bound=nn.Module)


def with_weights_in(model: Model, dtype: torch.dtype) -> Model:
    """A copy of ``model`` whose linear maps and convolutions hold their weights in ``dtype``; embeddings and norms stay as they are.

    Under autocast to ``dtype`` it gives the same numbers, but autocast no longer converts every weight at every call. Not for training.
    """
    copy = deepcopy(model)
    for module in copy.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | Attention):
            for parameter in module.parameters(recurse=False):
                parameter.data = parameter.data.to(dtype)
    return copy
