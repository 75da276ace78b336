"""From class folders to a model that tags, as the person with some clips of each class does it, and the choices behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tiny_clips import tiny_model, write_video
from watchword.cli.tag import DEFAULT_MODEL
from watchword.datasets.annotations import read_annotations
from watchword.errors import ConfigError
from watchword.playground import sample_scene, write_clip
from watchword.report.own_labels import page
from watchword.tasks.classification import evaluate
from watchword.tasks.own_labels import Learned, learn
from watchword.training import load_recipe, own_labels, run
from watchword.training.own_labels import choose_augmentation, choose_settings, choose_start, prepare, split_folder
from watchword.xclip import XClip
from watchword.xclip.registry import RECOMMENDED

CLASSES = {"RedThing": "red", "blue_thing": "blue"}
CLIPS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of playground clips, and among them a text file called a video and a clip that stands there twice."""
    root = tmp_path_factory.mktemp("own") / "my clips"
    for number, (name, colour) in enumerate(CLASSES.items()):
        (root / name).mkdir(parents=True)
        for clip in range(CLIPS):
            scene = sample_scene(100 * number + clip, colour=colour, duration_seconds=0.5)
            write_clip(scene, root / name / f"<b>{clip}.mp4", size=64)
    (root / "RedThing" / "text.mp4").write_text("not a video")
    (root / "blue_thing" / "twin.mp4").write_bytes((root / "blue_thing" / "<b>0.mp4").read_bytes())
    return root


def watchword(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "/nonexistent", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "watchword", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1200)


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "srcset")]


