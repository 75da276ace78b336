"""The pre-norm transformer block and its feed-forward part, with the parameter names of the released CLIP weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attention
from .rotary import Rotary

__all__ = ["FeedForward", "TransformerBlock", "activation_function"]


def quick_gelu(x: Tensor, *, inplace: bool = False) -> Tensor:
    """x * sigmoid(1.702 x), the activation of OpenAI's CLIP. Not exchangeable with GELU: weights are made for one of the two.

    Written with SiLU, one kernel each way in place of three. ``inplace`` spares fresh memory, which for a large block costs more than
    the numbers; not where gradients are wanted.
    """
    if inplace:
        return F.silu(x.mul_(1.702), inplace=True).mul_(1 / 1.702)
    return F.silu(1.702 * x) * (1 / 1.702)


def _gelu(x: Tensor, *, inplace: bool = False) -> Tensor:
    return F.gelu(x)


def activation_function(name: str) -> Callable[..., Tensor]:
    """The activation called ``quick_gelu`` or ``gelu``, of (x, *, inplace=False); ValueError for another name."""
    functions: dict[str, Callable[..., Tensor]] = {"quick_gelu": quick_gelu, "gelu": _gelu}
    if name not in functions:
        raise ValueError(f"unknown activation {name!r}; known are {', '.join(functions)}")
    return functions[name]


class FeedForward(nn.Module):
    """width -> 4 width -> width, applied to each token."""

    def __init__(self, width: int, *, activation: str, output_bias: bool = True) -> None:
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width, bias=output_bias)
        self.activation = activation_function(activation)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.c_fc(x)
        out: Tensor = self.c_proj(self.activation(hidden, inplace=not torch.is_grad_enabled()))
        return out


class TransformerBlock(nn.Module):
    """Pre-norm self-attention and feed-forward with residuals: (batch, length, width) -> the same shape.

    Without ``output_bias`` the last projection of either part has no bias.
    """

    def __init__(self, width: int, num_heads: int, *, activation: str, causal: bool = False, output_bias: bool = True) -> None:
        super().__init__()
        self.attn = Attention(width, num_heads, causal=causal, output_bias=output_bias)
        self.ln_1 = nn.LayerNorm(width)
        self.mlp = FeedForward(width, activation=activation, output_bias=output_bias)
        self.ln_2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, rotary: Rotary | None = None) -> Tensor:
        x = x + self.attn(self.ln_1(x), mask=mask, rotary=rotary)
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out
