"""Stochastic depth."""

from __future__ import annotations

from torch import Tensor, nn

__all__ = ["DropPath"]


class DropPath(nn.Module):
    """In training, drops a residual branch for whole samples with probability ``rate`` and scales the rest by 1/(1 - rate).

    The mask is drawn per sample (first axis). The released X-CLIP code draws it per token position (spec section 16, quirk 13),
    which no released weight depends on, since all were trained at rate 0.
    """

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"drop path rate {rate} is not in [0, 1)")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(1 - self.rate)
        return x * keep / (1 - self.rate)
