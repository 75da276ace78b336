"""The engine: resuming, settings, order."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from watchword.datasets import batches
from watchword.datasets.playground import PlaygroundClips
from watchword.datasets.videos import VideoClips, read_annotations
from watchword.errors import CheckpointError, ConfigError
from watchword.playground import PHRASES, write_folder
from watchword.training import evaluate, load_recipe, run
from watchword.training.checkpoint import load_state, save_state
from watchword.training.schedule import warmup_cosine
from watchword.training.settings import TrainingSettings
from watchword.xclip import XClip, XClipConfig
from watchword.xclip.inputs import to_tensor
from watchword.xclip.model import VideoFeatures
from watchword.xclip.recipe import SupervisedProgram
from watchword.xclip.views import Views

RECIPES = Path(__file__).parents[2] / "recipes"
TINY_MODEL = {
    "image_size": 32, "patch_size": 16, "vision_width": 64, "vision_layers": 2, "embed_dim": 64, "text_width": 64, "text_layers": 1,
    "context_length": 32, "drop_path": 0.2,
}  # fmt: skip
TRAINING = {
    "num_steps": 12,
    "batch_size": 4,
    "checkpoint_every": 3,
    "log_every": 1,
    "optimizer": {"learning_rate": 0.001, "warmup_steps": 2},
}
IMAGE_TEXT = {
    "program": "image_text",
    "name": "tiny_image_text",
    "model": {**TINY_MODEL, "num_frames": 1, "message": "off", "mit_layers": 0, "prompt_layers": 0},
    "beginning": {"num_frames": 16},
    "data": {"kind": "playground_stills", "num_stills": 16},
    "training": {**TRAINING, "optimizer": {**TRAINING["optimizer"], "muon_learning_rate": 0.002}},  # type: ignore[dict-item]
}
SUPERVISED = {
    "program": "supervised",
    "name": "tiny",
    "model": {**TINY_MODEL, "num_frames": 4},
    "trained": "all",
    "data": {"kind": "playground_clips", "num_clips": 10, "num_held_out": 5},
    "training": TRAINING,
}


def write(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def command(recipe: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "watchword", "train", str(recipe), "--out", str(out)]


def run_to_the_end(recipe: Path, out: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(recipe, out), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return XClip.from_pretrained(folder / "model").state_dict()


@pytest.mark.parametrize("values", [IMAGE_TEXT, SUPERVISED], ids=["image_text", "supervised"])
def test_a_run_killed_at_any_moment_ends_with_the_same_weights(tmp_path: Path, values: dict[str, Any]) -> None:
    recipe = write(tmp_path, values)
    run_to_the_end(recipe, tmp_path / "whole")
    kills = 0
    while kills < 3:
        process = subprocess.Popen(command(recipe, tmp_path / "killed"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        metrics, wanted = tmp_path / "killed" / "metrics.jsonl", 4 * kills + 2
        while process.poll() is None and not (metrics.exists() and f'"step": {wanted},' in metrics.read_text()):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    run_to_the_end(recipe, tmp_path / "killed")
    whole, killed = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    assert all(torch.equal(whole[name], killed[name]) for name in whole)

    def trace(run: str) -> list[Any]:
        lines = [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        return [(line["step"], line["loss"]) for line in lines if "loss" in line]

    assert trace("whole") == trace("killed")
    assert [step for step, _ in trace("whole")] == list(range(1, 13))


def test_another_seed_gives_other_weights_and_its_folder_is_its_own(tmp_path: Path) -> None:
    recipe = write(tmp_path, IMAGE_TEXT)
    run_to_the_end(recipe, tmp_path / "a")
    values = {**IMAGE_TEXT, "training": {**TRAINING, "seed": 1}}
    recipe = write(tmp_path, values)
    refused = subprocess.run(command(recipe, tmp_path / "a"), capture_output=True, text=True)
    assert refused.returncode == 2
    assert "other settings" in refused.stderr and "Traceback" not in refused.stderr
    run_to_the_end(recipe, tmp_path / "b")
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert not all(torch.equal(a[name], b[name]) for name in a)


def test_a_video_model_starts_from_the_image_text_model(tmp_path: Path) -> None:
    run_to_the_end(write(tmp_path, IMAGE_TEXT), tmp_path / "image-text")
    values = {**SUPERVISED, "start": str(tmp_path / "image-text" / "model"), "trained": "video"}
    values["training"] = {**TRAINING, "num_steps": 1, "optimizer": {"learning_rate": 1e-12}}
    run_to_the_end(write(tmp_path, values), tmp_path / "video")
    before, after = weights(tmp_path / "image-text"), weights(tmp_path / "video")
    text = [name for name in before if not name.startswith("visual.")]
    assert text and all(torch.equal(before[name], after[name]) for name in text)
    assert torch.allclose(before["visual.conv1.weight"], after["visual.conv1.weight"], atol=1e-9)
    assert "mit.positional_embedding" in after and "mit.positional_embedding" not in before


def test_supervised_training_on_video_files_gives_a_model_that_tags(tmp_path: Path) -> None:
    write_folder(tmp_path / "clips", 4, size=64, duration_seconds=0.5)
    annotations = str(tmp_path / "clips" / "annotations.csv")
    values = {**SUPERVISED, "augment": {}, "data": {"kind": "videos", "annotations": annotations, "held_out": annotations}}
    values["training"] = {**TRAINING, "num_steps": 2, "num_workers": 1}
    run_to_the_end(write(tmp_path, values), tmp_path / "run")
    model = XClip.from_pretrained(tmp_path / "run" / "model")
    with Path(annotations).open(newline="") as file:
        labels = sorted({row["label"] for row in csv.DictReader(file)})
    assert list(model.config.class_names) == labels and model.config.weights == "tiny"
    tags = model.tag(tmp_path / "clips" / "00000.mp4", labels)
    assert {tag.label for tag in tags} == set(labels)


def test_annotation_lists_are_checked_before_training(tmp_path: Path) -> None:
    for text, named in (("path,label\na.mp4,\n", "line 2"), ("path,label\n", "no videos"), ("file,label\na.mp4,x\n", "line 1")):
        (tmp_path / "list.csv").write_text(text)
        with pytest.raises(ConfigError, match=named):
            read_annotations(tmp_path / "list.csv")
    with pytest.raises(ConfigError, match="no such"):
        read_annotations(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="'y' of the held-out list"):
        VideoClips([(Path("a.mp4"), "y")], ["x"], XClipConfig(), training=False, seed=0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"training.num_stepz": 3}, "num_stepz"),
        ({"training.batch_size": 0}, "batch_size"),
        ({"data.kind": "films"}, "kind"),
        ({"program": "magic"}, "program"),
        ({"training.optimizer.learning_rate": -1}, "learning_rate"),
        ({"training.optimizer.learning_rate": float("inf")}, "learning_rate"),
        ({"training.optimizer.betas": [0.9, float("nan")]}, "betas"),
    ],
)
def test_a_wrong_key_or_value_is_named(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        load_recipe(write(tmp_path, IMAGE_TEXT), change)
    assert "\n" not in str(raised.value)


def test_a_recipe_lays_its_keys_over_its_base(tmp_path: Path) -> None:
    write(tmp_path, IMAGE_TEXT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "child.yaml").write_text("base: ../recipe.yaml\nname: child\ntraining: {optimizer: {learning_rate: 0.5}}\n")
    recipe = load_recipe(tmp_path / "other" / "child.yaml", {"training.seed": 7})
    assert (recipe.name, recipe.training.optimizer.learning_rate, recipe.training.seed) == ("child", 0.5, 7)
    assert recipe.training.optimizer.muon_learning_rate == 0.002 and recipe.model == IMAGE_TEXT["model"]
    for base in ("child.yaml", "[1]", "none.yaml"):
        (tmp_path / "other" / "child.yaml").write_text(f"base: {base}\n")
        with pytest.raises(ConfigError) as raised:
            load_recipe(tmp_path / "other" / "child.yaml")
        assert "\n" not in str(raised.value)


def test_epochs_are_counted_out_in_steps() -> None:
    optimizer = {"learning_rate": 1, "warmup_epochs": 0.5}
    settings = TrainingSettings(num_epochs=3, batch_size=8, optimizer=optimizer).for_samples(20)  # type: ignore[arg-type]
    assert (settings.num_steps, settings.optimizer.warmup_steps) == (8, 1)
    assert settings.for_samples(1000) == settings
    for wrong in ({}, {"num_steps": 1, "num_epochs": 1}):
        with pytest.raises(ValueError, match="num_steps or num_epochs"):
            TrainingSettings(batch_size=8, optimizer={"learning_rate": 1}, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path", sorted(path for path in RECIPES.rglob("*.yaml") if "ablations" not in path.parts), ids=lambda path: path.stem
)
def test_every_recipe_is_sound_and_runs_small(tmp_path: Path, path: Path) -> None:
    load_recipe(path)
    recipe = load_recipe(path, {"training.device": "cpu"}, tiny=True)
    results = run(recipe, tmp_path / "run", progress=False)
    assert results and (tmp_path / "run" / "model" / "model.safetensors").exists()


def test_not_yaml_and_missing_files_are_one_line_errors(tmp_path: Path) -> None:
    for text in ("a: [", "- 1", ""):
        path = tmp_path / "broken.yaml"
        path.write_text(text)
        with pytest.raises(ConfigError, match="broken"):
            load_recipe(path)
    with pytest.raises(ConfigError, match="no such recipe"):
        load_recipe(tmp_path / "none.yaml")


def test_a_broken_state_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    save_state(tmp_path / "state.pt", {"step": 1, "model": {"a": torch.ones(3)}})
    assert load_state(tmp_path / "state.pt")["step"] == 1  # type: ignore[index]
    whole = (tmp_path / "state.pt").read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"garbage"):
        (tmp_path / "state.pt").write_bytes(broken)
        with pytest.raises(CheckpointError, match="delete it"):
            load_state(tmp_path / "state.pt")
    assert load_state(tmp_path / "none.pt") is None


@given(st.integers(1, 40), st.integers(1, 17), st.integers(0, 30), st.integers(0, 5))
def test_data_order_is_a_function_of_seed_and_step(num_samples: int, batch_size: int, start: int, seed: int) -> None:
    whole = list(batches(num_samples, batch_size, seed=seed, start_step=0, num_steps=start + 5))
    assert list(batches(num_samples, batch_size, seed=seed, start_step=start, num_steps=start + 5)) == whole[start:]
    walked = [position for batch in whole for position in batch]
    full_epochs = len(walked) // num_samples
    for epoch in range(full_epochs):
        assert sorted(walked[epoch * num_samples : (epoch + 1) * num_samples]) == [(epoch, i) for i in range(num_samples)]


def test_schedule_rises_falls_and_ends_where_it_says() -> None:
    factors = [warmup_cosine(step, num_steps=100, warmup_steps=10, final_fraction=0.1) for step in range(101)]
    assert factors[:11] == sorted(factors[:11]) and factors[0] > 0
    assert factors[10] == 1 and factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[100] == pytest.approx(0.1)


def test_accumulated_steps_equal_the_whole_batch(tmp_path: Path) -> None:
    values = {**SUPERVISED, "model": {**SUPERVISED["model"], "drop_path": 0.0}}
    ends = []
    for accumulation in (1, 3):
        values["training"] = {**TRAINING, "num_steps": 3, "accumulation": accumulation, "optimizer": {"learning_rate": 1e-3, "eps": 1e-3}}
        run(load_recipe(write(tmp_path, values)), tmp_path / f"run{accumulation}", progress=False)
        ends.append(weights(tmp_path / f"run{accumulation}"))
    assert all(torch.allclose(ends[0][name], ends[1][name], atol=1e-5) for name in ends[0])


def test_mixing_and_the_released_schedule_are_settings(tmp_path: Path) -> None:
    optimizer = {"learning_rate": 1e-3, "schedule": "released", "warmup_steps": 2}
    values = {**SUPERVISED, "mixing": {}, "training": {**TRAINING, "num_steps": 4, "optimizer": optimizer}}
    run(load_recipe(write(tmp_path, values)), tmp_path / "run", progress=False)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines if "loss" in line][:3] == [0, 0, 5e-4]


def test_clips_are_mixed_with_those_of_other_parts_if_asked(tmp_path: Path) -> None:
    def loss(name: str, accumulation: int, mixing: dict[str, Any] | None) -> float:
        values = {**SUPERVISED, "model": {**SUPERVISED["model"], "drop_path": 0.0}, "mixing": mixing}
        values["training"] = {**TRAINING, "num_steps": 1, "accumulation": accumulation}
        run(load_recipe(write(tmp_path, values)), tmp_path / name, progress=False)
        first: float = json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[1])["loss"]
        return first

    across: dict[str, Any] = {"across_parts": True, "cutmix_probability": 1}
    plain, whole = loss("plain", 1, None), loss("whole", 1, {"cutmix_probability": 1})
    assert loss("alone", 4, {"cutmix_probability": 1}) == pytest.approx(plain, abs=1e-5)  # a part of one clip has no other to mix with
    assert loss("across", 4, across) == pytest.approx(whole, abs=1e-5) != pytest.approx(plain, abs=1e-3)


def test_a_run_of_an_older_version_is_resumed(tmp_path: Path) -> None:
    values = {**SUPERVISED, "training": {**TRAINING, "num_steps": 1}}
    results = run(load_recipe(write(tmp_path, values)), tmp_path / "run", progress=False)
    for name, key in (("settings.json", "optimizer"), ("recipe.json", None)):
        written = json.loads((tmp_path / "run" / name).read_text())
        del (written[key] if key else written)["decay_logit_scale" if key else "num_context_vectors"]
        (tmp_path / "run" / name).write_text(json.dumps(written))
    assert run(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "run", progress=False) == results


def test_a_folder_of_another_recipe_is_not_resumed(tmp_path: Path) -> None:
    values = {**SUPERVISED, "training": {**TRAINING, "num_steps": 1}}
    run(load_recipe(write(tmp_path, values)), tmp_path / "run", progress=False)
    for change in ({"trained": "video"}, {"data.num_clips": 9}, {"label_smoothing": 0.2}):
        with pytest.raises(ConfigError, match="another recipe"):
            run(load_recipe(tmp_path / "recipe.yaml", change), tmp_path / "run", progress=False)
    run(load_recipe(tmp_path / "recipe.yaml"), tmp_path / "run", progress=False)


def test_ctrl_c_leaves_a_run_that_resumes(tmp_path: Path) -> None:
    recipe = write(tmp_path, {**IMAGE_TEXT, "training": {**TRAINING, "num_steps": 2000}})
    process = subprocess.Popen(
        command(recipe, tmp_path / "run"),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs are born deaf to it
    )
    while process.poll() is None and not (tmp_path / "run" / "state.pt").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_finished_run_is_evaluated_again_in_several_views(tmp_path: Path) -> None:
    values = {
        **SUPERVISED,
        "head": "linear",
        "model": {**SUPERVISED["model"], "prompt_layers": 0},
        "training": {**TRAINING, "num_steps": 2},
    }
    recipe = load_recipe(write(tmp_path, values))
    results = run(recipe, tmp_path / "run", progress=False)
    assert evaluate(recipe, tmp_path / "run", Views()) == results
    file = tmp_path / "run" / "model" / "class_head.safetensors"
    held_out = PlaygroundClips(5, num_frames=4, size=32, seed=1, split="unseen", cache_folder=tmp_path / "cache").labels
    always = torch.nn.functional.one_hot(torch.tensor(PHRASES.index(held_out[0])), len(PHRASES)).float() * 1000
    save_file({**load_file(file), "linear.bias": always}, file)
    assert evaluate(recipe, tmp_path / "run", Views(num_clips=2))["held_out_top1"] == 100 * held_out.count(held_out[0]) / 5
    with pytest.raises(ConfigError, match="write 4x1"):
        evaluate(recipe, tmp_path / "run", Views.parse("4x3"))
    with pytest.raises(ConfigError, match="no finished run"):
        evaluate(recipe, tmp_path / "other", Views())


def test_the_probabilities_of_views_are_added() -> None:
    class TwoViews(torch.nn.Module):
        """In a dark view the third class is likeliest and the first out of the question, in a bright one the other way round."""

        def forward(self, model: XClip, features: VideoFeatures) -> torch.Tensor:
            dark = (features.video - black).abs().sum(dim=1, keepdim=True) < 1e-4
            return torch.where(dark, torch.tensor([1e-6, 0.3, 0.7]), torch.tensor([0.8, 0.2, 1e-6])).log()

    class Clips:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, position: tuple[int, int]) -> dict[str, Any]:
            return {"frames": np.full((2, 32, 32, 3), 255 * position[0], np.uint8), "label": 0}

    config = XClipConfig.from_dict({**TINY_MODEL, "num_frames": 2, "preprocessing": {"crop_size": 32, "short_side": 32}})
    model = XClip(config).eval()
    program = SupervisedProgram(
        model, (), class_names="abc", trained="new", label_smoothing=0, mixing=None, held_out={"clips": Clips()}, head=TwoViews()
    )
    with torch.no_grad():
        black = model.encode_video(to_tensor(Clips()[0, 0]["frames"][None], config.preprocessing)).video
        assert [program.evaluate(num_views=views)["clips_top1"] for views in (1, 2)] == [0, 100]


def test_views_of_a_playground_clip_are_other_moments_of_it(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"num_frames": 4, "size": 32, "seed": 3, "split": "unseen", "cache_folder": tmp_path}
    one, three = PlaygroundClips(4, **sizes), PlaygroundClips(4, num_views=3, **sizes)
    views = [three[view, 2] for view in range(3)]
    assert (views[0]["frames"] == one[0, 2]["frames"]).all() and {view["label"] for view in views} == {one[0, 2]["label"]}
    assert not (views[1]["frames"] == views[0]["frames"]).all() and not (views[1]["frames"] == views[2]["frames"]).all()
