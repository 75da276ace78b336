"""What is trained and how it is computed: branches, precisions, activation checkpointing, and what a run says of itself."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from pydantic import ValidationError
from torch import Tensor, nn

from tiny_clips import tiny_model
from watchword.errors import ConfigError
from watchword.layers import TransformerBlock
from watchword.text import tokenize
from watchword.training import OptimizerSettings, TrainingSettings, load_recipe, train
from watchword.training.checkpoint import load_state, save_state
from watchword.training.parallel import compile_blocks
from watchword.weights.states import hash_state
from watchword.xclip import XClip
from watchword.xclip.augment import Augmentation
from watchword.xclip.recipe import SupervisedProgram, Trained, parameter_groups, trained_parameters

CLASSES = ("red", "green", "blue")
OPTIMIZER = OptimizerSettings(learning_rate=1e-4, new_parts_factor=2)


class Clips:
    """Eight clips of noise with labels; reading stops with an error after ``most`` of them."""

    def __init__(self, most: int = 1000) -> None:
        self.frames = np.random.default_rng(0).integers(0, 256, (8, 4, 32, 32, 3), dtype=np.uint8)
        self.left = most

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, position: tuple[int, int]) -> dict[str, Any]:
        self.left -= 1
        if self.left < 0:
            raise InterruptedError
        return {"frames": self.frames[position[1]], "label": position[1] % len(CLASSES)}


def program(trained: Trained = "all", clips: Clips | None = None, **changes: Any) -> SupervisedProgram:
    clips = clips or Clips()
    options: dict[str, Any] = dict(class_names=CLASSES, trained=trained, label_smoothing=0.1, mixing=None, held_out={"held_out": Clips()})
    return SupervisedProgram(tiny_model(**changes), clips, **options)


def settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings(**{"num_steps": 4, "batch_size": 4, "log_every": 1, "optimizer": OPTIMIZER} | changes)


def metrics(folder: Path, key: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[key] for line in lines if key in line]


@pytest.mark.parametrize(
    ("trained", "learning"),
    [("all", {"image", "text", "new"}), ("video", {"image", "new"}), ("text", {"text", "new"}), ("new", {"new"})],
)
def test_the_branches_that_are_named_learn_and_no_other_changes(tmp_path: Path, trained: Trained, learning: set[str]) -> None:
    run = program(trained)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    train(run, settings(), tmp_path, progress=False)
    changed = {
        "new" if name.startswith(("mit.", "prompts_")) or "message_" in name else "image" if name.startswith("visual.") else "text"
        for name, value in run.model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed == learning


def test_the_parameters_that_learn_are_counted_by_branch() -> None:
    model = tiny_model()
    parameter_groups(model, OPTIMIZER, trained="video")
    text = sum(p.numel() for name, p in model.named_parameters() if not name.startswith(("visual.", "mit.", "prompts_")))
    total = sum(p.numel() for p in model.parameters())
    told = trained_parameters(model)
    assert told.startswith(f"training {(total - text) / 1e6:.2f} of {total / 1e6:.2f} million parameters (image ")
    assert told.endswith(f"frozen: text {text / 1e6:.2f})")
    parameter_groups(model, OPTIMIZER, trained="all")
    assert trained_parameters(model).endswith("frozen: none)")


def test_the_logit_scale_decays_as_released_unless_told_otherwise() -> None:
    model = tiny_model()
    for decays in (True, False):
        groups = parameter_groups(model, OPTIMIZER.model_copy(update={"decay_logit_scale": decays}), trained="all")
        (own,) = (group for group in groups if any(parameter is model.logit_scale for parameter in group["params"]))
        assert (own["weight_decay"] > 0) is decays


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_low_precision_stays_near_float32(tmp_path: Path, precision: str) -> None:
    for kind in ("float32", precision):
        train(program(), settings(precision=kind, batch_size=8), tmp_path / kind, progress=False)
    exact, low = (metrics(tmp_path / kind, "loss") for kind in ("float32", precision))
    assert len(low) == 4 and exact[-1] < exact[0]
    assert low == pytest.approx(exact, rel=0.02)
    assert low != exact


def test_the_scale_of_the_loss_is_part_of_what_a_run_resumes_from(tmp_path: Path) -> None:
    options = settings(precision="float16", checkpoint_every=2)
    train(program(), options, tmp_path / "whole", progress=False)
    for most in (12, 1000):  # stopped while the fourth step is read
        try:
            train(program(clips=Clips(most)), options, tmp_path / "stopped", progress=False)
        except InterruptedError:
            assert load_state(tmp_path / "stopped" / "state.pt")["step"] == 2  # type: ignore[index]
    whole, stopped = (load_state(tmp_path / name / "state.pt") for name in ("whole", "stopped"))
    assert whole is not None and stopped is not None and whole["scaler"] == stopped["scaler"]
    assert all(torch.equal(whole["model"][name], stopped["model"][name]) for name in whole["model"])


def test_a_step_whose_gradients_overflow_is_left_out_and_the_scale_halved(tmp_path: Path) -> None:
    options = settings(precision="float16", checkpoint_every=1, num_steps=2)
    with pytest.raises(InterruptedError):
        train(program(clips=Clips(4)), options, tmp_path, progress=False)
    state = load_state(tmp_path / "state.pt")
    assert state is not None
    state["scaler"]["scale"] = 2.0**60
    save_state(tmp_path / "state.pt", state)
    run = program()
    train(run, options, tmp_path, progress=False)
    assert all(torch.equal(value, state["model"][name]) for name, value in run.model.state_dict().items())
    assert metrics(tmp_path, "loss_scale") == [65536, 2.0**59]


def saved_bytes_and_gradients(model: XClip, video: Tensor) -> tuple[int, dict[str, Tensor]]:
    """What the forward pass of one training step keeps for the backward pass beside the parameters, and the gradients."""
    own = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model.zero_grad()
    torch.manual_seed(5)  # of drop path
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(video, tokenize(CLASSES)).logits.square().mean()
    loss.backward()
    return sum(kept.values()), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("drop_path", [0.0, 0.5])
def test_checkpointed_activations_give_the_same_gradients_and_are_not_kept(drop_path: float) -> None:
    model = tiny_model(drop_path=drop_path, vision_layers=4, text_layers=3).train()
    video = torch.randn(3, 4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    kept, gradients = saved_bytes_and_gradients(model, video)
    model.checkpoint_activations()
    kept_now, gradients_now = saved_bytes_and_gradients(model, video)
    assert gradients.keys() == gradients_now.keys() and len(gradients) == len(list(model.parameters()))
    assert all(torch.equal(gradients[name], gradients_now[name]) for name in gradients)
    assert kept_now < kept / 2
    model.checkpoint_activations(False)
    assert saved_bytes_and_gradients(model, video)[0] == kept


def test_checkpointing_is_a_setting_that_a_resumed_run_may_change(tmp_path: Path) -> None:
    train(program(drop_path=0.3), settings(), tmp_path / "plain", progress=False)
    with pytest.raises(InterruptedError):
        train(program(clips=Clips(12), drop_path=0.3), settings(checkpoint_every=1), tmp_path / "mixed", progress=False)
    run = program(drop_path=0.3)
    train(run, settings(checkpoint_every=1, checkpoint_activations=True), tmp_path / "mixed", progress=False)
    assert metrics(tmp_path / "mixed", "loss") == metrics(tmp_path / "plain", "loss")
    assert run.model.visual.transformer.checkpointing


def test_a_run_tells_its_memory_and_how_long_it_waited_for_data(tmp_path: Path) -> None:
    train(program(), settings(), tmp_path, progress=False)
    assert len(metrics(tmp_path, "peak_memory_megabytes")) == 1 and metrics(tmp_path, "peak_memory_megabytes")[0] > 50
    assert len(metrics(tmp_path, "data_wait_share")) == 4
    assert all(0 <= share <= 1 for share in metrics(tmp_path, "data_wait_share"))


RECIPE: dict[str, Any] = {
    "program": "supervised",
    "name": "tiny",
    "model": {},
    "data": {"kind": "videos", "annotations": "a.csv", "held_out": "b.csv"},
    "training": {"num_steps": 1, "batch_size": 1, "optimizer": {"learning_rate": 0.1}},
}


def test_a_recipe_takes_the_papers_augmentation_and_branches(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    recipe = load_recipe(path)
    assert recipe.augment is None and recipe.trained == "video"  # type: ignore[union-attr]
    recipe = load_recipe(path, {"augment": {}, "trained": "text"})
    assert recipe.augment == Augmentation() and recipe.trained == "text"  # type: ignore[union-attr]
    for change, named in (
        ({"augment.flips": 1}, "augment.flips"),
        ({"augment.hue": 0.7}, "augment: .*hue is 0.7"),
        ({"trained": "sound"}, "trained"),
        ({"training.precision": "float8"}, "precision"),
    ):
        with pytest.raises(ConfigError, match=named) as raised:
            load_recipe(path, change)
        assert "\n" not in str(raised.value)


BEST = {"num_steps": 8, "evaluate_every": 1, "checkpoint_every": 3, "keep_best": "held_out_top1", "optimizer": {"learning_rate": 0.004}}


def test_the_best_model_is_kept_beside_the_last_one(tmp_path: Path) -> None:
    train(program(), settings(**BEST), tmp_path / "whole", progress=False)
    found = metrics(tmp_path / "whole", "held_out_top1")
    place = found.index(max(found))
    assert place < len(found) - 1, "the last model is the best: take another rate"
    best, last = (json.loads((tmp_path / "whole" / name / "results.json").read_text()) for name in ("best", ""))
    assert (best["step"], best["held_out_top1"], last["held_out_top1"]) == (place + 1, max(found), found[-1])
    kept = XClip.from_pretrained(tmp_path / "whole" / "best")
    assert hash_state(kept.state_dict()) == best["weights_sha256"] != last["weights_sha256"]
    again = SupervisedProgram(
        kept, Clips(), class_names=CLASSES, trained="all", label_smoothing=0.1, mixing=None, held_out={"held_out": Clips()}
    )
    with torch.inference_mode():
        assert again.evaluate()["held_out_top1"] == max(found)


@pytest.mark.parametrize("read", [10, 22])
def test_a_run_that_is_stopped_keeps_the_same_best(tmp_path: Path, read: int) -> None:
    train(program(), settings(**BEST), tmp_path / "whole", progress=False)
    with pytest.raises(InterruptedError):
        train(program(clips=Clips(read)), settings(**BEST), tmp_path / "stopped", progress=False)
    before = (tmp_path / "stopped" / "best" / "model.safetensors").stat().st_mtime_ns
    train(program(), settings(**BEST), tmp_path / "stopped", progress=False)
    whole, stopped = (json.loads((tmp_path / name / "best" / "results.json").read_text()) for name in ("whole", "stopped"))
    assert whole == stopped
    if read == 22:  # it had been found before the stop, and nothing since was better
        assert (tmp_path / "stopped" / "best" / "model.safetensors").stat().st_mtime_ns == before


def test_a_best_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'top1', but the evaluation gives held_out_top1"):
        train(program(), settings(keep_best="top1", evaluate_every=1), tmp_path, progress=False)
    with pytest.raises(ValidationError, match="keep_best needs evaluate_every"):
        settings(keep_best="held_out_top1")
    base = Path(__file__).parents[2] / "recipes" / "playground_xclip.yaml"
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({"base": str(base), "training": {"keep_best": "seen_top1"}}))
    tiny = load_recipe(tmp_path / "recipe.yaml", tiny=True).training
    assert tiny.keep_best == "seen_top1" and tiny.evaluate_every is not None and tiny.evaluate_every < tiny.num_steps


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null", '"text"', "{}", '{"program": "supervised"}'])
def test_a_folder_whose_settings_are_damaged_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    train(program(), settings(num_steps=1), tmp_path, progress=False)
    (tmp_path / "settings.json").write_text(damage)
    with pytest.raises(ConfigError, match=r"other settings \(see settings.json"):
        train(program(), settings(num_steps=1), tmp_path, progress=False)


def test_a_run_begins_with_the_weights_and_moments_of_another(tmp_path: Path) -> None:
    train(program(), settings(num_steps=2), tmp_path / "first", progress=False)
    state = tmp_path / "first" / "state.pt"
    train(program(), settings(num_steps=1, moments_from=str(state)), tmp_path / "second", progress=False)
    old, new = (load_state(tmp_path / run / "state.pt") for run in ("first", "second"))
    assert old is not None and new is not None and new["step"] == 1
    steps = {int(values["step"]) for values in new["optimizer"]["state"].values()}
    assert steps == {3}  # two of the first run's and one of its own
    with pytest.raises(ConfigError, match="moments_from: no state"):
        train(program(), settings(num_steps=1, moments_from=str(tmp_path / "none.pt")), tmp_path / "third", progress=False)


def test_adam_of_two_bytes_and_its_schedule_run_and_count(tmp_path: Path) -> None:
    optimizer = {"kind": "bfloat16_adam", "learning_rate": 1e-3, "schedule": "from_zero", "warmup_steps": 1}
    train(program(), settings(num_steps=3, log_every=1, optimizer=optimizer), tmp_path, progress=False)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines if "loss" in line] == pytest.approx([0.0, 1e-3, 1e-3 * (0.01 + 0.99 * 0.75)])
    assert all(line["nan_gradients"] == line["skipped_steps"] == 0 for line in lines if "loss" in line)
    with pytest.raises(ValidationError, match="goes with kind adamw"):
        settings(optimizer={**optimizer, "muon_learning_rate": 1e-3})


FINETUNING = {"kind": "bfloat16_adam", "learning_rate": 1e-3, "schedule": "linear", "correct_bias": True, "pull_to_start": True}


def test_the_linear_schedule_rises_from_zero_and_falls_to_it(tmp_path: Path) -> None:
    optimizer = {**FINETUNING, "warmup_epochs": 0.99}  # of two steps each: one step
    options = settings(num_steps=0, num_epochs=2, log_every=1, optimizer=optimizer)
    train(program(), options.for_samples(len(Clips())), tmp_path, progress=False)
    assert metrics(tmp_path, "learning_rate") == pytest.approx([0.0, 1e-3, 0.75e-3, 0.5e-3])
    held = OptimizerSettings.model_validate({**FINETUNING, "final_fraction": 0.1})
    assert (held.final_fraction, OptimizerSettings.model_validate(held.model_dump())) == (0.1, held)


def test_decay_pulls_weights_without_gradients_to_the_start_or_to_zero(tmp_path: Path) -> None:
    class Still(SupervisedProgram):
        def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            return sum(p.sum() for p in self.model.parameters() if p.requires_grad) * 0.0, {}  # type: ignore[return-value]

    ends = {}
    for pulled in (True, False):
        optimizer = {**FINETUNING, "pull_to_start": pulled, "weight_decay": 0.5, "learning_rate": 0.1}
        run = program()
        run.__class__ = Still
        train(run, settings(optimizer=optimizer), tmp_path / str(pulled), progress=False)
        ends[pulled] = run.model.state_dict()
    for name, start in program().model.state_dict().items():
        # The start is kept in bfloat16, so that weights creep up to 2**-8 of themselves.
        assert torch.allclose(ends[True][name], start, rtol=2**-8, atol=0), name
    # The rates are 0.1 x (1, 0.8, 0.6, 0.4), ten times as high for new parts; vectors and positions do not decay.
    old, new = (math.prod(1 - 0.5 * factor * 0.1 * share for share in (1, 0.8, 0.6, 0.4)) for factor in (1, 10))
    for name, start in program().model.state_dict().items():
        shrunk = float(ends[False][name].norm() / start.norm()) if start.norm() else 1.0
        assert min(abs(shrunk - share) for share in (old, new, 1.0)) < 1e-4, (name, shrunk)
        assert shrunk < 0.9 or not name.endswith("in_proj_weight"), name


def test_a_stopped_run_is_pulled_to_where_the_whole_one_began(tmp_path: Path) -> None:
    options = settings(checkpoint_every=1, optimizer={**FINETUNING, "weight_decay": 10.0})
    train(program(), options, tmp_path / "whole", progress=False)
    with pytest.raises(InterruptedError):
        train(program(clips=Clips(12)), options, tmp_path / "stopped", progress=False)
    stopped = program()
    train(stopped, options, tmp_path / "stopped", progress=False)
    whole, again = (load_state(tmp_path / name / "state.pt") for name in ("whole", "stopped"))
    assert whole is not None and again is not None
    assert all(torch.equal(whole["model"][name], value) for name, value in again["model"].items())
    starts = {name: state["start"] for name, state in again["optimizer"]["state"].items() if "start" in state}
    begun = program().model.state_dict()
    assert starts and all(torch.equal(start, begun[name].to(torch.bfloat16)) for name, start in starts.items())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"optimizer": {**FINETUNING, "kind": "adamw"}}, "correct_bias goes with kind bfloat16_adam"),
        ({"optimizer": {"learning_rate": 1e-3, "pull_to_start": True}}, "pull_to_start goes with kind bfloat16_adam"),
        ({"optimizer": FINETUNING, "moments_from": "state.pt"}, "moments_from would bring"),
    ],
)
def test_settings_of_finetuning_that_cannot_be_are_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        settings(**change)


def test_a_run_from_before_a_setting_existed_goes_on(tmp_path: Path) -> None:
    train(program(), settings(num_steps=1), tmp_path, progress=False)
    written = json.loads((tmp_path / "settings.json").read_text())
    del written["keep_best"], written["optimizer"]["clip_gradient_norm"]
    (tmp_path / "settings.json").write_text(json.dumps(written))
    train(program(), settings(num_steps=1), tmp_path, progress=False)
    with pytest.raises(ConfigError, match="other settings"):
        train(program(), settings(num_steps=1, evaluate_every=1, keep_best="held_out_top1"), tmp_path, progress=False)


@pytest.mark.skipif(shutil.which("c++") is None and shutil.which("g++") is None, reason="torch.compile needs a C++ compiler here")
def test_compiled_blocks_give_the_same_numbers_under_the_same_names() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.ModuleList([TransformerBlock(32, 2, activation="quick_gelu")]))
    (block,) = model[0]  # type: ignore[misc]
    x, names = torch.randn(2, 9, 32), list(model.state_dict())
    before = block(x)
    before.sum().backward()
    gradient = block.mlp.c_fc.weight.grad.clone()
    model.zero_grad()
    compile_blocks(model)
    after = block(x)
    after.sum().backward()
    assert list(model.state_dict()) == names
    assert torch.allclose(after, before, atol=1e-5) and torch.allclose(block.mlp.c_fc.weight.grad, gradient, atol=1e-4)
