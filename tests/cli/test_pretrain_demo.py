"""`watchword pretrain-demo`: from nothing to a model that fills in blanks, and on again where it was stopped."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from watchword.reserve import Reserve
from watchword.reserve.shards import RecordShards
from watchword.tasks.pretrain_demo import FEWEST_STEPS, _steps_in
from watchword.weights.states import hash_state

RECIPES = Path(__file__).parents[2] / "recipes"
DOCS = Path(__file__).parents[2] / "docs" / "pretrain.md"
SHORT = ("--films", 2, "--steps", 2, "--jobs", 1, "--device", "cpu", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


def weights(folder: Path) -> str:
    return hash_state(Reserve.from_pretrained(folder / "run" / "model").state_dict())


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for name in ("films", "records", "unseen") for path in (folder / name).glob("[!.]*")}


def test_it_writes_prepares_trains_answers_and_reports(watchword: Any, folder: Path) -> None:
    done = watchword("pretrain-demo", "-o", folder, *SHORT)
    assert done.code == 0, done.err
    assert len(RecordShards(folder / "records")) > 0 and len(RecordShards(folder / "records", split="validation")) > 0
    truth = [json.loads(line) for line in (folder / "unseen" / "truth.jsonl").read_text().splitlines()]
    assert all(scene["split"] == "unseen" for film in truth for scene in film["scenes"])
    results = json.loads((folder / "results.json").read_text())
    assert results["num_steps"] == 2 and 0 <= results["held_out_frame_top1"] <= 100
    assert results["frames"]["num_questions"] == results["sound"]["num_questions"] > 30
    rows = [line for line in done.out.splitlines() if re.match(r"0000[01]\.mp4 ", line)]
    assert len(rows) == 20 and truth[0]["scenes"][0]["label"] in rows[0]
    for row in rows:
        _, _, true, *answers = re.split(r"\s{2,}", row.strip())
        assert len(answers) == 4 and all(1 <= int(place) <= 720 for place in answers[1::2])
        assert all((best == true) == (place == "1") for best, place in zip(answers[::2], answers[1::2], strict=True))
    assert done.out.count("by chance") >= 4 and "of 720 (by chance 360.5)" in done.out
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png") == 4 and 'src="http' not in page and "hours" in page
    assert sum(scene["label"] in page for film in truth for scene in film["scenes"]) == 40


def test_run_again_it_makes_only_what_is_missing_and_ends_the_same(watchword: Any, folder: Path) -> None:
    before, hashed, results = times(folder), weights(folder), (folder / "results.json").read_text()
    (folder / "unseen" / "00001.mp4").unlink()
    for lost in ("run/results.json", "run/model/model.safetensors", "results.json", "report.html"):
        (folder / lost).unlink()
    done = watchword("pretrain-demo", "-o", folder, *SHORT)
    assert done.code == 0 and (folder / "report.html").exists()
    changed = [path for path, time in times(folder).items() if before[path] != time and "truth" not in path and ".vtt" not in path]
    assert changed == [str(folder / "unseen" / "00001.mp4")]
    assert weights(folder) == hashed and (folder / "results.json").read_text() == results


@pytest.mark.parametrize(
    ("more", "named"),
    [(("--steps", 4), "another number of films, length or seed"), (("--seed", 1), "another number of films"), (("--films", 1), "--films")],
)
def test_another_run_in_the_folder_is_refused_in_one_line(watchword: Any, folder: Path, more: tuple[Any, ...], named: str) -> None:
    done = watchword("pretrain-demo", "-o", folder, *SHORT, *more)
    assert done.code == 2 and named in done.err and len(done.err.splitlines()) == 1 and not done.out


def test_the_recipe_is_the_playgrounds_and_runs_by_itself(watchword: Any, folder: Path, tmp_path: Path) -> None:
    published = yaml.safe_load((RECIPES / "playground_reserve.yaml").read_text())
    own = yaml.safe_load((files("watchword.tasks") / "pretrain_demo.yaml").read_text())
    for key in ("model", "beginning", "masking", "pictures", "pretraining"):
        assert own[key] == published[key]
    rates = published["training"]["optimizer"]
    assert own["training"]["optimizer"] == {key: value for key, value in rates.items() if key != "warmup_steps"}
    recipe = folder / "recipe.yaml"
    change = ("--set", "training.num_steps=1", "--set", "training.batch_size=2", "--set", "training.optimizer.warmup_steps=0")
    assert watchword("train", recipe, "--out", tmp_path / "run", "--quiet", *change).code == 0


def test_the_number_of_steps_follows_the_time(folder: Path) -> None:
    values = yaml.safe_load((folder / "recipe.yaml").read_text())
    values["model"] = {
        "width": 64,
        "head_size": 32,
        "vision_layers": 1,
        "audio_layers": 1,
        "span_layers": 1,
        "joint_layers": 1,
        "grid": [2, 4],
    }
    values["training"]["batch_size"] = 2
    values["training"]["optimizer"]["warmup_steps"] = 0
    values["data"]["num_held_out"] = 1
    said: list[str] = []
    few, many = (_steps_in(seconds, values, "cpu", said.append) for seconds in (0.001, 36000))
    assert few == FEWEST_STEPS and many > 1000 and "fit into 600 minutes" in said[1]


def test_the_python_of_the_docs_draws_its_pictures(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "small").symlink_to(folder / "run")
    (tmp_path / "records").symlink_to(folder / "records")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    exec(compile(block, str(DOCS), "exec"), {})
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("masks.png", "nearest.png"))
