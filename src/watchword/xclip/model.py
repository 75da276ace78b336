"""X-CLIP: an image-text model expanded to video (arXiv 2208.02816).

Against CLIP:
* each vision block first exchanges one *message* token a frame with the other frames (cross-frame attention, section 3.2);
* the frames' vectors pass one small transformer over time, the multi-frame integration transformer (MIT);
* the text vector of each label is moved by *video-specific prompts*, cross-attention from the label to the video's patches
  (section 3.3).

Parameters carry the official names (spec section 7), so official state dicts load without renaming. Shapes: B videos, T frames,
N patches a frame, K labels, D vision width, E joint embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..layers import Attention, DropPath, TransformerBlock, activation_function, attend
from ..text import tokenize
from .checks import check_clips, check_features, check_token_ids
from .config import HEAD_SIZE, XClipConfig

__all__ = ["VideoFeatures", "XClip", "XClipOutput", "is_new_part"]


@dataclass(frozen=True)
class VideoFeatures:
    """What the video encoder gives.

    Attributes:
        video: (B, E), not normalised.
        frames: (B, T, E), each frame's vector before integration over time.
        content: (B, N, E), the patches' features averaged over time, which the prompts look at.
    """

    video: Tensor
    frames: Tensor
    content: Tensor


@dataclass(frozen=True)
class XClipOutput:
    """logits (B, K), the video's features and the labels' text features (K, E) before the prompts."""

    logits: Tensor
    features: VideoFeatures
    text: Tensor


class Transformer(nn.Module):
    """A stack of blocks, named as in the released weights.

    With ``checkpointing`` each block's activations are dropped after the forward pass and computed anew, from the same random draws,
    when gradients are.
    """

    checkpointing = False

    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.resblocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing and torch.is_grad_enabled() else block(x)
        return x


class CrossFrameBlock(TransformerBlock):
    """A vision block whose frames exchange messages: (B, T, N+1, D) -> the same shape (section 3.2, spec section 2).

    With ``message`` off it is the plain block, applied to each frame; with ``joint`` applied to all frames' tokens at once (appendix D).
    """

    def __init__(self, width: int, *, activation: str, message: str, drop_path: float) -> None:
        super().__init__(width, width // HEAD_SIZE, activation=activation)
        self.drop_path = DropPath(drop_path)
        self.message = message
        if message == "on":
            self.message_fc = nn.Linear(width, width)
            self.message_ln = nn.LayerNorm(width)
            self.message_attn = Attention(width, width // HEAD_SIZE)
            nn.init.uniform_(self.message_fc.bias, -(width**-0.5), width**-0.5)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]  # frames have learned positions and no padding
        batch, time, tokens, width = x.shape
        y = x.flatten(1, 2) if self.message == "joint" else x.flatten(0, 1)
        if self.message == "on":
            messages = self.message_fc(x[:, :, 0])
            messages = messages + self.drop_path(self.message_attn(self.message_ln(messages)))
            y = torch.cat([y, messages.view(batch * time, 1, width)], dim=1)
        y = y + self.drop_path(self.attn(self.ln_1(y)))
        if self.message == "on":
            y = y[:, :tokens]
        y = y + self.drop_path(self.mlp(self.ln_2(y)))
        out: Tensor = y.view(batch, time, tokens, width)
        return out


class VisionEncoder(nn.Module):
    """The cross-frame communication transformer: (B, T, 3, R, R) -> frame vectors (B, T, E), patch tokens (B, T, N, D)."""

    def __init__(self, config: XClipConfig) -> None:
        super().__init__()
        width = config.vision_width
        self.conv1 = nn.Conv2d(3, width, config.patch_size, stride=config.patch_size, bias=False)
        self.class_embedding = nn.Parameter(torch.randn(width) * width**-0.5)
        self.positional_embedding = nn.Parameter(torch.randn(config.num_patches + 1, width) * width**-0.5)
        self.ln_pre = nn.LayerNorm(width)
        rates = torch.linspace(0, config.drop_path, config.vision_layers, device="cpu").tolist()
        self.transformer = Transformer(
            [CrossFrameBlock(width, activation=config.activation, message=config.message, drop_path=rate) for rate in rates]
        )
        self.ln_post = nn.LayerNorm(width)
        self.proj = nn.Parameter(torch.randn(width, config.embed_dim) * width**-0.5)

    def forward(self, video: Tensor) -> tuple[Tensor, Tensor]:
        batch, time = video.shape[:2]
        patches = self.conv1(video.flatten(0, 1)).flatten(2).transpose(1, 2)
        class_token = self.class_embedding.expand(batch * time, 1, -1)
        x = self.ln_pre(torch.cat([class_token, patches], dim=1) + self.positional_embedding)
        x = self.transformer(x.unflatten(0, (batch, time)))
        return self.ln_post(x[:, :, 0]) @ self.proj, x[:, :, 1:]


class MultiFrameIntegration(nn.Module):
    """MIT: (B, T, E) -> (B, E) (section 3.2, spec section 3).

    The frames without the temporal position are added back at the end, which the paper omits and the weights need.
    """

    def __init__(self, config: XClipConfig) -> None:
        super().__init__()
        width = config.embed_dim
        heads = config.mit_heads or width // HEAD_SIZE
        self.positional_embedding = nn.Parameter(torch.randn(1, config.num_frames, width) * 0.02)
        blocks = [TransformerBlock(width, heads, activation=config.activation) for _ in range(config.mit_layers)]
        for block in blocks:
            for linear in (block.mlp.c_fc, block.mlp.c_proj, block.attn.out_proj):
                _initialise_linear(linear, 0.02)
        self.resblocks = nn.ModuleList(blocks)

    def forward(self, frames: Tensor) -> Tensor:
        x = frames + self.positional_embedding
        for block in self.resblocks:
            x = block(x)
        return (x + frames).mean(dim=1)


class CrossAttention(nn.Module):
    """From labels (B or 1, K, E) to the video's content (B, N, E): (B, K, E). Projections of q, k, v have no bias."""

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, labels: Tensor, content: Tensor) -> Tensor:
        query, key, value = (
            x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in (self.q_proj(labels), self.k_proj(content), self.v_proj(content))
        )
        mixed = attend(query.expand(content.shape[0], -1, -1, -1), key, value)
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out


