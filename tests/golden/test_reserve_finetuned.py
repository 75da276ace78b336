"""The heads of finetuned Reserve weights: scores, losses and gradients against the authors' code (spec sections 8.2 and 8.3)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reserve_fixtures import arrays, config_of, difference, entries, index, read, seeded_input, seeded_state
from watchword.reserve import Reserve
from watchword.reserve.choices import choice_scores
from watchword.reserve.names import released_name, to_released
from watchword.reserve.sound_choices import PARTS as TVQA_PARTS
from watchword.reserve.sound_choices import score_versions
from watchword.weights.states import fill

LOGITS, GRADIENTS = 1e-5, 1e-4
PARTS = {"vcr": ("proj",), "tvqa": TVQA_PARTS}


def finetuned_model(entry: dict[str, Any], task: str, seeded_weights: ModuleType) -> Reserve:
    model = Reserve(config_of(entry["model"], parts=PARTS[task]))
    manifest = read(index()["models"][entry["model"]]["manifest"])
    params = [*manifest["params"], read(entry["info"])["extra_param"]]
    state = seeded_state({"params": params}, seeded_weights)
    fill(model, {name: state[name] for name in model.state_dict()}, task)
    return model


def vcr(model: Reserve, expected: dict[str, Tensor], prefix: str, seeded_weights: ModuleType) -> Tensor:
    """Logits (B, 2, 4): the answers, and the rationales."""
    return choice_scores(model, seeded_input(f"{prefix}/vcr/image", seeded_weights), expected["vcr/answers"])


def tvqa(model: Reserve, expected: dict[str, Tensor], prefix: str, seeded_weights: ModuleType) -> tuple[Tensor, Tensor]:
    """Logits (B, 5) with sound and with subtitles."""
    images = seeded_input(f"{prefix}/tvqa/images", seeded_weights)
    clips = seeded_input(f"{prefix}/tvqa/audio_clips", seeded_weights)
    images[1, 5:], clips[1, 5:, :, :, :64] = 0, 0  # the fixtures' second example has five real windows
    sequences = torch.stack([expected["tvqa/audio_seqs"], expected["tvqa/textonly_seqs"]], dim=1)
    scores = score_versions(model, images, clips, sequences)
    return scores[:, 0], scores[:, 1]


def off_in_gradients(model: Reserve, expected: dict[str, float], whole: Tensor) -> dict[str, float]:
    """Norms of gradients that are off, relative to the authors'; what they call zero to the largest norm."""
    found = {}
    parameters = dict(model.named_parameters())
    gradients = torch.autograd.grad(whole, list(parameters.values()), retain_graph=True, allow_unused=True)
    for name, gradient in zip(parameters, gradients, strict=True):
        norm = 0.0 if gradient is None else float(gradient.norm())
        theirs = expected[released_name(name)]
        found[name] = abs(norm - theirs) / theirs if theirs > 1e-6 else norm
    assert len(found) == len(expected)
    return {name: off for name, off in found.items() if off > GRADIENTS}


@pytest.mark.parametrize("entry", entries("finetune"))
def test_vcr(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, info = arrays(entry["arrays"]), read(entry["info"])["vcr"]
    model = finetuned_model(entry, "vcr", seeded_weights)
    logits = vcr(model, expected, entry["inputs_prefix"], seeded_weights)
    loss = F.cross_entropy(logits.flatten(0, 1), expected["vcr/labels"].flatten())
    assert difference(logits, expected["vcr/logits"]) <= LOGITS
    assert difference(logits.log_softmax(-1), expected["vcr/logprobs"]) <= LOGITS
    assert torch.equal(logits.argmax(-1), expected["vcr/preds"])
    assert abs(float(loss.detach()) - info["loss"]) <= LOGITS
    assert off_in_gradients(model, info["grad_norms"], loss) == {}
    assert_proj_gradient(model, loss, expected["vcr/grad/proj/kernel"])


@pytest.mark.parametrize("entry", entries("finetune"))
def test_tvqa(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, info = arrays(entry["arrays"]), read(entry["info"])["tvqa"]
    model = finetuned_model(entry, "tvqa", seeded_weights)
    audio, text = tvqa(model, expected, entry["inputs_prefix"], seeded_weights)
    labels = expected["tvqa/labels"]
    loss = F.cross_entropy(audio, labels) + F.cross_entropy(text, labels)
    for key, logits in (("audio", audio), ("text", text)):
        assert difference(logits, expected[f"tvqa/logits_from_{key}"]) <= LOGITS
        assert difference(logits.log_softmax(-1), expected[f"tvqa/logprobs_{key}"]) <= LOGITS
        assert torch.equal(logits.argmax(-1), expected[f"tvqa/preds_{key}"])
    assert torch.equal((audio.softmax(-1) + text.softmax(-1)).argmax(-1), expected["tvqa/preds_joint"])
    assert abs(float(loss.detach()) - info["loss"]) <= LOGITS
    assert off_in_gradients(model, info["grad_norms"], loss) == {}
    assert_proj_gradient(model, loss, expected["tvqa/grad/proj/kernel"])


def assert_proj_gradient(model: Reserve, loss: Tensor, expected: Tensor) -> None:
    assert model.proj is not None
    gradient = torch.autograd.grad(loss, model.proj.weight)[0]
    released = to_released("proj/kernel", gradient, model.config.head_size, model.config.audio_patch)
    assert difference(released, expected) <= GRADIENTS * float(np.abs(expected.numpy()).max())
