from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from watchword.playground import render_still
from watchword.xclip import XClip, XClipConfig
from watchword.xclip.config import Preprocessing
from watchword.xclip.initialisation import begin_small, sinusoid, whiten_patches


def stills(count: int, size: int) -> torch.Tensor:
    frames = torch.from_numpy(np.stack([render_still(seed, size=size)[0] for seed in range(count)]))
    return (frames.permute(0, 3, 1, 2).float() - 120) / 60


@pytest.mark.parametrize(("width", "patch"), [(64, 8), (128, 4), (48, 4)])  # fewer, more, and as many outputs as pixels of a patch
def test_whitened_patches_are_uncorrelated_and_of_variance_one(width: int, patch: int) -> None:
    images = stills(300, 32)
    weight = torch.empty(width, 3, patch, patch)
    whiten_patches(weight, images, 1e-3)
    out = F.conv2d(images, weight, stride=patch).flatten(2).transpose(0, 1).flatten(1)
    variances = torch.linalg.eigvalsh(out @ out.T / out.shape[1])
    kept = variances[-min(width, 3 * patch**2) :]
    assert kept.max() < 1.01 and kept.median() > 0.5
    assert variances[: len(variances) - len(kept)].abs().max() < 1e-4 if len(kept) < width else True


def test_positions_that_are_near_are_alike() -> None:
    places = F.normalize(sinusoid(8, 64), dim=1)
    alike = places @ places.T
    assert all(alike[0, i] > alike[0, i + 1] for i in range(3))


def test_a_model_begins_as_told() -> None:
    torch.manual_seed(0)
    config = XClipConfig(
        image_size=32, patch_size=8, vision_width=64, vision_layers=1, embed_dim=64, text_width=64, text_layers=1, num_frames=1,
        message="off", mit_layers=0, prompt_layers=0, preprocessing=Preprocessing(crop_size=32, short_side=32),
    )  # fmt: skip
    model = XClip(config)
    begin_small(model, stills(64, 32).unsqueeze(1), position_std=0.25, whitening=0.1, token_std=0.1, logit_scale=20)
    assert float(model.visual.positional_embedding.detach()[1:].std()) == pytest.approx(0.25, rel=1e-3)
    assert float(model.token_embedding.weight.detach().std()) == pytest.approx(0.1, rel=0.02)
    assert float(model.logit_scale.detach()) == pytest.approx(math.log(20))
    places = F.normalize(model.visual.positional_embedding[1:].detach(), dim=1).unflatten(0, (4, 4))
    assert (places[0, 0] @ places[0, 1]) > (places[0, 0] @ places[0, 3]) and (places[0, 0] @ places[1, 0]) > (places[0, 0] @ places[3, 0])
