"""X-CLIP's mixed clips, losses, gradients, optimizer groups, schedule and steps against the authors' code."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from test_xclip import FOLDER, seeded_model
from torch import Tensor

from shared_folders import GOLDEN_ROOT
from watchword.training.schedule import released_rate
from watchword.training.settings import OptimizerSettings
from watchword.xclip import XClip
from watchword.xclip.mixing import Mixture, cutmix, smoothed_targets
from watchword.xclip.recipe import Trained, parameter_groups

NAMES = sorted(path.name.removesuffix("_train.json") for path in FOLDER.glob("*_train.json"))
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{GOLDEN_ROOT} is not there: set $WATCHWORD_GOLDEN to the folder of fixtures")

Fixture = tuple[dict[str, Any], dict[str, Tensor]]


def read(name: str) -> Fixture:
    return json.loads((FOLDER / f"{name}_train.json").read_text()), load_file(FOLDER / f"{name}_train.safetensors")


def blended(kind: str, fixture: Fixture, xclip_inputs: ModuleType, num_classes: int) -> tuple[Tensor, Tensor]:
    """The clips and soft targets of spec section 10.3, with the draws that the fixture states."""
    values, arrays = fixture
    video = torch.from_numpy(xclip_inputs.video(**values["video"]))
    targets = smoothed_targets(arrays["labels"].long(), num_classes, values["smoothing"])
    other, stated = arrays["permutation"].long(), values[kind]
    if kind == "mixup":
        mixture = Mixture(other, stated["lam"])
    else:
        mixture = cutmix(other, stated["lam_sampled"], stated["center_x"], stated["center_y"], *video.shape[-2:])
        assert mixture.box == tuple(stated["box_x1y1x2y2"])
        assert mixture.share == pytest.approx(stated["lam_corrected"], abs=1e-12)
    video, targets = mixture(video, targets)
    assert float(video.double().sum()) == pytest.approx(stated["video_sum"], rel=1e-5)
    assert float(video.double().square().sum()) == pytest.approx(stated["video_sumsq"], rel=1e-5)
    assert torch.allclose(targets, arrays[f"target_{kind}"], atol=1e-6)
    assert torch.allclose(video[:, :, :, ::7, ::5], arrays[f"video_{kind}_sample"], atol=1e-6)
    return video, targets


def settings_of(values: dict[str, Any]) -> OptimizerSettings:
    return OptimizerSettings(learning_rate=values["base_lr"], betas=tuple(values["betas"]), eps=values["eps"])


def trainable_model(name: str, weights: ModuleType, *, trained: Trained, settings: OptimizerSettings) -> tuple[XClip, list[dict[str, Any]]]:
    model = seeded_model(name, weights)
    return model, parameter_groups(model, settings, trained=trained)


def stated_rate(schedule: dict[str, Any], step: int, base: float, base_lr: float, accumulation: int = 1) -> float:
    per_epoch = schedule["iterations_per_epoch"]
    return released_rate(
        step,
        base=base,
        floor=0.01 * base_lr,
        num_iterations=schedule["epochs"] * per_epoch,
        warmup_iterations=schedule["warmup_epochs"] * per_epoch,
        iterations_per_epoch=per_epoch,
        accumulation=accumulation,
    )


def exactly_zero(name: str, gradient: Tensor) -> Tensor:
    """Which entries of a gradient are zero in exact arithmetic, so that only rounding noise is there (spec section 2)."""
    zero = torch.zeros(gradient.shape, dtype=torch.bool)
    third = gradient.shape[0] // 3 if gradient.ndim else 0
    if name.endswith("in_proj_bias"):
        zero[third : 2 * third] = True
    if name.startswith("visual.transformer.resblocks.0.message_attn.in_proj"):
        zero[: 2 * third] = True
    return zero


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_a_plain_batch(name: str, seeded_weights: ModuleType, xclip_inputs: ModuleType) -> None:
    values, arrays = read(name)
    model = seeded_model(name, seeded_weights)
    with torch.no_grad():
        logits = model(torch.from_numpy(xclip_inputs.video(**values["video"])), arrays["token_ids"]).logits
    assert float((logits - arrays["plain/logits"]).abs().max()) < 2e-4
    smoothed = F.cross_entropy(logits, arrays["labels"], label_smoothing=values["smoothing"])
    assert float(smoothed) == pytest.approx(values["plain"]["label_smoothing_ce"], abs=1e-4)
    assert float(F.cross_entropy(logits, arrays["labels"])) == pytest.approx(values["plain"]["ce"], abs=1e-4)


@pytest.mark.parametrize("variant", ["frozen_mixup", "frozen_cutmix", "all_mixup"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients(name: str, variant: str, seeded_weights: ModuleType, xclip_inputs: ModuleType) -> None:
    values, arrays = fixture = read(name)
    text, kind = variant.split("_")
    settings = OptimizerSettings(learning_rate=1e-4)
    model, _ = trainable_model(name, seeded_weights, trained="all" if text == "all" else "video", settings=settings)
    video, targets = blended(kind, fixture, xclip_inputs, len(arrays["token_ids"]))
    logits = model(video, arrays["token_ids"]).logits
    loss = F.cross_entropy(logits, targets)
    loss.backward()
    assert float((logits.detach() - arrays[f"{variant}/logits"]).abs().max()) < 2e-4
    assert float(loss.detach()) == pytest.approx(values[variant]["loss"], abs=1e-4)
    gradients = {key: parameter.grad for key, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(gradients) == set(values[variant]["grads"])
    off = {}
    for key, expected in values[variant]["grads"].items():
        gradient = gradients[key]
        assert gradient is not None and list(gradient.shape) == expected["shape"]
        compared = ~exactly_zero(key, gradient).flatten()[:: expected["stride"]]
        difference = (gradient.flatten()[:: expected["stride"]] - arrays[f"{variant}/grad/{key}"]).abs() * compared
        off[key] = float(difference.max()) / max(expected["abs_max"], 1e-12)
        full = arrays.get(f"{variant}/grad_full/{key}")
        if full is not None:
            off[key] = max(off[key], float((gradient - full).abs().max()) / expected["abs_max"])
    print(name, variant, max(off.items(), key=lambda item: item[1]))
    assert {key: value for key, value in off.items() if value > 1e-3} == {}


@pytest.mark.parametrize(("case", "trained"), [("frozen_text", "video"), ("all_trainable", "all")])
@pytest.mark.parametrize("name", NAMES)
def test_optimizer_groups(name: str, case: str, trained: Trained, seeded_weights: ModuleType) -> None:
    expected = read(name)[0]["optimizer"][case]
    settings = settings_of(expected)
    model, groups = trainable_model(name, seeded_weights, trained=trained, settings=settings)
    names = {id(parameter): key for key, parameter in model.named_parameters()}
    found = [(group["lr"], group["weight_decay"], sorted(names[id(parameter)] for parameter in group["params"])) for group in groups]
    assert found == [(group["lr"], group["weight_decay"], sorted(group["params"])) for group in expected["groups"] if group["params"]]
    assert (settings.betas, settings.eps) == (OptimizerSettings(learning_rate=1).betas, OptimizerSettings(learning_rate=1).eps)


@pytest.mark.parametrize("case", ["steps_constant_lr", "steps_scheduled"])
@pytest.mark.parametrize("name", NAMES)
def test_training_steps(name: str, case: str, seeded_weights: ModuleType, xclip_inputs: ModuleType) -> None:
    values, arrays = fixture = read(name)
    run = values[case]
    settings = settings_of({**values["optimizer"]["frozen_text"], "base_lr": run["base_lr"]})
    model, groups = trainable_model(name, seeded_weights, trained="video", settings=settings)
    start = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(groups, betas=settings.betas, eps=settings.eps)
    rates = [group["lr"] for group in groups]
    video, targets = blended("mixup", fixture, xclip_inputs, len(arrays["token_ids"]))
    losses = []
    for step in range(run["steps"]):
        optimizer.zero_grad()
        if run["scheduler"]:
            for group, base in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = stated_rate(values["schedule"], step, base, run["base_lr"])
            assert optimizer.param_groups[0]["lr"] == pytest.approx(run["lr_used_base_group"][step], rel=1e-12)
        loss = F.cross_entropy(model(video, arrays["token_ids"]).logits, targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        losses.append(float(F.cross_entropy(model(video, arrays["token_ids"]).logits, targets)))
    assert np.allclose(losses, run["loss_before_each_step_and_after"], atol=1e-3)
    for key, expected in run["params"].items():
        moved = (model.get_parameter(key).detach() - start[key]) * ~exactly_zero(key, start[key])
        assert float(moved.norm()) == pytest.approx(expected["delta_l2_comparable"], rel=1e-3), key
        full = arrays.get(f"{case}/{key}")
        if full is not None:
            assert float((model.get_parameter(key).detach() - full).abs().max()) < 1e-6, key


@pytest.mark.parametrize("name", NAMES)
def test_the_released_schedule(name: str) -> None:
    stated = read(name)[0]["schedule"]
    for accumulation, key in ((1, "used_no_accumulation"), (4, "used_accumulation_4")):
        for step, used in enumerate(stated[key]):
            for factor, group in ((1, "lr_base_group"), (10, "lr_new_group")):
                rate = stated_rate(stated, step, factor * stated["base_lr"], stated["base_lr"], accumulation)
                assert rate == pytest.approx(used[group], rel=1e-12, abs=1e-20)
    for update, *after in stated["value_after_update_t"]:
        rates = [stated_rate(stated, update + 1, factor * stated["base_lr"], stated["base_lr"]) for factor in (1, 10)]
        assert rates == pytest.approx(after, rel=1e-12, abs=1e-20)
