"""``watchword data check`` as its users meet it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tiny_clips import write_video
from watchword.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    for number, name in enumerate(("brush_hair", "cartwheel")):
        (folder / name).mkdir()
        write_video(folder / name / f"{number}.mp4", num_frames=10 + number)
    return folder


def check(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["data", "check", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_clean_set_exits_with_0(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = check(capsys, folder, "--num-frames", 8)
    assert (code, err) == (0, "")
    assert out.splitlines() == ["2 videos of 2 classes, 2 readable; frames: 10 at least, 10 in the median", "no problems"]


def test_problems_are_listed_and_exit_with_1(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "set")
    (tmp_path / "set" / "cartwheel" / "a\nb.mp4").touch()
    for number in range(12):
        (tmp_path / "set" / "cartwheel" / f"gone {number}.mp4").symlink_to("nowhere")
    code, out, _ = check(capsys, tmp_path / "set", "--classes", "hmdb51-raw", "--num-frames", 11)
    assert code == 1
    counts = dict(line.split()[:2] for line in out.splitlines()[1:6])
    assert counts == {"missing": "12", "unreadable": "1", "too_short": "1", "class_without_videos": "49", "unbalanced": "1"}
    assert "and 2 more" in out and "a\\nb.mp4" in out
    code, out, err = check(capsys, tmp_path / "set", "--classes", "hmdb51-raw", "--num-frames", 11, "--format", "json")
    document = json.loads(out)
    assert (code, err) == (1, "") and document["num_by_kind"] == {kind: int(count) for kind, count in counts.items()}
    assert len(document["problems"]) == 64 and document["videos_per_class"]["cartwheel"] == 14
    short = next(problem for problem in document["problems"] if problem["kind"] == "too_short")
    assert Path(short["path"]).name == "0.mp4" and "10 frames" in short["message"]


def test_a_held_out_list_and_decoding(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "cartwheel" / "1.mp4", tmp_path / "copy.mp4")
    (tmp_path / "held_out.csv").write_text("path,label\ncopy.mp4,cartwheel\n")
    code, out, err = check(capsys, folder, "--held-out", tmp_path / "held_out.csv", "--decode", "--workers", 1)
    assert (code, err) == (1, "") and out.splitlines()[1].split()[:2] == ["held_out_content", "1"]
    assert check(capsys, folder, "--held-out", tmp_path / "nowhere.csv")[0] == 2


@pytest.mark.parametrize(
    "arguments", [["nowhere.csv"], ["FOLDER", "--split", "1"], ["FOLDER", "--num-frames", "0"], ["FOLDER", "--classes", "Kinetics-400"], []]
)
def test_wrong_usage_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], folder: Path, arguments: list[str]) -> None:
    code, out, err = check(capsys, *[str(folder) if argument == "FOLDER" else argument for argument in arguments])
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and err.startswith("watchword: ")


def test_a_split_is_chosen(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "brush_hair_test_split2.txt").write_text("0.mp4 1 \nother.mp4 2 \n")
    (tmp_path / "cartwheel_test_split2.txt").write_text("1.mp4 1 \n")
    assert check(capsys, tmp_path, "--root", folder, "--split", 2)[0] == 0
    code, out, _ = check(capsys, tmp_path, "--root", folder, "--split", 2, "--part", "test")
    assert code == 1 and "other.mp4" in out
