"""The listed image-text models of open_clip, at full size with random weights."""

from __future__ import annotations

import pytest
import torch

from watchword.xclip import XClip
from watchword.xclip.expandable import EXPANDABLE, Expandable
from watchword.xclip.model import is_new_part

open_clip = pytest.importorskip("open_clip")


@pytest.mark.parametrize("row", EXPANDABLE, ids=lambda row: row.name)
def test_the_names_are_open_clips(row: Expandable) -> None:
    tags = open_clip.list_pretrained_tags_by_model(row.model)
    assert row.tag in tags if row.tag else not tags
    stated = open_clip.get_model_config(row.model)
    assert stated["vision_cfg"]["image_size"] == row.image_size
    assert row.scored_by == ("sigmoid" if "init_logit_bias" in stated else "softmax")
    assert stated["text_cfg"].get("hf_tokenizer_name", "CLIP") == row.tokenizer


@pytest.mark.slow
@pytest.mark.parametrize("row", {row.model: row for row in EXPANDABLE}.values(), ids=lambda row: row.model)
def test_each_is_built_run_and_trained_a_step(row: Expandable) -> None:
    model = XClip.from_pretrained(f"open_clip:{row.model}", random_weights=True, num_frames=2)
    counts = {name: weight.numel() for name, weight in model.named_parameters()}
    longer = 6 * model.config.embed_dim  # the table is of 8 frames
    assert sum(counts.values()) + longer == row.num_parameters
    assert sum(count for name, count in counts.items() if is_new_part(name)) + longer == row.num_new_parameters
    clip = torch.randn(1, 2, 3, row.image_size, row.image_size)
    if row.tokenizer == "CLIP":
        ids = model.tokenize(["a dog", "a cat"])
    else:
        ids = torch.randint(1, model.config.vocab_size, (2, model.config.context_length))
    features = model.encode_video(clip)
    assert torch.allclose(features.video, features.frames.mean(dim=1), atol=1e-4 * float(features.frames.detach().abs().max()))
    logits = model.score(features, model.encode_text(ids))
    assert logits.shape == (1, 2) and logits.isfinite().all()
    torch.nn.functional.cross_entropy(logits, torch.tensor([1])).backward()
    reached = {name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {"prompts_generator.alpha", "mit.resblocks.0.mlp.c_proj.weight"} <= reached
    assert sum(name.endswith("message_out.weight") for name in reached) == model.config.vision_layers
