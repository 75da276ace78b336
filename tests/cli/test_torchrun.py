"""The commands under torchrun: the counts of one process, each file and line written once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_clips import tiny_model, write_video
from watchword.cli import main
from watchword.datasets.annotations import write_annotations

NAMES = ("making coffee", "playing chess", "riding a bike", "brushing hair", "doing nothing")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "watchword"]
Two = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, five videos of two classes in class folders, and a list of them and of one that is missing."""
    folder = tmp_path_factory.mktemp("torchrun")
    tiny_model(weights="tests").save_pretrained(folder / "model")
    listed = []
    for number in range(5):
        name = NAMES[number % 2]
        (folder / "clips" / name).mkdir(parents=True, exist_ok=True)
        listed.append((write_video(folder / "clips" / name / f"{number}.mp4", num_frames=5 + 3 * number), name))
    write_annotations(folder / "list.csv", [*listed, (folder / "gone.mp4", NAMES[0])])
    (folder / "names.txt").write_text("\n".join(NAMES))
    return folder


def by_one_and_by_two(capsys: pytest.CaptureFixture[str], folder: Path, *given: object, code: int) -> Two:
    """Run a command by one process into ``folder/one``, whose output is then in capsys, and by two into ``folder/two``."""
    arguments = [*map(str, given), "--device", "cpu", "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    two = subprocess.run([*TORCHRUN, *arguments, str(folder / "two")], capture_output=True, text=True, env=environment, timeout=300)
    assert two.returncode == code, two.stderr
    capsys.readouterr()
    assert main([*arguments, str(folder / "one")]) == code
    return two


def test_evaluation_by_two_processes_is_that_of_one(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["evaluate", folder / "model", folder / "list.csv", "--classes", folder / "names.txt", "--subset", "--views", "1x3", "--json"]
    two = by_one_and_by_two(capsys, tmp_path, *given, code=1)
    documents = [json.loads(text) for text in (capsys.readouterr().out, two.stdout)]
    assert [document.pop("command") for document in documents] and documents[0] == documents[1]
    assert (documents[1]["num_samples"], documents[1]["num_failed"]) == (5, 1)
    assert two.stderr.count("6 videos among 5 classes") == 1 and two.stderr.count("failed: ") == 1
    tables = [(tmp_path / name / "videos.csv").read_text().splitlines() for name in ("one", "two")]
    assert [row.split(",")[:5] for row in tables[0]] == [row.split(",")[:5] for row in tables[1]]


def test_own_labels_by_two_processes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "--labels-from", folder / "clips", "--model", folder / "model", "--quiet"]
    two = by_one_and_by_two(capsys, tmp_path, *given, code=0)
    assert json.loads(two.stdout) == json.loads(capsys.readouterr().out)
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert files[0] == files[1] >= {"report.html", "held_out_results.json", "held_out_videos.csv", "model", "recipe.yaml"}
    assert two.stderr.count("held out; start") == two.stderr.count("the report is") == 1
    results = [json.loads((tmp_path / name / "held_out_results.json").read_text()) for name in ("one", "two")]
    assert results[0]["per_class"] == results[1]["per_class"] and results[1]["num_samples"] == 2
