"""Zero-shot tasks, from their owners' files to the numbers: what holds for all of them, on stand-ins of the same form."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared_folders import SHARED
from tiny_clips import tiny_model
from watchword.cli import main
from watchword.errors import ConfigError, InputError
from watchword.tasks.registry import TASKS, find_task
from watchword.tasks.task import EvaluationOptions, TaskResult
from watchword.tasks.zero_shot import BlankItem, InSegments, Options, place_of

NAMES = ("star", "epic_kitchens", "lsmdc", "msrvtt_qa")


def evaluate(name: str, folder: Path, weights: str, **settings: Any) -> TaskResult:
    return find_task(name).evaluate(folder, weights, EvaluationOptions(device="cpu", settings=settings))


@pytest.mark.parametrize("name", NAMES)
def test_every_task_runs_from_its_files_to_its_numbers(name: str, stand_ins: dict[str, Path], weights: str) -> None:
    report = find_task(name).check(stand_ins[name], {})
    assert report.num_items and not report.missing and not report.problems
    result = evaluate(name, stand_ins[name], weights)
    assert len(result.rows) == report.num_items and not result.failed
    assert result.metrics and all(0 <= value <= 100 for value in result.metrics.values())
    assert set(result.baselines["random"]) == set(result.metrics)
    rows = list(csv.DictReader(result.as_csv().splitlines()))
    assert [row["id"] for row in rows] == [row["id"] for row in result.rows]


@pytest.mark.parametrize("name", NAMES)
def test_sound_is_heard_and_frames_are_seen(name: str, stand_ins: dict[str, Path], weights: str) -> None:
    scores = {}
    for use in ("sound", "frames"):
        task = type(find_task(name))
        with_scores = type(name, (task,), {"row": lambda self, item, scores: {"scores": scores.tolist(), "place": 0, **_nothing}})  # type: ignore[misc]
        scores[use] = [
            row["scores"]
            for row in with_scores.evaluate(stand_ins[name], weights, EvaluationOptions(device="cpu", use=use)).rows  # type: ignore[attr-defined]
        ]
    assert np.abs(np.array(scores["sound"]) - np.array(scores["frames"])).max() > 1e-6


_nothing = {"verb_right": False, "noun_right": False, "action_right": False}


@pytest.mark.parametrize("name", NAMES)
def test_missing_videos_count_as_wrong_and_are_named(name: str, stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    whole = evaluate(name, stand_ins[name], weights)
    shutil.copytree(stand_ins[name], tmp_path / name)
    lost = sorted(path for path in (tmp_path / name).rglob("*") if path.suffix.lower() == ".mp4")[-1]
    lost.unlink()
    report = find_task(name).check(tmp_path / name, {})
    assert any(lost.stem in problem for problem in report.problems) and report.num_items == len(whole.rows)
    result = evaluate(name, tmp_path / name, weights)
    assert len(result.rows) == len(whole.rows) and result.failed
    assert all(lost.stem in row["error"] for row in result.failed)
    kept = {row["id"]: row for row in result.rows if not row["error"]}
    assert all(kept[row["id"]] == row for row in whole.rows if row["id"] in kept)


@pytest.mark.parametrize("name", NAMES)
def test_an_image_text_model_is_the_baseline(name: str, stand_ins: dict[str, Path], tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "clip")
    result = find_task(name).evaluate(stand_ins[name], str(tmp_path / "clip"), EvaluationOptions(device="cpu", limit=3))
    assert len(result.rows) == 3 and not result.failed
    assert len({str(row) for row in result.rows}) == 3


@pytest.mark.parametrize("name", NAMES)
def test_command_line(name: str, stand_ins: dict[str, Path], weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = [
        "evaluate",
        name,
        "--data",
        str(stand_ins[name]),
        "--model",
        weights,
        "--out",
        str(out),
        "--device",
        "cpu",
        "--limit",
        "4",
    ]
    assert main(arguments) == 0
    assert "random" in capsys.readouterr().out
    found = json.loads((out / "results.json").read_text())
    assert found["num_items"] == 4 and found["weights_sha256"] and found["command"].startswith("watchword evaluate")
    assert len(list(csv.DictReader((out / "items.csv").read_text().splitlines()))) == 4
    assert main(["data", "check", name, str(stand_ins[name])]) == 0
    assert "no problems" in capsys.readouterr().out


def test_command_line_says_what_is_missing_and_where_it_is(tmp_path: Path, weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in TASKS.keys() - {"playground_films"}:  # which renders what it needs
        assert main(["data", "check", name, str(tmp_path)]) == 1, name
        assert "https://" in capsys.readouterr().out, name
        assert main(["evaluate", name, "--data", str(tmp_path), "--model", weights]) == 2, name
        assert "https://" in capsys.readouterr().err, name
    assert main(["evaluate", "nothing", "--data", str(tmp_path), "--model", weights]) == 2
    assert main(["data", "check", "nothing", str(tmp_path)]) == 2
    assert "star" in capsys.readouterr().err


def test_settings_are_checked(stand_ins: dict[str, Path], weights: str) -> None:
    for name, settings, names in (
        ("star", {"split": "dev"}, "train, val or test"),
        ("epic_kitchens", {"layout": "7x3"}, "8x2, 6x5"),
        ("lsmdc", {"segments": 9}, "1 to 8"),
        ("msrvtt_qa", {"num_options": "all"}, "num_options"),
        ("star", {"colour": 1}, "unknown key 'colour'"),
    ):
        with pytest.raises(ConfigError, match=names):
            evaluate(name, stand_ins[name], weights, **settings)


# what all share


def test_a_place_counts_equal_scores_against_the_answer() -> None:
    assert place_of(1, np.array([0.1, 0.7, 0.2], np.float32)) == 1
    assert place_of(0, np.array([0.5, 0.5, 0.5], np.float32)) == 3
    assert place_of(None, np.array([1.0], np.float32)) == 0


def test_options_that_read_alike_are_equally_good() -> None:
    options = Options(("a  cat", "a dog", "a cat"))
    assert options.cleaned == ("a cat", "a dog") and options.places.tolist() == [0, 1, 0]


def test_segments_of_a_stretch() -> None:
    assert [(span.start, span.end) for span in InSegments(2, 1.0, 5.0)(0, 100)] == [(1, 3), (3, 5)]
    assert [(span.start, span.end) for span in InSegments(2)(10, 14)] == [(10, 12), (12, 14)]
    assert InSegments(8, 1, 2) == InSegments(8, 1, 2)


@pytest.mark.parametrize(("name", "settings"), [("epic_kitchens", {}), ("msrvtt_qa", {"split": "val"})])
def test_real_annotation_files(name: str, settings: dict[str, Any], weights: str) -> None:
    folder = SHARED / "annotations"
    if not folder.is_dir():
        pytest.skip("needs the shared folder of real annotation files")
    report = find_task(name).check(folder, settings)
    assert report.num_items > 300 and report.problems  # the videos are not there
    items = find_task(name).of(settings).items(folder, [])  # type: ignore[attr-defined]
    assert all(isinstance(item, BlankItem) and item.statement.count("<mask>") == 1 for item in items)
    assert sum(item.answer is None for item in items) < 0.02 * len(items) or name == "msrvtt_qa"
    with pytest.raises(InputError, match="none of the 5 items can be answered; the first: no video called"):
        find_task(name).evaluate(folder, weights, EvaluationOptions(device="cpu", limit=5, settings=settings))


# what a user met


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"start": 9.0, "end": 2.0}, "ends after that"),
        ({"start": float("nan")}, "starts at 0 s or later"),
        ({"choices": [{"choice_id": 0, "choice": "A."}, {"choice_id": 0, "choice": "B."}]}, "a number and words of its own"),
        ({"choices": [{"choice_id": 0, "choice": "."}, {"choice_id": 1, "choice": "B."}]}, "a number and words of its own"),
        ({"answer": None}, "has no answer, but others have"),
    ],
)
def test_star_rows_that_cannot_be(change: dict[str, Any], names: str, stand_ins: dict[str, Path], tmp_path: Path) -> None:
    rows = json.loads((stand_ins["star"] / "STAR_val.json").read_text())
    rows[1] |= change
    (tmp_path / "STAR_val.json").write_text(json.dumps(rows))
    with pytest.raises(ConfigError, match=f"question 2: .*{names}"):
        find_task("star").check(tmp_path, {})


def test_star_kinds_that_are_new_and_times_behind_the_end(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    shutil.copytree(stand_ins["star"], tmp_path / "star")
    path = tmp_path / "star" / "STAR_val.json"
    rows = json.loads(path.read_text())
    rows[0]["question_id"] = "Surprise_T1_0"
    rows[1] |= {"start": 100.0, "end": 102.0}
    path.write_text(json.dumps(rows))
    result = evaluate("star", tmp_path / "star", weights)
    assert "surprise" in result.metrics
    assert "the video ends at" in result.rows[1]["error"] and result.rows[1]["place"] == 0


def test_what_stands_twice_is_refused(stand_ins: dict[str, Path], tmp_path: Path) -> None:
    for name, file in (("star", "STAR_val.json"), ("epic_kitchens", "EPIC_100_validation.csv"), ("epic_kitchens", "actions.csv")):
        folder = tmp_path / file
        shutil.copytree(stand_ins[name], folder)
        if file.endswith(".json"):
            (folder / file).write_text(json.dumps(2 * json.loads((folder / file).read_text())))
        else:
            head, *rows = (folder / file).read_text().splitlines(keepends=True)
            (folder / file).write_text(head + "".join(2 * rows))
        with pytest.raises(ConfigError, match=r"the id of two items|each pair of verb and noun once"):
            find_task(name).check(folder, {})
    (tmp_path / "two" / "a").mkdir(parents=True)
    (tmp_path / "two" / "b").mkdir()
    for part in "ab":
        shutil.copy(stand_ins["star"] / "STAR_val.json", tmp_path / "two" / part)
    with pytest.raises(ConfigError, match="keep one of them"):
        find_task("star").check(tmp_path / "two", {})


def test_classes_of_the_tail_must_be_numbers(stand_ins: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(stand_ins["epic_kitchens"], tmp_path / "epic")
    (tmp_path / "epic" / "EPIC_100_tail_verbs.csv").write_text("verb\ntake\n")
    with pytest.raises(ConfigError, match=r"EPIC_100_tail_verbs\.csv: classes must be whole numbers"):
        find_task("epic_kitchens").check(tmp_path / "epic", {})


def test_an_empty_video_is_named(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    shutil.copytree(stand_ins["lsmdc"], tmp_path / "lsmdc")
    empty = next((tmp_path / "lsmdc").rglob("*.mp4"))
    empty.write_bytes(b"")
    assert any("is empty" in problem for problem in find_task("lsmdc").check(tmp_path / "lsmdc", {}).problems)
    assert len(evaluate("lsmdc", tmp_path / "lsmdc", weights).failed) == 1


def test_what_a_model_cannot_use_is_refused(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path / "clip")
    for model, use, names in (
        (weights, "subtitles", "from sound or frames"),
        (str(tmp_path / "clip"), "sound", "hears nothing"),
    ):
        with pytest.raises(InputError, match=names):
            find_task("star").evaluate(stand_ins["star"], model, EvaluationOptions(device="cpu", use=use))  # type: ignore[arg-type]


def test_numbers_that_are_none_are_null_in_json(stand_ins: dict[str, Path], weights: str) -> None:
    result = find_task("epic_kitchens").evaluate(stand_ins["epic_kitchens"], weights, EvaluationOptions(device="cpu", limit=1))
    assert "NaN" not in json.dumps(result.as_dict())


def test_only_a_list_takes_the_options_of_lists(
    stand_ins: dict[str, Path], weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["evaluate", "star", "--data", str(stand_ins["star"]), "--model", weights]
    assert main([*command, "--split", "1"]) == 2
    assert "--set split=test" in capsys.readouterr().err
    assert main(["evaluate", "stra", *command[2:]]) == 2
    assert "no task is called 'stra'" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main([*command, "--out", str(tmp_path / "file")]) == 2
    assert "is no folder" in capsys.readouterr().err