class PromptBlock(nn.Module):
    """One decoder block of the prompt generator. The index gaps in the names are those of the released weights."""

    def __init__(self, width: int, num_heads: int, *, activation: str) -> None:
        super().__init__()
        self.cross_attn = CrossAttention(width, num_heads)
        self.norm1 = nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"0": nn.Linear(width, 4 * width), "3": nn.Linear(4 * width, width)})
        self.activation = activation_function(activation)

    def forward(self, labels: Tensor, content: Tensor) -> Tensor:
        x = labels + self.cross_attn(self.norm1(labels), content)
        hidden = self.mlp["0"](self.norm3(x))
        out: Tensor = x + self.mlp["3"](self.activation(hidden, inplace=not torch.is_grad_enabled()))
        return out


class PromptGenerator(nn.Module):
    """Video-specific prompts (section 3.3, spec section 5): text (K, E), content (B, N, E) -> what is added to the text, (B, K, E)."""

    def __init__(self, config: XClipConfig) -> None:
        super().__init__()
        width = config.embed_dim
        heads = config.prompt_heads or width // HEAD_SIZE
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(PromptBlock(width, heads, activation=config.activation) for _ in range(config.prompt_layers))
        self.alpha = nn.Parameter(torch.full((width,), config.prompt_alpha))
        for module in self.decoder.modules():
            if isinstance(module, nn.Linear):
                _initialise_linear(module, 0.02)

    def forward(self, text: Tensor, content: Tensor) -> Tensor:
        content = self.norm(content)
        x = text.unsqueeze(0)  # one copy serves all videos until the first attention makes them differ
        for block in self.decoder:
            x = block(x, content)
        return self.alpha * x


