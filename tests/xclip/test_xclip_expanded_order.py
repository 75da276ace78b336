"""What expansion is for: an expanded model learns the order of frames, which the mean of the frames cannot tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from watchword.playground import render_frames, sample_scene
from watchword.xclip import Preprocessing, to_tensor
from watchword.xclip.expanded import ExpandedXClip, expanded_config
from watchword.xclip.open_clip_towers import build_image_text

pytest.importorskip("open_clip")

SIZE, NUM_FRAMES = 32, 4
LEARNING_RATE = 2e-3
PREPROCESSING = Preprocessing(crop_size=SIZE, short_side=SIZE, interpolation="pillow_bicubic")
ARCHITECTURE: dict[str, Any] = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": SIZE, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32},
    "text_cfg": {"context_length": 8, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1},
}
LABELS = ["moves left", "moves right"]


def pairs(seeds: range) -> Tensor:
    """Clips (pairs, 2, T, 3, R, R) of a shape that moves left, and the same frames in opposite order, in which it moves right."""
    clips = []
    for seed in seeds:
        scene = sample_scene(seed, action=LABELS[0])
        times = (np.arange(NUM_FRAMES) + 0.5) / NUM_FRAMES * scene.duration_seconds
        clips.append(to_tensor(render_frames(scene, times, size=SIZE), PREPROCESSING))
    left = torch.stack(clips)
    return torch.stack([left, left.flip(1)], dim=1)


def built(**switches: Any) -> ExpandedXClip:
    image_text = build_image_text(ARCHITECTURE)
    torch.nn.init.normal_(image_text.text.token_embedding.weight)  # untrained, the labels would be nearly the same
    config = expanded_config(image_text, ARCHITECTURE, num_frames=NUM_FRAMES, preprocessing=PREPROCESSING, **switches)
    return ExpandedXClip(config, image_text)


def percent_right(model: ExpandedXClip, clips: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        logits = model(clips.flatten(0, 1), model.tokenize(LABELS)).logits.view(-1, 2, 2)
    return 100 * (logits.argmax(dim=-1) == torch.tensor([0, 1])).float().mean().item()


def train(model: ExpandedXClip, clips: Tensor, *, num_steps: int) -> None:
    """Train all but the text tower, as the paper does."""
    with torch.no_grad():
        text = model.encode_text(model.tokenize(LABELS))
    weights = [weight for name, weight in model.named_parameters() if not name.startswith("text.")]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=num_steps)
    model.train()
    for _ in range(num_steps):
        batch = clips[torch.randint(len(clips), (16,))]
        logits = model.score(model.encode_video(batch.flatten(0, 1)), text)
        loss = F.cross_entropy(logits, torch.tensor([0, 1] * 16))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()


def test_the_expanded_model_learns_left_from_right_and_the_mean_of_frames_cannot() -> None:
    clips, held_out = pairs(range(160)), pairs(range(1000, 1064))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        mean = built(message="off", mit_layers=0, prompt_layers=0)
        train(mean, clips, num_steps=5)
        expanded = built()
        before = percent_right(expanded, held_out)
        train(expanded, clips, num_steps=180)
    assert percent_right(mean, held_out) == before == 50  # of a clip and its reverse one is right, whatever the weights
    assert percent_right(expanded, held_out) > 90
