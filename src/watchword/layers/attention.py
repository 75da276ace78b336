"""Multi-head self-attention with one packed input projection.

Parameter names and layout are those of ``torch.nn.MultiheadAttention`` (``in_proj_weight`` holds the rows of query, key and value in
this order), since the released image-text and X-CLIP weights use them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .rotary import Rotary

__all__ = ["Attention", "attend"]

_LONG_SEQUENCE, _LONG_SEQUENCE_IN_TRAINING = 128, 256  # tokens


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, mask: Tensor | None = None, fused: bool | None = None
) -> Tensor:
    """Scaled dot-product attention over (batch, heads, length, head_dim); scale 1/sqrt(head_dim).

    ``mask`` is added to the scores and must broadcast to (batch, heads, length, length); not together with ``causal``.

    ``fused`` chooses between torch's fused kernel and the plain formula; None takes the faster. In bfloat16 on a processor that is the
    plain one over short sequences, 1.7 times as fast forward and 6 times backward for those of one frame (see docs/decisions.md).
    """
    if fused is None:
        long = _LONG_SEQUENCE_IN_TRAINING if query.requires_grad else _LONG_SEQUENCE
        fused = not (query.device.type == "cpu" and query.dtype == torch.bfloat16 and key.shape[-2] < long)
    assert mask is None or not causal
    mask = mask.to(query.dtype) if mask is not None else None
    if fused:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + mask
    if causal:
        length = scores.shape[-1]
        scores = scores + torch.full((length, length), float("-inf"), dtype=scores.dtype, device=scores.device).triu(1)
    mixed: Tensor = scores.softmax(dim=-1).to(value.dtype) @ value
    return mixed


class Attention(nn.Module):
    """Self-attention: (batch, length, width) -> (batch, length, width).

    Args:
        width: features of each token.
        num_heads: heads; ``width`` must be a multiple.
        causal: no token sees a later one.
        output_bias: whether the projection behind the heads has a bias; MERLOT Reserve's has none.
    """

    def __init__(self, width: int, num_heads: int, *, causal: bool = False, output_bias: bool = True) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"attention width {width} is not a multiple of {num_heads} heads")
        self.num_heads = num_heads
        self.causal = causal
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width, bias=output_bias)
        nn.init.xavier_uniform_(self.in_proj_weight)
        if output_bias:
            nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor, *, mask: Tensor | None = None, rotary: Rotary | None = None) -> Tensor:
        """``mask`` as of ``attend``; ``rotary`` tells queries and keys where they stand."""
        batch, length, width = x.shape
        packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        query, key, value = packed.view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        if rotary is not None:
            query, key = rotary(query), rotary(key)
        mixed = attend(query, key, value, causal=self.causal, mask=mask)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return out
