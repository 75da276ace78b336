"""Any image-text model, expanded to video as X-CLIP expands CLIP (paper section 3: "general", shown there on Florence).

The image-text model is open_clip's, whole and unchanged inside. What makes it a video model is X-CLIP's, and begins so that it adds
nothing: messages between frames end in a zero projection, the integration's layers end in zero projections, and the prompts are scaled
by zero. So the model starts as the mean of the image model's frame vectors, and training takes it from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..text import tokenize, tokenize_with
from ..weights.downloads import fetch
from .config import Preprocessing, XClipConfig
from .model import MultiFrameIntegration, PromptGenerator, VideoFeatures, XClip
from .open_clip_towers import FrameTower, build_image_text, num_heads, stages_of

__all__ = ["ExpandedConfig", "ExpandedXClip", "expanded_config", "fetch_tokenizer", "model_of"]

TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")  # beside tokenizer.json, where there are any


@dataclass(frozen=True, kw_only=True)
class ExpandedConfig(XClipConfig):
    """What an expanded model is made of.

    The sizes of ``XClipConfig`` tell about the image-text model; what it is built from is ``architecture``, an entry of open_clip's
    ``model_configs``, so that a saved folder needs no list of open_clip's. ``patch_size`` is the stride of the last tokens in pixels,
    ``vision_layers`` counts the blocks of all stages, and ``activation`` is that of the new parts.
    """

    model_type: ClassVar[str] = "watchword-expanded"

    architecture: dict[str, Any] = field(default_factory=dict)
    prompt_alpha: float = 0.0

    def _check_widths(self) -> None:
        if not self.architecture:
            raise ConfigError("the configuration of an expanded model lacks its architecture, an entry of open_clip's model_configs")


def expanded_config(
    image_text: Any,
    architecture: dict[str, Any],
    *,
    num_frames: int,
    preprocessing: Preprocessing,
    mit_layers: int | None = None,
    weights: str = "random",
    **changes: Any,
) -> ExpandedConfig:
    """The configuration that expands an image-text model of ``architecture`` (see ``build_image_text``).

    ``mit_layers``: None takes the paper's, 1 for a plain ViT and 4 for a hierarchical tower. ``changes`` are other fields.
    """
    stages = stages_of(image_text.visual)
    heads = num_heads(architecture["embed_dim"])
    return ExpandedConfig(
        architecture=architecture,
        image_size=architecture["vision_cfg"].get("image_size", 224),
        patch_size=stages[-1].stride,
        vision_width=stages[-1].width,
        vision_layers=sum(len(stage.blocks) for stage in stages),
        embed_dim=architecture["embed_dim"],
        text_width=image_text.text.token_embedding.embedding_dim,
        text_layers=len(image_text.text.transformer.resblocks),
        vocab_size=image_text.vocab_size,
        context_length=image_text.context_length,
        num_frames=num_frames,
        mit_layers=(1 if len(stages) == 1 else 4) if mit_layers is None else mit_layers,
        **{"mit_heads": heads, "prompt_heads": heads, **changes},
        activation="quick_gelu" if architecture.get("quick_gelu") else "gelu",
        preprocessing=preprocessing,
        weights=weights,
    )


class ZeroStartIntegration(MultiFrameIntegration):
    """MIT whose layers begin at zero: (B, T, E) -> (B, E), at first the mean of the frames.

    The layers see the temporal positions, but what goes on to the mean is without them, since it must begin as the frames alone.
    """

    def __init__(self, config: XClipConfig) -> None:
        super().__init__(config)
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "c_proj.weight")):
                nn.init.zeros_(parameter)

    def forward(self, frames: Tensor) -> Tensor:
        x = frames + self.positional_embedding
        for block in self.resblocks:
            x = block(x)
        return (x - self.positional_embedding).mean(dim=1)


class ExpandedXClip(XClip):
    """An image-text model of open_clip as a video model. It is used as ``XClip`` is, whose scores and prompts it shares.

    Args:
        image_text: what ``build_image_text`` made of ``config.architecture``, to be expanded in place; None builds it anew.

    Attributes:
        tokenizer_folder: where the tokenizer's files are, for models whose tokenizer is not CLIP's and comes from the Hub; None where
            they are not here yet.
    """

    config: ExpandedConfig

    def __init__(self, config: ExpandedConfig, image_text: Any = None) -> None:
        nn.Module.__init__(self)  # XClip's own would build CLIP's towers
        image_text = image_text or build_image_text(config.architecture)
        self.config = config
        self.visual = FrameTower(image_text.visual, num_frames=config.num_frames, message=config.message == "on")  # type: ignore[assignment]
        self.text = image_text.text
        self.logit_scale, self.logit_bias = image_text.logit_scale, image_text.logit_bias
        self.mit = ZeroStartIntegration(config) if config.mit_layers else None
        if config.prompt_layers:
            self.prompts_visual_ln = nn.LayerNorm(config.vision_width)
            self.prompts_visual_proj = nn.Parameter(torch.randn(config.vision_width, config.embed_dim) * config.vision_width**-0.5)
        self.prompts_generator = PromptGenerator(config) if config.prompt_layers else None
        self.tokenizer_folder: Path | None = None

    def tokenize(self, texts: Sequence[str], *, truncate: bool = False) -> Tensor:
        """Token ids (K, L) by the image-text model's own tokenizer.

        Raises:
            LabelError: a text is too long and ``truncate`` is off.
            DownloadError: the tokenizer's files are not here and cannot be had.
        """
        stated = self.config.architecture["text_cfg"]
        if "hf_tokenizer_name" not in stated:
            return tokenize(texts, context_length=self.config.context_length, truncate=truncate)
        if self.tokenizer_folder is None:
            self.tokenizer_folder = fetch_tokenizer(stated["hf_tokenizer_name"])
        return tokenize_with(
            self.tokenizer_folder,
            texts,
            context_length=self.config.context_length,
            truncate=truncate,
            options={"tokenizer_mode": stated.get("tokenizer_mode"), **stated.get("tokenizer_kwargs", {})},
        )

    def checkpoint_activations(self, on: bool = True) -> None:
        assert isinstance(self.visual, FrameTower)
        self.visual.checkpoint_activations(on)
        self.text.set_grad_checkpointing(on)

    def text_parameters(self) -> list[nn.Parameter]:
        return list(self.text.parameters())

    def encode_text(self, token_ids: Tensor) -> Tensor:
        """Encode labels, token ids (K, ``context_length``) -> (K, E), not normalised."""
        out: Tensor = self.text(token_ids)
        return out

    def encode_alike(self, token_ids: Tensor) -> Tensor:
        """``encode_text``: how the text encoder attends is open_clip's affair."""
        return self.encode_text(token_ids)

    def score(self, features: VideoFeatures, text: Tensor) -> Tensor:
        """Logits (B, K), as ``XClip.score``. Where there is a ``logit_bias``, their sigmoid is each label's own probability."""
        logits = super().score(features, text)
        return logits if self.logit_bias is None else logits + self.logit_bias.float()

    def set_num_frames(self, num_frames: int) -> None:
        super().set_num_frames(num_frames)
        assert isinstance(self.visual, FrameTower)
        self.visual.set_num_frames(num_frames)


def model_of(config: XClipConfig) -> XClip:
    """A model of the class that the configuration is of."""
    return ExpandedXClip(config) if isinstance(config, ExpandedConfig) else XClip(config)


def fetch_tokenizer(repository: str, **hub: Any) -> Path:
    """The folder with the files of a tokenizer on the Hub, from the cache or else downloaded; ``hub`` and errors are those of ``fetch``."""
    return fetch(repository, [("tokenizer.json",)], optional=TOKENIZER_FILES, **hub)[0].parent
