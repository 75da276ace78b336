"""open_clip's image towers as they are, with cross-frame messages put around their blocks.

Nothing inside a tower is rewritten: each of its blocks is wrapped by one that first adds the frame's message to the frame's tokens, so
activation, norms, positions (also rotary ones), windows and pooling stay the image model's own. A message is made as X-CLIP makes it
(spec section 2), but from the pooled tokens where the tower has no class token, as hierarchical towers do not (spec section 18).
X-CLIP joins the message to a frame's attention as one more token. Here it is added to the tokens, which every kind of block takes,
convolutions included, and through a projection that begins at zero, so that the tower begins as the image model it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..layers import Attention

__all__ = ["FrameTower", "Stage", "build_image_text", "num_heads", "stages_of"]


@dataclass(frozen=True)
class Stage:
    """Blocks of one width.

    Attributes:
        blocks: the container they stand in, so that they can be replaced.
        width: features of a token.
        stride: pixels from one token to the next.
        token_axes: the axes of a block's input that count tokens; axis 0 counts frames, and the one left over is the width.
        class_token: whether token 0 stands for the whole frame.
    """

    blocks: Any
    width: int
    stride: int
    token_axes: tuple[int, ...]
    class_token: bool = False


def stages_of(tower: Any) -> list[Stage]:
    """The stages of an open_clip image tower: one for a plain ViT, several for a hierarchical tower (Swin, ConvNeXt).

    Raises InputError for a tower without blocks that hand on one grid of tokens, such as a ResNet.
    """
    if hasattr(tower, "transformer"):  # open_clip's own VisionTransformer
        return [Stage(tower.transformer.resblocks, tower.transformer.width, tower.patch_size[0], (1,), class_token=True)]
    trunk = getattr(tower, "trunk", None)  # a model of timm
    if hasattr(trunk, "blocks") and hasattr(trunk, "num_prefix_tokens"):
        assert trunk is not None
        return [Stage(trunk.blocks, trunk.embed_dim, trunk.feature_info[-1]["reduction"], (1,), class_token=trunk.cls_token is not None)]
    hierarchy = list(getattr(trunk, "layers", None) or getattr(trunk, "stages", None) or [])
    if not hierarchy or not all(hasattr(stage, "blocks") for stage in hierarchy):
        raise InputError(
            f"an image tower of type {type(trunk or tower).__name__} has no transformer or ConvNeXt blocks to put messages around"
        )
    axes = (1, 2) if getattr(trunk, "output_fmt", "NCHW") == "NHWC" else (2, 3)
    assert trunk is not None
    return [
        Stage(stage.blocks, info["num_chs"], info["reduction"], axes) for stage, info in zip(hierarchy, trunk.feature_info, strict=True)
    ]


class MessagingBlock(nn.Module):
    """A block of a tower, before which each frame's tokens are given what the frame's message heard from the other frames.

    With B videos of ``num_frames`` frames, the input and output are those of the block, whose axis 0 counts the B T frames.
    """

    def __init__(self, block: nn.Module, stage: Stage, *, num_frames: int) -> None:
        super().__init__()
        self.block, self.stage, self.num_frames = block, stage, num_frames
        self.checkpointing = False
        self.message_fc = nn.Linear(stage.width, stage.width)
        self.message_ln = nn.LayerNorm(stage.width)
        self.message_attn = Attention(stage.width, num_heads(stage.width))
        self.message_out = nn.Linear(stage.width, stage.width)
        nn.init.zeros_(self.message_out.weight)
        nn.init.zeros_(self.message_out.bias)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.checkpointing and self.training:
            return checkpoint(self._forward, x, *args, use_reentrant=False, **kwargs)
        return self._forward(x, *args, **kwargs)

    def _forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        frames = x[:, 0] if self.stage.class_token else x.mean(self.stage.token_axes)
        messages = self.message_fc(frames.reshape(-1, self.num_frames, self.stage.width))
        messages = messages + self.message_attn(self.message_ln(messages))
        heard = self.message_out(messages).flatten(0, 1)
        for axis in self.stage.token_axes:
            heard = heard.unsqueeze(axis)
        return self.block(x + heard, *args, **kwargs)


class FrameTower(nn.Module):
    """An open_clip image tower that reads clips: (B, T, 3, R, R) -> frame vectors (B, T, E) and last tokens (B, T, N, D).

    The tokens are those of the last block, without class and register tokens.
    """

    def __init__(self, tower: nn.Module, *, num_frames: int, message: bool) -> None:
        super().__init__()
        self.tower = tower
        for stage in stages_of(tower) if message else []:
            for index, block in enumerate(stage.blocks):
                stage.blocks[index] = MessagingBlock(block, stage, num_frames=num_frames)

    def forward(self, video: Tensor) -> tuple[Tensor, Tensor]:
        batch, time = video.shape[:2]
        out: dict[str, Any] = self.tower.forward_intermediates(video.flatten(0, 1), indices=1, output_fmt="NCHW")  # type: ignore[operator]
        tokens: Tensor = out["image_intermediates"][-1].flatten(2).transpose(1, 2)
        frames: Tensor = out["image_features"]
        return frames.view(batch, time, -1), tokens.reshape(batch, time, *tokens.shape[1:])

    def set_num_frames(self, num_frames: int) -> None:
        """From now on read clips of so many frames; messages have no positions, so nothing else changes."""
        for block in self._messaging_blocks():
            block.num_frames = num_frames

    def checkpoint_activations(self, on: bool) -> None:
        """In training, keep one activation a block; without messages the tower does it as open_clip has it do."""
        blocks = list(self._messaging_blocks())
        for block in blocks:
            block.checkpointing = on
        if not blocks:
            self.tower.set_grad_checkpointing(on)  # type: ignore[operator]

    def _messaging_blocks(self) -> Iterator[MessagingBlock]:
        return (module for module in self.modules() if isinstance(module, MessagingBlock))


def num_heads(width: int) -> int:
    """Heads of attention over ``width`` features: of size 64 as in X-CLIP, or the largest power of two below it that divides the width."""
    return width // math.gcd(width, 64)


def build_image_text(architecture: dict[str, Any]) -> Any:
    """The open_clip model of an entry of its ``model_configs``, with random weights; text tower under ``text``. Nothing is downloaded.

    Raises InputError for models that are no pair of an image and a text tower, or whose text tower is built from the Hub.
    """
    from open_clip.model import CustomTextCLIP  # seconds to import

    sizes = deepcopy(architecture)
    sizes.pop("custom_text", None)
    if "multimodal_cfg" in sizes:
        raise InputError("a captioning model (CoCa) cannot be expanded: take one with an image and a text tower only")
    if "hf_model_name" in sizes["text_cfg"]:
        raise InputError(f"its text tower is {sizes['text_cfg']['hf_model_name']} of the Hub: take a model with open_clip's own text tower")
    model = CustomTextCLIP(**sizes)
    tower, image_size = model.visual, sizes["vision_cfg"].get("image_size", 224)
    if hasattr(tower, "trunk") and tower.trunk.default_cfg["input_size"][-1] != image_size:
        tower.set_input_size(image_size)
    return model
