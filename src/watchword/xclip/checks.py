"""What the model is given, against what its configuration takes: one line where torch would say many, or nothing at all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .config import XClipConfig

__all__ = ["check_clips", "check_features", "check_token_ids"]


def check_clips(video: Any, config: XClipConfig) -> None:
    """InputError unless these are float clips (B, T, 3, R, R) of the configuration's T and R."""
    if not isinstance(video, Tensor) or not video.is_floating_point():
        raise InputError(f"clips must be normalised floats, but are {_kind(video)}: prepare frames with watchword.xclip.load_clip")
    expected = (config.num_frames, 3, config.image_size, config.image_size)
    if video.ndim != 5 or tuple(video.shape[1:]) != expected:
        raise InputError(
            f"these weights take clips of {config.num_frames} frames, (batch, {', '.join(map(str, expected))}), "
            f"but the input has {video.shape[1] if video.ndim > 1 else 0} frames, shape {tuple(video.shape)}"
        )


def check_token_ids(token_ids: Any, config: XClipConfig) -> None:
    """InputError unless these are whole numbers (K, L), K and L at least 1, L at most the context length, each in the vocabulary."""
    wanted = f"token ids must be int64 (labels, length), as watchword.text.tokenize gives, length 1 to {config.context_length}"
    if not isinstance(token_ids, Tensor) or token_ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{wanted}, but are {_kind(token_ids)}")
    if token_ids.ndim != 2 or not token_ids.numel() or token_ids.shape[1] > config.context_length:
        raise InputError(f"{wanted}, but have shape {tuple(token_ids.shape)}")
    least, most = int(token_ids.min()), int(token_ids.max())
    if least < 0 or most >= config.vocab_size:
        raise InputError(f"token ids go from {least} to {most}, but the vocabulary is 0 to {config.vocab_size - 1}")


def check_features(features: Any, text: Any, config: XClipConfig, weights: torch.dtype) -> None:
    """InputError unless these are features of B videos and of K labels (K, E) of a model with the configuration's E and such weights."""
    from .model import VideoFeatures

    width = config.embed_dim
    if not isinstance(features, VideoFeatures):
        raise InputError(f"features must be the VideoFeatures that encode_video gives, but are {_kind(features)}")
    if not isinstance(text, Tensor) or not text.is_floating_point() or text.ndim != 2 or text.shape[1] != width:
        raise InputError(f"text must be floats (labels, {width}), as encode_text gives, but is {_kind(text)}")
    shapes = [tuple(part.shape) for part in (features.video, features.content)]
    if [len(shape) for shape in shapes] != [2, 3] or {shape[-1] for shape in shapes} != {width} or shapes[0][0] != shapes[1][0]:
        raise InputError(
            f"features must be video (batch, {width}) and content (batch, patches, {width}), but are {shapes[0]} and {shapes[1]}"
        )
    types = {text.dtype, features.content.dtype, weights} if config.prompt_layers else set()
    if len(types) > 1 and not torch.is_autocast_enabled(text.device.type):
        raise InputError(
            f"text is {text.dtype} and features are {features.content.dtype}, but the weights are {weights}: convert them, or use autocast"
        )


def _kind(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
