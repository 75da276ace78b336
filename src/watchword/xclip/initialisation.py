"""Where a small model starts from when there are no released weights: what CLIP's own initialisation leaves to long training is set.

Measured on the playground (docs/decisions.md): after 50,000 stills a model so begun tells 60 % of the shapes, CLIP's 28 %.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layers.whitening import whitening
from .model import XClip

__all__ = ["begin_small", "sinusoid", "whiten_patches"]


@torch.no_grad()
def begin_small(model: XClip, clips: Tensor, *, position_std: float, whitening: float, token_std: float, logit_scale: float) -> None:
    """Set the parameters that a small model of little training must not begin without.

    Args:
        model: a new model, square patches in rows.
        clips: (B, T, 3, R, R), some thousand normalised frames in all, whose patches are whitened.
        position_std: of the patches' positions, sinusoids of row and column. If large, what is seen is learned late; if small, where.
        whitening: ``floor`` of ``whiten_patches``.
        token_std: of the words' embeddings; CLIP's 0.02 makes captions that differ in one word nearly equal to start with.
        logit_scale: what multiplies cosines.
    """
    visual = model.visual
    whiten_patches(visual.conv1.weight, clips.flatten(0, 1), whitening)
    side = model.config.image_size // model.config.patch_size
    width = visual.positional_embedding.shape[1]
    axis = sinusoid(side, width // 2)
    both = torch.cat([axis[:, None].expand(side, side, -1), axis[None].expand(side, side, -1)], dim=-1).flatten(0, 1)
    visual.positional_embedding[1:] = both * (position_std / both.std())
    torch.nn.init.normal_(model.token_embedding.weight, std=token_std)
    model.logit_scale.fill_(math.log(logit_scale))


def sinusoid(length: int, width: int) -> Tensor:
    """Sines and cosines of places in [0, 1], (length, width), of a quarter of a turn to four turns."""
    places = (torch.arange(length) + 0.5) / length
    angles = places[:, None] * torch.pi * 2 ** torch.linspace(-1, 3, width // 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@torch.no_grad()
def whiten_patches(weight: Tensor, images: Tensor, floor: float) -> None:
    """Fill a patch embedding (D, 3, P, P) so that it whitens the patches of ``images`` (B, 3, R, R), see ``layers.whitening``."""
    width, _, size, _ = weight.shape
    patches = F.unfold(images, size, stride=size).transpose(1, 2).flatten(0, 1)
    weight.copy_(whitening(patches, width, floor).view_as(weight))
