"""Sweeps: rows and seeds, resumed, with a table that tells what failed by what it lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from watchword.errors import ConfigError
from watchword.training import load_recipe
from watchword.training.sweep import load_sweep, run_sweep, table
from watchword.xclip import XClip
from watchword.xclip.cost import count_cost

TINY = {
    "image_size": 32, "patch_size": 16, "vision_width": 64, "vision_layers": 1, "embed_dim": 64, "text_width": 64, "text_layers": 1,
    "context_length": 32,
}  # fmt: skip
TRAINING = {"num_steps": 1, "batch_size": 2, "optimizer": {"learning_rate": 0.001}}
STILLS = {
    "program": "image_text", "name": "stills", "model": {**TINY, "num_frames": 1, "message": "off", "mit_layers": 0, "prompt_layers": 0},
    "data": {"kind": "playground_stills", "num_stills": 4}, "training": TRAINING,
}  # fmt: skip
CLIPS = {
    "program": "supervised", "name": "clips", "model": {**TINY, "num_frames": 2}, "trained": "all",
    "data": {"kind": "playground_clips", "num_clips": 4, "num_held_out": 3}, "training": TRAINING,
}  # fmt: skip
PLAN = {
    "title": "Two rows.",
    "recipe": "clips.yaml",
    "seeds": [0, 1],
    "metrics": {"held_out_top1": "top-1"},
    "prepare": [{"name": "image-text", "recipe": "stills.yaml"}],
    "change": {"start": "{folder}/image-text-seed{seed}/model"},
    "rows": [{"name": "mean of frames", "change": {"model.message": "off", "model.mit_layers": 0}, "paper": "80.0"}],
}
VIEWS = {"name": "2 views", "evaluate": {"of": "mean of frames", "views": "2x1"}}


def write(folder: Path, plan: dict[str, Any]) -> Path:
    for name, values in (("stills", STILLS), ("clips", CLIPS), ("plan", plan)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values))
    return folder / "plan.yaml"


def test_a_sweep_runs_rows_by_seeds_and_does_nothing_twice(tmp_path: Path) -> None:
    plan = write(tmp_path, {**PLAN, "rows": [*PLAN["rows"], VIEWS]})
    command = [sys.executable, "-m", "watchword", "sweep", str(plan), "--out", str(tmp_path / "out"), "--jobs", "2", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Two rows." and lines[2] == "|  | top-1 | GFLOPs | million parameters | seeds | the paper's |"
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[4:]]
    assert [row[0] for row in rows] == ["mean of frames", "2 views"]
    assert all("±" in row[1] and row[4] == "2" for row in rows)
    cost = count_cost(XClip.from_pretrained(tmp_path / "out" / "mean-of-frames-seed0" / "model").config)
    assert [row[2:4] for row in rows] == [[f"{cost.total:.2f}{views}", f"{cost.parameters:.2f}"] for views in ("", " x 2")]
    evaluated = tmp_path / "out" / "2-views-seed1"
    assert sorted(path.name for path in evaluated.iterdir()) == ["results.json", "row.json"]
    assert json.loads((evaluated / "results.json").read_text()).keys() == {"held_out_top1", "num_held_out", "seen_top1", "num_seen"}
    assert (tmp_path / "out" / "table.md").read_text() == done.stdout
    settings = json.loads((tmp_path / "out" / "mean-of-frames-seed1" / "settings.json").read_text())
    assert settings["seed"] == 1
    page = tmp_path / "results.md"
    again = subprocess.run([*command, "--table", str(page)], capture_output=True, text=True, timeout=60)
    assert again.stdout == done.stdout and "done" not in again.stderr
    assert done.stdout.strip() in page.read_text() and f"`watchword sweep {plan} --out" in page.read_text()
    write(tmp_path, {**PLAN, "rows": [{**PLAN["rows"][0], "change": {"model.message": "off"}}, VIEWS]})
    changed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert changed.stderr.count("its plan or recipe has changed") == 4  # two rows, two seeds: they stay, but out of the table
    assert all(line.split("|")[2].strip() == "" for line in changed.stdout.splitlines()[4:])


@pytest.mark.parametrize("plan", sorted((Path(__file__).parents[2] / "recipes" / "ablations").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_plans_that_come_with_it_say_what_recipes_know(plan: Path) -> None:
    sweep = load_sweep(plan)
    for row in (*sweep.prepare, *sweep.rows):
        assert row.recipe is not None
        load_recipe(row.recipe, row.change if row in sweep.prepare else {**sweep.change, **row.change})


def test_a_bar_in_a_name_does_not_end_its_cell(tmp_path: Path) -> None:
    plan = write(tmp_path, {**PLAN, "rows": [{"name": "left | right"}]})
    assert table(load_sweep(plan), tmp_path).splitlines()[-1].startswith("| left \\| right |")


def test_what_cannot_be_written_and_a_result_that_no_run_has_are_said(tmp_path: Path) -> None:
    plan = write(tmp_path, {**PLAN, "seeds": [0], "metrics": {"held_out_top1": "top-1", "top9": "none"}})
    for name in ("image-text", "mean-of-frames"):
        (tmp_path / "out" / f"{name}-seed0").mkdir(parents=True)
        (tmp_path / "out" / f"{name}-seed0" / "results.json").write_text('{"held_out_top1": 50.0}')
    command = [sys.executable, "-m", "watchword", "sweep", str(plan), "--out"]
    for more in ([str(plan)], [str(tmp_path / "out"), "--table", str(tmp_path / "nowhere" / "page.md")]):
        refused = subprocess.run([*command, *more], capture_output=True, text=True, timeout=300)
        assert refused.returncode == 2 and "cannot write" in refused.stderr and refused.stdout == ""
    done = subprocess.run([*command, str(tmp_path / "out")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "no run has a result 'top9'; they have held_out_top1" in done.stderr


def test_a_row_that_fails_leaves_the_others_whole(tmp_path: Path) -> None:
    wrong = {"name": "wrong", "change": {"model.vision_width": 3}}
    plan = write(tmp_path, {**PLAN, "prepare": [], "change": {}, "seeds": [0], "rows": [wrong, {"name": "right"}]})
    said: list[str] = []
    results = run_sweep(load_sweep(plan), tmp_path / "out", device="cpu", report=said.append)
    assert results["wrong"] == [] and len(results["right"]) == 1
    assert any("failed" in line and "vision_width" in line for line in said)


def test_a_seed_s_rows_do_not_wait_for_other_seeds_and_what_is_there_is_taken_over(tmp_path: Path) -> None:
    plan = write(tmp_path, {**PLAN, "change": {"model.vision_width": 3}, "prepare": [{"name": "first", "recipe": "missing.yaml"}]})
    results = tmp_path / "out" / "first-seed0" / "results.json"
    results.parent.mkdir(parents=True)
    results.write_text("{}")
    said: list[str] = []
    run_sweep(load_sweep(plan), tmp_path / "out", device="cpu", report=said.append)
    assert [line.partition(":")[0] for line in said] == ["mean of frames, seed 0", "first, seed 1", "mean of frames, seed 1"]


def test_what_is_prepared_with_a_seed_of_its_own_is_run_once(tmp_path: Path) -> None:
    first = {"name": "first", "recipe": "missing.yaml", "seed": 7}
    plan = write(tmp_path, {**PLAN, "change": {"model.vision_width": 3}, "prepare": [first], "seeds": [7, 8]})
    said: list[str] = []
    run_sweep(load_sweep(plan), tmp_path / "out", device="cpu", report=said.append)
    assert [line.partition(":")[0] for line in said] == ["first, seed 7", "mean of frames, seed 7", "mean of frames, seed 8"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rows": [{"name": "a", "seed": 1}]}, "'a' has a seed of its own"),
        ({"rows": [{"name": "a"}, {"name": "b", "evaluate": {"of": "c", "views": "2x1"}}]}, "no row that is trained"),
        ({"rows": [{"name": "a"}, {"name": "b", "evaluate": {"of": "a", "views": "many"}}]}, "'b': views are 'many'"),
        ({"rows": [{"name": "a"}, {"name": "b", "evaluate": {"of": "a", "views": "2x1"}, "change": {"x": 1}}]}, "change nothing"),
        (
            {"recipe": "stills.yaml", "change": {}, "rows": [{"name": "a"}, {**VIEWS, "evaluate": {"of": "a", "views": "2x1"}}]},
            "only supervised",
        ),
        ({"rows": [{"name": "a"}, {"name": "b", "evaluate": {"of": "a", "views": "2x3"}}]}, "'b': views 2x3"),
        ({"rows": []}, "rows"),
        ({"seedz": 1}, "seedz"),
        ({"rows": [{"name": "A b"}, {"name": "a-b"}]}, "two rows"),
        ({"metrics": 3}, "metrics"),
    ],
)
def test_a_wrong_plan_is_one_line(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        load_sweep(write(tmp_path, {**PLAN, **change}))
    assert "\n" not in str(raised.value)


def test_rows_of_a_reserve_have_parameters_and_no_cost(tmp_path: Path) -> None:
    sizes = {"width": 32, "head_size": 32, "vision_layers": 1, "span_layers": 1, "audio_layers": 1, "joint_layers": 1, "grid": [2, 4]}
    data = {"kind": "playground_questions", "num_stills": 8, "num_held_out": 8, "frame_size": 32}
    recipe = {"program": "choices", "name": "questions", "model": sizes, "data": data, "training": TRAINING}
    (tmp_path / "questions.yaml").write_text(yaml.safe_dump(recipe))
    plan = {"title": "A row.", "recipe": "questions.yaml", "seeds": [0], "metrics": {"held_out_top1": "right"}, "rows": [{"name": "small"}]}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    sweep = load_sweep(tmp_path / "plan.yaml")
    told: list[str] = []
    run_sweep(sweep, tmp_path / "out", device="cpu", report=told.append)
    *_, row = table(sweep, tmp_path / "out").splitlines()
    name, right, cost, parameters, seeds = (cell.strip() for cell in row.strip("|").split("|"))
    assert (name, cost, seeds) == ("small", "", "1") and right and float(parameters) > 1, told