def test_class_folders_give_a_model_that_tags_and_a_report(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = watchword("train", "--labels-from", folder, "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "know rendered shapes and no real footage" in done.stderr and RECOMMENDED in done.stderr
    assert "text.mp4" in done.stderr and "twin.mp4" in done.stderr
    numbers = json.loads(done.stdout)
    held_out = json.loads((out / "held_out_results.json").read_text())
    assert (held_out["top1"], held_out["before"]["top1"]) == (numbers["top1"], numbers["top1_before"])
    assert held_out["weights_sha256"] != held_out["before"]["weights_sha256"]
    assert held_out["weights_sha256"] == json.loads((out / "results.json").read_text())["weights_sha256"]
    assert (numbers["num_held_out"], numbers["num_classes"]) == (2, 2)
    assert numbers["top1"] == 100

    model = XClip.from_pretrained(out / "model")
    assert model.config.class_names == ("blue thing", "red thing") and model.config.weights == "my clips"
    lists = [{str(path): label for path, label in read_annotations(out / name)} for name in ("train.csv", "held_out.csv")]
    assert [len(videos) for videos in lists] == [6, 2] and not lists[0].keys() & lists[1].keys()

    tagged = watchword("tag", *lists[1], "--model", out / "model", "--format", "json")
    assert tagged.returncode == 0, tagged.stderr
    for row in json.loads(tagged.stdout)["results"]:
        assert row["tags"][0]["label"] == lists[1][row["path"]]

    text = (out / "report.html").read_text()
    parsed = _Page(text)
    assert all(link.startswith("data:image/") for link in parsed.links) and len(parsed.links) >= 2
    assert not {"script", "link", "iframe"} & set(parsed.tags) and "default-src 'none'" in text
    assert "100 % of 2 held-out clips right" in text and "text.mp4" in text and "<b>0" not in text


def test_a_run_goes_on_and_its_recipe_gives_the_same_weights(folder: Path, tmp_path: Path) -> None:
    tiny_model(weights="tests").save_pretrained(tmp_path / "start")
    start, out = str(tmp_path / "start"), tmp_path / "run"
    first, again = (learn(folder, out, model=start, progress=False) for _ in range(2))
    assert first.after.as_dict() == again.after.as_dict() and first.plan == again.plan
    run(load_recipe(out / "recipe.yaml"), tmp_path / "by-recipe", progress=False)
    one, other = (XClip.from_pretrained(path / "model").state_dict() for path in (out, tmp_path / "by-recipe"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    before = XClip.from_pretrained(start).state_dict()
    frozen = [name for name in before if torch.equal(before[name], one[name])]
    assert "token_embedding.weight" in frozen and "visual.conv1.weight" not in frozen and "mit.positional_embedding" not in frozen
    with pytest.raises(ConfigError, match="another seed"):
        learn(folder, out, model=start, seed=1, progress=False)


def test_clips_that_are_wrong_are_shown(folder: Path, tmp_path: Path) -> None:
    model = tiny_model(weights="tests")
    model.save_pretrained(tmp_path / "start")
    plan = prepare(folder, tmp_path, model=str(tmp_path / "start"), start=model)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0, "top1": 50}\n')
    result = evaluate(model, plan.held_out + plan.train, plan.class_names)
    assert result.wrong, "a random model is right about everything: take another seed"
    text = page(Learned(folder=tmp_path, plan=plan, before=result, after=result))
    shown = [link for link in _Page(text).links if link.startswith("data:image/jpeg")]
    assert len(shown) == 8 * len(result.wrong)
    assert f"Clips it got wrong: {len(result.wrong)} of {len(result.read)}" in text
    assert "clips to learn from were shown in their own colours" in text and "not mirrored" not in text
    for video in result.wrong:
        assert Path(video.path).name.replace("<b>", "&lt;b&gt;") in text


def test_the_division_is_a_function_of_the_seed_and_tests_every_class(folder: Path) -> None:
    train, held_out, left_out = split_folder(folder, seed=0)
    assert split_folder(folder, seed=0) == (train, held_out, left_out)
    assert {label for _, label in held_out} == {label for _, label in train} == {"red thing", "blue thing"}
    assert len(train) + len(held_out) == 2 * CLIPS and not set(train) & set(held_out)
    assert sorted(problem.kind for problem in left_out) == ["same_content", "unreadable"]
    assert any(split_folder(folder, seed=seed)[1] != held_out for seed in range(1, 5))


def test_folders_that_cannot_be_learned_from_are_said(tmp_path: Path) -> None:
    def clips(**classes: int) -> Path:
        root = tmp_path / "-".join(classes)
        for name, count in classes.items():
            (root / name).mkdir(parents=True)
            for number in range(count):
                write_video(root / name / f"{number}.mp4", num_frames=4 + number + len(name))
        return root

    for folder, named in (
        (clips(only=3), "one class, 'only'"),
        (clips(two=2, one=1), "'one' needs 2 clips .* has 1"),
        (clips(brush_hair=2, BrushHair=2), "one class, 'brush hair'"),
    ):
        with pytest.raises(ConfigError, match=named):
            split_folder(folder, seed=0)
    broken = clips(many=2, not_enough=1)
    (broken / "not_enough" / "text.mp4").write_text("not a video")
    with pytest.raises(ConfigError, match="'not enough' needs") as raised:
        split_folder(broken, seed=0)
    assert [note.partition(": ")[2].partition(": ")[0] for note in raised.value.__notes__] == [str(broken / "not_enough" / "text.mp4")]
    for no_folder in (tmp_path / "nowhere", broken / "not_enough" / "text.mp4"):
        with pytest.raises(ConfigError, match="no such folder"):
            split_folder(no_folder, seed=0)


def test_a_folder_that_cannot_be_written_is_said_before_any_work(folder: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for out in (taken, taken / "run"):
        refused = watchword("train", "--labels-from", folder, "--out", out)
        assert refused.returncode == 2 and refused.stderr == f"watchword: --out: cannot write {str(out)!r}: {str(taken)!r} is no folder\n"


@pytest.mark.parametrize(("num_clips", "steps", "batch"), [(2, 20, 2), (16, 40, 8), (80, 125, 8), (400, 200, 8), (10_000, 5000, 8)])
def test_settings_follow_the_number_of_clips(num_clips: int, steps: int, batch: int) -> None:
    settings = choose_settings(tiny_model(), num_clips, seed=0, device="cpu")
    assert (settings["num_steps"], settings["batch_size"], settings["accumulation"]) == (steps, batch, 1)


def test_settings_follow_the_memory_and_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    weights = 16 * sum(parameter.numel() for parameter in model.parameters())
    clip = own_labels._bytes_per_clip(model.config)
    for fitting, parts in ((8, 1), (4, 2), (3, 3), (0, 8)):
        monkeypatch.setattr(own_labels, "_memory", lambda device, fitting=fitting: 2 * (weights + fitting * clip + 1))
        assert choose_settings(model, 100, seed=0, device="cpu")["accumulation"] == parts
    rates = [choose_settings(start, 100, seed=0, device="cpu")["optimizer"] for start in (model, tiny_model(vision_width=128))]
    assert rates[0]["learning_rate"] == pytest.approx(4 * rates[1]["learning_rate"], rel=0.01)
    new = choose_settings(model, 100, seed=0, device="cpu", new_parts=True)["optimizer"]
    assert new["new_parts_factor"] > rates[0]["new_parts_factor"]


@pytest.mark.parametrize(
    ("names", "changes", "said"),
    [
        (("turning left", "walking"), {"flip_probability": 0}, "'left'"),
        (("Counter-Clockwise spin", "walking"), {"flip_probability": 0}, "'clockwise'"),
        (("a red card", "walking"), {"jitter_probability": 0, "grey_probability": 0}, "'red'"),
        (("eating leftovers", "waving brightly", "coloured"), {}, ""),
    ],
)
def test_clips_are_not_changed_into_those_of_another_class(names: tuple[str, ...], changes: dict[str, float], said: str) -> None:
    augment, notes = choose_augmentation(names)
    assert augment == changes and said in "".join(notes) and len(notes) == bool(said)


def test_the_recipe_does_not_mirror_left_and_right_and_it_is_said(tmp_path: Path) -> None:
    for name in ("turn left", "turn right"):
        (tmp_path / "clips" / name).mkdir(parents=True)
        for number in range(2):
            write_video(tmp_path / "clips" / name / f"{number}.mp4", num_frames=4 + 2 * number + len(name))
    said: list[str] = []
    given: dict[str, Any] = {"model": "playground", "start": tiny_model(), "report": said.append}
    recipe = prepare(tmp_path / "clips", tmp_path / "run", **given).recipe
    assert recipe.augment is not None and recipe.augment.flip_probability == 0 and recipe.augment.jitter_probability > 0
    assert said == ["note: training clips are not mirrored, as a class name says 'left'"]
    assert yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["augment"]["flip_probability"] == 0


def test_the_recipe_begins_with_the_weights_given(folder: Path, tmp_path: Path) -> None:
    model = tiny_model(weights="tests")
    model.save_pretrained(tmp_path / "start")
    plan = prepare(folder, tmp_path / "run", model=str(tmp_path / "start"), start=model, seed=3)
    written: dict[str, Any] = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert written["start"] == str(tmp_path / "start") and "device" not in written["training"]
    assert sorted(read_annotations(tmp_path / "run" / "train.csv")) == sorted(plan.train)
    again = prepare(folder, tmp_path / "run", model=str(tmp_path / "start"), start=model, seed=3)
    assert again.recipe == plan.recipe
    (folder / "RedThing" / "new.mp4").write_bytes((folder / "RedThing" / "<b>0.mp4").read_bytes() + b"\0")
    try:
        with pytest.raises(ConfigError, match="other clips"):
            prepare(folder, tmp_path / "run", model=str(tmp_path / "start"), start=model, seed=3)
    finally:
        (folder / "RedThing" / "new.mp4").unlink()


def test_without_a_download_the_start_is_the_bundled_model_and_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    said: list[str] = []
    name, model = choose_start(None, said.append)
    assert name == model.config.weights == "playground" and RECOMMENDED in said[0] and "MB" in said[0]
    assert RECOMMENDED == DEFAULT_MODEL
