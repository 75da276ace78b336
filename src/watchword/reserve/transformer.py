"""The transformer that all four encoders are (spec section 2.1), and what an encoder gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..layers import TransformerBlock
from .config import ReserveConfig
from .positions import rotary_of

__all__ = ["EncoderOutput", "Transformer", "validity_mask"]

MASKED = -1e10  # added to scores; in float32 it swallows them, so a row that may see nothing sees everything alike, as released


@dataclass(frozen=True)
class EncoderOutput:
    """What the vision and audio encoders give for N frames or clips of sound; nothing is of unit length.

    Attributes:
        cls: (N, width), the vector of the whole, which the contrastive losses compare.
        sequence: (N, tokens, width).
        pooled: (N, pooled tokens, width), what the joint encoder reads.
    """

    cls: Tensor
    sequence: Tensor
    pooled: Tensor


def validity_mask(valid: Tensor, sources: Tensor | None = None) -> Tensor:
    """What is added to the scores, (B, 1, L, L): 0 where both tokens are valid and of one source, else -1e10.

    Args:
        valid: (B, L) of bool.
        sources: (B, L) whole numbers, the video each token is from; tokens of different videos do not see one another.
    """
    seen = valid[:, :, None] & valid[:, None, :]
    if sources is not None:
        seen = seen & (sources[:, :, None] == sources[:, None, :])
    return torch.zeros(seen.shape, device=valid.device).masked_fill_(~seen, MASKED)[:, None]


class Transformer(nn.Module):
    """Pre-norm blocks between two norms: (N, L, width) -> the same shape. No dropout.

    With ``checkpointing`` a block's activations are dropped after the forward pass and computed anew for the gradients.

    Args:
        num_layers: blocks.
        with_cls: a learned CLS token stands first; its row comes back through ``cls_proj``, apart from the others.
        learned_positions: if not 0, the number of learned positions, which are used in place of coordinates.
    """

    checkpointing = False

    def __init__(self, config: ReserveConfig, num_layers: int, *, with_cls: bool, learned_positions: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.cls = nn.Parameter(torch.zeros(width)) if with_cls else None
        self.pe = nn.Parameter(torch.zeros(learned_positions, width)) if learned_positions else None
        self.pre_ln = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            TransformerBlock(width, config.num_heads, activation="quick_gelu", output_bias=False) for _ in range(num_layers)
        )
        self.final_ln = nn.LayerNorm(width)
        self.cls_proj = nn.Linear(width, width) if with_cls else None

    def forward(self, x: Tensor, coordinates: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (N, L, width) at coordinates (L, k) or (N, L, k) -> (N, L, width) after the last norm.

        ``mask`` is what ``validity_mask`` gives; ``encode`` is for a transformer with a CLS token. InputError if there are more tokens
        than learned positions.
        """
        rotary = None
        if self.pe is None:
            rotary = rotary_of(coordinates, self.config)
        elif x.shape[1] > len(self.pe):
            raise InputError(f"the sequence has {x.shape[1]} tokens, but these weights have learned positions for {len(self.pe)}")
        else:
            x = x + self.pe[: x.shape[1]]
        x = self.pre_ln(x)
        for layer in self.layers:
            call = partial(checkpoint, layer, use_reentrant=False) if self.checkpointing and torch.is_grad_enabled() else layer
            x = call(x, mask=mask, rotary=rotary)
        out: Tensor = self.final_ln(x)
        return out

    def encode(self, x: Tensor, coordinates: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The vector of the whole (N, width) and the tokens (N, L, width); ``valid`` (N, L) tells padding from tokens."""
        assert self.cls is not None and self.cls_proj is not None
        count = x.shape[0]
        x = torch.cat([self.cls.to(x.dtype).expand(count, 1, -1), x], dim=1)
        coordinates = torch.cat([coordinates.new_zeros(1, coordinates.shape[-1]), coordinates])
        mask = None
        if valid is not None:
            mask = validity_mask(torch.cat([valid.new_ones(count, 1), valid], dim=1))
        x = self(x, coordinates, mask)
        return self.cls_proj(x[:, 0]), x[:, 1:]
