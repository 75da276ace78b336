"""Text spans: what a blank may be filled with, each by itself (paper appendix B.2; spec section 3)."""

from __future__ import annotations

from torch import Tensor, nn

from .config import ReserveConfig
from .positions import span_coordinates
from .transformer import Transformer

__all__ = ["SpanEncoder"]


class SpanEncoder(nn.Module):
    """Embedded tokens (N, L, width) and their validity (N, L) -> one vector a span (N, width), not of unit length.

    A span without any valid token is legal: CLS then sees itself alone.
    """

    def __init__(self, config: ReserveConfig) -> None:
        super().__init__()
        self.transformer = Transformer(config, config.span_layers, with_cls=True)

    def forward(self, embedded: Tensor, valid: Tensor) -> Tensor:
        cls, _ = self.transformer.encode(embedded, span_coordinates(embedded.shape[1], embedded.device), valid)
        return cls