class XClip(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="watchword",
    paper_url="https://arxiv.org/abs/2208.02816",
    pipeline_tag="video-classification",
):
    """X-CLIP, whole. See the module's docstring; sizes and switches are in ``XClipConfig``.

    A new model has random weights drawn as the spec's section 8 says, from torch's global generator.

    Attributes:
        logit_bias: of models whose labels are scored one by one, by a sigmoid; None where labels compete, as in X-CLIP.
    """

    logit_bias: nn.Parameter | None

    def __init__(self, config: XClipConfig) -> None:
        super().__init__()
        self.config = config
        width = config.text_width
        self.visual = VisionEncoder(config)
        self.mit = MultiFrameIntegration(config) if config.mit_layers else None
        if config.prompt_layers:
            self.prompts_visual_ln = nn.LayerNorm(config.vision_width)
            # Standard normal, not scaled by the width, as released (quirk 18): the norm in the generator hides the scale.
            self.prompts_visual_proj = nn.Parameter(torch.randn(config.vision_width, config.embed_dim))
        self.prompts_generator = PromptGenerator(config) if config.prompt_layers else None
        self.transformer = Transformer(
            [TransformerBlock(width, width // HEAD_SIZE, activation=config.activation, causal=True) for _ in range(config.text_layers)]
        )
        self.token_embedding = nn.Embedding(config.vocab_size, width)
        self.positional_embedding = nn.Parameter(torch.randn(config.context_length, width) * 0.01)
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, config.embed_dim) * width**-0.5)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())
        self.logit_bias = None
        self._initialise_text()

    def _initialise_text(self) -> None:
        width, layers = self.config.text_width, self.config.text_layers
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        for block in self.transformer.resblocks:
            assert isinstance(block, TransformerBlock)
            nn.init.normal_(block.attn.in_proj_weight, std=width**-0.5)
            nn.init.normal_(block.attn.out_proj.weight, std=width**-0.5 * (2 * layers) ** -0.5)
            nn.init.normal_(block.mlp.c_fc.weight, std=(2 * width) ** -0.5)
            nn.init.normal_(block.mlp.c_proj.weight, std=width**-0.5 * (2 * layers) ** -0.5)

    def checkpoint_activations(self, on: bool = True) -> None:
        """In training, keep one activation a block of the image and text encoders instead of all, for about a third more time.

        The gradients are the same. It is not saved with the weights.
        """
        self.visual.transformer.checkpointing = self.transformer.checkpointing = on

    def set_num_frames(self, num_frames: int) -> None:
        """Say that clips have so many frames from now on; the integration's positions, if any, must have been fitted."""
        self.config = replace(self.config, num_frames=num_frames)

    def encode_video(self, video: Tensor) -> VideoFeatures:
        """Encode clips (B, T, 3, R, R), normalised as ``config.preprocessing`` says.

        Raises InputError if T or R differ from what the weights were made for, or the numbers are whole.
        """
        config = self.config
        check_clips(video, config)
        frames, patches = self.visual(video.to(next(self.visual.parameters()).dtype))
        integrated = self.mit(frames) if self.mit is not None else frames.mean(dim=1)
        if self.prompts_generator is None:
            content = frames.new_empty(frames.shape[0], 0, config.embed_dim)
        else:
            # The projection is linear, so the mean over time may come first.
            content = self.prompts_visual_ln(patches).mean(dim=1) @ self.prompts_visual_proj
        return VideoFeatures(video=integrated, frames=frames, content=content)

    def tokenize(self, texts: Sequence[str], *, truncate: bool = False) -> Tensor:
        """Token ids (K, L) for ``encode_text``; arguments and errors are those of ``watchword.text.tokenize``."""
        return tokenize(texts, context_length=self.config.context_length, truncate=truncate)

    def text_parameters(self) -> list[nn.Parameter]:
        """What ``encode_text`` depends on."""
        parts = (self.token_embedding, self.transformer, self.ln_final)
        return [self.positional_embedding, self.text_projection, *(weight for part in parts for weight in part.parameters())]

    def encode_text(self, token_ids: Tensor) -> Tensor:
        """Encode labels, token ids (K, L) with L at most the context length -> (K, E), not normalised.

        The end token is the largest id of a row (spec section 4). Columns after the last end token of the batch are not computed,
        which is exact: the encoder is causal.

        Raises InputError for other shapes or types, and for ids outside the vocabulary.
        """
        check_token_ids(token_ids, self.config)
        ends = token_ids.argmax(dim=-1)
        length = int(ends.max()) + 1
        return self.encode_words(self.token_embedding(token_ids[:, :length]), ends)

    def encode_alike(self, token_ids: Tensor) -> Tensor:
        """What ``encode_text`` gives, with each distinct beginning of the texts computed once (see ``prefix_tree``). Not for training:
        the ids are walked in Python.
        """
        from .prefix_tree import encode_tree, prefix_tree

        check_token_ids(token_ids, self.config)
        return encode_tree(self, prefix_tree(token_ids))

    def encode_words(self, words: Tensor, ends: Tensor) -> Tensor:
        """Encode embedded tokens (K, L, text width), the end token of row k at ``ends[k]`` -> (K, E): what ``encode_text`` does after
        looking tokens up, for vectors that no token stands for.
        """
        x = self.transformer(words + self.positional_embedding[: words.shape[1]])
        x = self.ln_final(x[torch.arange(len(x), device=x.device), ends])
        out: Tensor = x @ self.text_projection
        return out

    def score(self, features: VideoFeatures, text: Tensor) -> Tensor:
        """Logits (B, K) of each label's text feature (K, E) for each video, by the video-specific prompts (spec sections 5 and 6).

        Labels do not influence one another: scoring in chunks gives the same numbers. Raises InputError for other shapes or types.
        """
        check_features(features, text, self.config, self.logit_scale.dtype)
        labels = text.unsqueeze(0)
        if self.prompts_generator is not None:
            labels = labels + self.prompts_generator(text, features.content)
        # In float32 also under autocast: labels that differ in a word have cosines closer than bfloat16 can tell apart.
        with torch.autocast(labels.device.type, enabled=False):
            video, labels = F.normalize(features.video.float(), dim=-1, eps=0), labels.float()
            # Dividing the products by the lengths spares a normalised copy of every label for every video.
            cosine = (labels @ video.unsqueeze(-1)).squeeze(-1) / torch.linalg.vector_norm(labels, dim=-1)
            logits: Tensor = self.logit_scale.float().exp() * cosine
        return logits

    def forward(self, video: Tensor, token_ids: Tensor) -> XClipOutput:
        """Clips (B, T, 3, R, R) and token ids (K, L) -> logits (B, K) and the features they came from."""
        features = self.encode_video(video)
        text = self.encode_text(token_ids)
        return XClipOutput(logits=self.score(features, text), features=features, text=text)

    def tag(self, videos: Any, labels: Sequence[str] | None = None, **options: Any) -> list[Any]:
        """The labels of one video or of several, best first: ``Tagger(model).tag``, see there for options and errors."""
        from .tagging import Tagger

        return Tagger(self).tag(videos, labels, **options)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> XClip:  # type: ignore[override]
        """Load weights in evaluation mode; sources and options are those of ``watchword.xclip.checkpoints.load``."""
        from .checkpoints import load

        return load(pretrained_model_name_or_path, **options)

    def _save_pretrained(self, save_directory: Path) -> None:
        from .checkpoints import save

        save(self, save_directory)


def is_new_part(name: str) -> bool:
    """Whether a parameter of this name is one that X-CLIP adds to CLIP, or a class head in training."""
    return name.startswith(("mit.", "prompts_", "class_head.")) or ".message_" in name


def _initialise_linear(linear: nn.Linear, std: float) -> None:
    nn.init.normal_(linear.weight, std=std)
    nn.init.zeros_(linear.bias) if linear.bias is not None else None
