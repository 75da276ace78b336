"""Sound: an audio transformer over one clip's spectrogram (paper appendix B.2; spec section 3)."""

from __future__ import annotations

from torch import Tensor, nn

from ..layers import AttentionPool
from .config import ReserveConfig
from .positions import audio_coordinates
from .transformer import EncoderOutput, Transformer

__all__ = ["AudioEncoder"]


class AudioEncoder(nn.Module):
    """Clips of sound (N, audio_frames, audio_features) -> their vectors and tokens.

    ``embedding`` is a convolution over time whose kernel and stride are both ``audio_patch``, written as the linear map it is.
    """

    def __init__(self, config: ReserveConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Linear(config.audio_patch * config.audio_features, config.width)
        self.transformer = Transformer(config, config.audio_layers, with_cls=True)
        self.seq_attnpool = AttentionPool(config.width, config.num_heads)

    def forward(self, clips: Tensor) -> EncoderOutput:
        config = self.config
        x = self.embedding(clips.reshape(len(clips), -1, config.audio_patch * config.audio_features))
        cls, sequence = self.transformer.encode(x, audio_coordinates(x.shape[1], x.device))
        pooled = self.seq_attnpool(sequence.reshape(len(clips), config.audio_tokens, -1, config.width))
        return EncoderOutput(cls=cls, sequence=sequence, pooled=pooled)
