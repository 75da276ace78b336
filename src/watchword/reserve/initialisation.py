"""What a model that is trained from scratch begins with: as released (spec section 2.6), or as a small model of little training must."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..layers import Attention, AttentionPool, TransformerBlock
from ..layers.whitening import whitening

if TYPE_CHECKING:
    from .model import Reserve

__all__ = ["begin_small", "initialise"]

STD = 0.02
PROJ_STD = 0.01
WIDEST_NORMAL_TABLE = 768
STD_OF_TRUNCATED = 0.87962566103423978  # of a standard normal that is cut at +-2


def initialise(model: nn.Module) -> None:
    """Draw all weights of a model from torch's global generator.

    Linear maps: normal, cut at two standard deviations, of min(18 / inputs, 0.02) / sqrt(2); pooling: variance 1 / inputs; CLS and learned
    positions: normal of 0.02; the token table: so up to width 768, else Xavier's uniform; ``proj``: normal of 0.01. Biases 0.
    """
    pooling = {linear for pool in model.modules() if isinstance(pool, AttentionPool) for linear in pool.modules()}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            _initialise_linear(module, name, in_pooling=module in pooling)
        elif isinstance(module, Attention):
            _truncated_normal(module.in_proj_weight, min(18 / module.in_proj_weight.shape[1], STD) / math.sqrt(2))
        elif isinstance(module, nn.Embedding):
            wide = module.embedding_dim > WIDEST_NORMAL_TABLE
            nn.init.xavier_uniform_(module.weight) if wide else nn.init.normal_(module.weight, std=STD)
    for name, parameter in model.named_parameters():
        if name.endswith((".cls", ".pe")):
            nn.init.normal_(parameter, std=STD)


def _initialise_linear(linear: nn.Linear, name: str, *, in_pooling: bool) -> None:
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    if name == "proj":
        nn.init.normal_(linear.weight, std=PROJ_STD)
    elif in_pooling:
        _truncated_normal(linear.weight, linear.in_features**-0.5 / STD_OF_TRUNCATED)
    else:
        _truncated_normal(linear.weight, min(18 / linear.in_features, STD) / math.sqrt(2))


@torch.no_grad()
def _truncated_normal(weight: Tensor, std: float) -> None:
    """Normal of mean 0, cut at two standard deviations, by the inverse of its distribution; ``std`` is that of the uncut normal."""
    bound = math.erf(math.sqrt(2))
    weight.uniform_(-bound, bound).erfinv_().mul_(std * math.sqrt(2))


@torch.no_grad()
def begin_small(model: Reserve, patches: Tensor, clips: Tensor, *, whitening_floor: float, token_std: float, scale: float) -> None:
    """Set what the released beginning leaves to long training of wide models.

    Its linear maps are of one small deviation whatever the width, its scales begin at e, and its first layers see mean colour and mean
    loudness above all.

    Args:
        model: a new model.
        patches: (n, patch numbers) of frames.  clips: (n, audio_frames, audio_features) of sound.
        whitening_floor: ``floor`` of ``layers.whitening``.
        token_std: of the tokens' embeddings.
        scale: what multiplies cosines of all three losses.
    """
    config = model.config
    sounds = clips.reshape(-1, config.audio_patch * config.audio_features)
    for encoder, rows in ((model.vision_encoder, patches), (model.audio_encoder, sounds)):
        if encoder is not None:
            embedding = encoder.embedding
            assert isinstance(embedding, nn.Linear)
            embedding.weight.copy_(whitening(rows - rows.mean(dim=0), config.width, whitening_floor))
            embedding.bias.copy_(-embedding.weight @ rows.mean(dim=0))
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            for block in module:
                assert isinstance(block, TransformerBlock)
                _begin_block(block, config.width, len(module))
    for name, parameter in model.named_parameters():
        if name.endswith(("cls_proj.weight", "head.weight")):
            nn.init.normal_(parameter, std=config.width**-0.5)
    nn.init.normal_(model.token_encoder.weight, std=token_std)
    model.contrastive_scales.fill_(math.log(scale))


def _begin_block(block: TransformerBlock, width: int, num_layers: int) -> None:
    """As CLIP's begin: what comes out of a block stays of the size of what went in."""
    nn.init.normal_(block.attn.in_proj_weight, std=width**-0.5)
    nn.init.normal_(block.attn.out_proj.weight, std=width**-0.5 * (2 * num_layers) ** -0.5)
    nn.init.normal_(block.mlp.c_fc.weight, std=(2 * width) ** -0.5)
    nn.init.normal_(block.mlp.c_proj.weight, std=width**-0.5 * (2 * num_layers) ** -0.5)
