"""What a model that is trained from scratch begins with (spec section 2.6)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..layers import Attention, AttentionPool

__all__ = ["initialise"]

STD = 0.02
PROJ_STD = 0.01
WIDEST_NORMAL_TABLE = 768
STD_OF_TRUNCATED = 0.87962566103423978  # of a standard normal that is cut at +-2


def initialise(model: nn.Module) -> None:
    """Draw all weights of a model from torch's global generator.

    Linear maps: normal, cut at two standard deviations, of min(18 / inputs, 0.02) / sqrt(2); pooling: variance 1 / inputs; CLS and learned
    positions: normal of 0.02; the token table: so up to width 768, else Xavier's uniform; ``proj``: normal of 0.01. Biases 0.
    """
    pooling = {linear for pool in model.modules() if isinstance(pool, AttentionPool) for linear in pool.modules()}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            _initialise_linear(module, name, in_pooling=module in pooling)
        elif isinstance(module, Attention):
            _truncated_normal(module.in_proj_weight, min(18 / module.in_proj_weight.shape[1], STD) / math.sqrt(2))
        elif isinstance(module, nn.Embedding):
            wide = module.embedding_dim > WIDEST_NORMAL_TABLE
            nn.init.xavier_uniform_(module.weight) if wide else nn.init.normal_(module.weight, std=STD)
    for name, parameter in model.named_parameters():
        if name.endswith((".cls", ".pe")):
            nn.init.normal_(parameter, std=STD)


def _initialise_linear(linear: nn.Linear, name: str, *, in_pooling: bool) -> None:
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    if name == "proj":
        nn.init.normal_(linear.weight, std=PROJ_STD)
    elif in_pooling:
        _truncated_normal(linear.weight, linear.in_features**-0.5 / STD_OF_TRUNCATED)
    else:
        _truncated_normal(linear.weight, min(18 / linear.in_features, STD) / math.sqrt(2))


@torch.no_grad()
def _truncated_normal(weight: Tensor, std: float) -> None:
    """Normal of mean 0, cut at two standard deviations, by the inverse of its distribution; ``std`` is that of the uncut normal."""
    bound = math.erf(math.sqrt(2))
    weight.uniform_(-bound, bound).erfinv_().mul_(std * math.sqrt(2))
