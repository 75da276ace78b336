"""What the tensors of an official state dict tell about the model."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import CheckpointError
from .config import Preprocessing, XClipConfig

__all__ = ["config_of_state"]


def config_of_state(state: Mapping[str, Tensor], source: str, *, activation: str = "quick_gelu") -> XClipConfig:
    """The configuration that the shapes of an official state dict tell (spec section 1), preprocessing being the official one."""

    def shape(name: str) -> torch.Size:
        if name not in state:
            raise CheckpointError(f"{source} is no X-CLIP state dict: tensor {name} is missing")
        return state[name].shape

    def count(pattern: str) -> int:
        return len({match[1] for name in state if (match := re.match(pattern, name))})

    width, _, patch_size, _ = shape("visual.conv1.weight")
    image_size = patch_size * round((shape("visual.positional_embedding")[0] - 1) ** 0.5)
    mit_layers = count(r"mit\.resblocks\.(\d+)\.")
    return XClipConfig(
        image_size=image_size,
        patch_size=patch_size,
        vision_width=width,
        vision_layers=count(r"visual\.transformer\.resblocks\.(\d+)\."),
        embed_dim=shape("text_projection")[1],
        text_width=shape("ln_final.weight")[0],
        text_layers=count(r"transformer\.resblocks\.(\d+)\."),
        vocab_size=shape("token_embedding.weight")[0],
        context_length=shape("positional_embedding")[0],
        num_frames=shape("mit.positional_embedding")[1] if mit_layers else 8,
        message="on" if any(".message_" in name for name in state) else "off",
        mit_layers=mit_layers,
        prompt_layers=count(r"prompts_generator\.decoder\.(\d+)\."),
        activation=activation,
        preprocessing=Preprocessing.official(image_size),
        weights=source,
    )
