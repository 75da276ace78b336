"""Attention pooling: a group of tokens becomes one."""

from __future__ import annotations

from torch import Tensor, nn

from .attention import attend

__all__ = ["AttentionPool"]


class AttentionPool(nn.Module):
    """Groups of tokens (..., P, width) -> one token each (..., width).

    The query is the group's mean, keys and values are its tokens. No residual, no norm, no positions.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        if width % num_heads:
            raise ValueError(f"pooling width {width} is not a multiple of {num_heads} heads")
        self.num_heads = num_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, groups: Tensor) -> Tensor:
        flat = groups.flatten(0, -3)
        query, key, value = (
            x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for x in (self.query(flat.mean(dim=1, keepdim=True)), self.key(flat), self.value(flat))
        )
        pooled: Tensor = self.out(attend(query, key, value).transpose(1, 2).flatten(1))
        return pooled.reshape(*groups.shape[:-2], -1)
