"""Frames: a ViT whose tokens are pooled 2 x 2 (paper section 3.1; spec section 3)."""

from __future__ import annotations

from torch import Tensor, nn

from ..layers import AttentionPool
from .config import ReserveConfig
from .positions import grid_coordinates
from .transformer import EncoderOutput, Transformer

__all__ = ["VisionEncoder"]


class VisionEncoder(nn.Module):
    """Frames as rows of patches (N, rows x columns, patch numbers) -> their vectors and tokens."""

    def __init__(self, config: ReserveConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.patch_features, config.width)
        self.transformer = Transformer(config, config.vision_layers, with_cls=True)
        self.seq_attnpool = AttentionPool(config.width, config.num_heads)

    def forward(self, patches: Tensor) -> EncoderOutput:
        config = self.config
        x = self.embedding(patches)
        cls, sequence = self.transformer.encode(x, grid_coordinates(config.grid, x.device))
        rows, columns = config.pooled_grid
        squares = sequence.reshape(len(x), rows, config.pooling, columns, config.pooling, -1).transpose(2, 3)
        pooled = self.seq_attnpool(squares.flatten(3, 4).flatten(1, 2))
        return EncoderOutput(cls=cls, sequence=sequence, pooled=pooled)
