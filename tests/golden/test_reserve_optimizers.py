"""MERLOT Reserve's optimizers against numbers of the authors' code: every fixture of its kind. Tolerances are the README's."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from reserve_fixtures import FOLDER, difference, entries, read
from watchword.reserve.program import decays
from watchword.training import OptimizerSettings, TrainingSettings
from watchword.training.bfloat16_adam import decode_square, encode_square
from watchword.training.optimizers import Optimizers
from watchword.training.schedule import learning_rate, rising_from_zero

SCALES, DECODED, MAX_ONE_OFF = 1e-6, 1e-6, 1e-4


def runs(info: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The configuration of each run by the prefix of its numbers."""
    named = {match[1] + match[2]: config for key, config in info.items() if (match := re.fullmatch(r"(\w+?)_config(.*)", key))}
    assert named, "the fixture has no configuration"
    return named


def seeded(info: dict[str, Any], what: str, seeded_weights: ModuleType) -> dict[str, Tensor]:
    """Of every parameter its first value (``init``) or the gradient of a step (``grad0`` is that of the first)."""
    made = {}
    for parameter in info["parameters"]:
        rule = re.fullmatch(r"tensor\((\S+), mean (\S+), std (\S+)\)", parameter["init" if what == "init" else "grad"])
        assert rule is not None
        name = rule[1].replace("<step>", what.removeprefix("grad"))
        values = seeded_weights.tensor(name, tuple(parameter["shape"]), float(rule[2]), float(rule[3]))
        made[parameter["name"]] = torch.from_numpy(values)
    return made


def settings_of(config: dict[str, Any], *, finetuning: bool) -> TrainingSettings:
    """What a recipe of this run would say."""
    kind = {"kind": "bfloat16_adam", "correct_bias": config["do_bias_correction"]} if config["use_bfloat16_adam"] else {"kind": "adamw"}
    end = {"schedule": "linear"} if finetuning else {"schedule": "from_zero", "final_fraction": config["final_lr_scale"]}
    optimizer = {
        **kind, **end, "pull_to_start": finetuning, "learning_rate": config["learning_rate"], "eps": config["eps"],
        "betas": (config["beta_1"], config["beta_2"]), "warmup_steps": config["num_warmup_steps"],
        "weight_decay": config["weight_decay_rate"],
    }  # fmt: skip
    return TrainingSettings.model_validate({"num_steps": config["num_train_steps"], "batch_size": 1, "optimizer": optimizer})


def optimizer_of(settings: OptimizerSettings, parameters: dict[str, nn.Parameter], *, finetuning: bool) -> torch.optim.Optimizer:
    groups = [
        {"params": [parameter], "weight_decay": settings.weight_decay if decays(parameter.shape, finetuning=finetuning) else 0.0}
        for parameter in parameters.values()
    ]
    (optimizer,) = Optimizers(groups, settings).optimizers
    return optimizer


@pytest.mark.parametrize("entry", entries("optimizers"))
def test_steps(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    info, expected = read(entry["info"]), load_file(FOLDER / entry["arrays"])
    seen = {key for key in expected if key.startswith("codec/")}
    for prefix, config in runs(info).items():
        finetuning = prefix.startswith("finetune")
        parameters = {name: nn.Parameter(value) for name, value in seeded(info, "init", seeded_weights).items()}
        settings = settings_of(config, finetuning=finetuning)
        optimizer = optimizer_of(settings.optimizer, parameters, finetuning=finetuning)
        tolerance = 1e-4 if not config["use_bfloat16_adam"] else 1e-6
        steps = {int(match[1]) for key in expected if (match := re.match(rf"{re.escape(prefix)}/step(\d+)/", key))}
        for step in range(1, max(steps) + 1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step - 1, config["learning_rate"], settings, num_samples=1)
            for name, gradient in seeded(info, f"grad{step - 1}", seeded_weights).items():  # theirs count from 0
                parameters[name].grad = gradient
            optimizer.step()
            if step in steps:
                seen |= compared(f"{prefix}/step{step}", parameters, optimizer, expected, tolerance)
    assert seen == set(expected), "some numbers of the fixture were not compared"


def compared(
    key: str, parameters: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, expected: dict[str, Tensor], tolerance: float
) -> set[str]:
    """The numbers that were compared, all of a step's."""
    seen, one_off, total = set(), 0, 0
    for name, parameter in parameters.items():
        assert difference(parameter, expected[f"{key}/param/{name}"]) <= tolerance, (key, name)
        seen.add(f"{key}/param/{name}")
        if f"{key}/mu_bits/{name}" in expected:
            state = optimizer.state[parameter]
            mean, square = (bits(state[moment]) for moment in ("exp_avg", "exp_avg_sq"))
            assert torch.equal(mean, expected[f"{key}/mu_bits/{name}"].int()), (key, name)
            off = (square - expected[f"{key}/nu_bits/{name}"].int()).abs()
            one_off, total = one_off + int((off != 0).sum()), total + off.numel()
            seen |= {f"{key}/mu_bits/{name}", f"{key}/nu_bits/{name}"}
    print(key, one_off, "of", total, "second moments are coded otherwise")
    assert one_off <= MAX_ONE_OFF * total
    return seen


def bits(tensor: Tensor) -> Tensor:
    return tensor.view(torch.int16).int() & 0xFFFF


@pytest.mark.parametrize("entry", entries("optimizers"))
def test_coding_of_second_moments(entry: dict[str, Any]) -> None:
    expected = load_file(FOLDER / entry["arrays"])
    coded = encode_square(expected["codec/v"])
    assert torch.equal(bits(coded), expected["codec/encoded_bits"].int())
    decoded, then = decode_square(coded), expected["codec/decoded"]
    assert float(((decoded - then).abs() / then.abs().clamp(min=1e-30)).max()) <= DECODED


@pytest.mark.parametrize("entry", entries("optimizers"))
def test_decay_masks_and_schedules(entry: dict[str, Any]) -> None:
    info = read(entry["info"])
    for kind in ("pretrain", "finetune"):
        mask = {parameter["name"]: decays(parameter["shape"], finetuning=kind == "finetune") for parameter in info["parameters"]}
        assert mask == info[f"{kind}_decay_mask"]
    for name, table in info["schedules"].items():
        for step, scale in table["points"]:
            factor = rising_from_zero(
                step,
                num_steps=table["num_train_steps"],
                warmup_steps=table["num_warmup_steps"],
                final_fraction=table.get("final_lr_scale", 0.0),
                decay="linear" if "linear" in name else "cosine",
            )
            assert factor == pytest.approx(scale, abs=SCALES), (name, step)
