"""The command line as its users meet it: what goes where, exit codes, odd files, and that nothing heavy loads early."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pysubs2
import pytest
import torch

from tiny_clips import tiny_model, write_video
from watchword.xclip import XClip

LABELS = "making coffee, going backpacking, playing chess"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(weights="tests.tiny").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("clip") / "clip.mp4", num_frames=30)


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, watchword.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    third_party = loaded - set(sys.stdlib_module_names) - {"__main__", "watchword"}
    third_party = {name for name in third_party if not name.startswith(("_", "sitecustomize"))}
    assert third_party <= {"typer", "annotated_doc", "typing_extensions", "shellingham", "colorama", "click"}


def test_help_names_the_commands(watchword: Any) -> None:
    outcome = watchword("--help")
    assert outcome.code == 0
    assert {"tag", "probe", "models", "convert", "demo", "train"} <= set(outcome.out.split())
    assert "--labels" in watchword("tag", "--help").out
    assert watchword("--version").out.startswith("watchword ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag"],
        ["tag", "CLIP"],
        ["no-such-command"],
        ["tag", "CLIP", "--no-such-option"],
        ["tag", "CLIP", "--labels", "a, ,b"],
        ["tag", "CLIP", "--labels", "missing.txt"],
        ["tag", "CLIP", "--labels", "no/such/list"],
        ["tag", "CLIP", "--labels", "IN_CLIP.json"],
        ["tag", "CLIP", "--labels", "MODEL"],
        ["tag", "https://example.org/clip.mp4", "--labels", LABELS],
        ["tag", "CLIP", "--labels", LABELS, "--model", "no such model"],
        ["tag", "CLIP", "--labels", LABELS, "--device", "nonsense"],
        ["tag", "CLIP", "--labels", LABELS, "--window", "0"],
        ["tag", "CLIP", "--labels", LABELS, "--stride", "3"],
        ["tag", "CLIP", "--labels", LABELS, "--threshold", "7"],
        ["tag", "CLIP", "--labels", LABELS, "--picture", "no/such/folder/strip.png"],
        ["tag", "CLIP", "--labels", LABELS, "--picture", "strip.docx"],
        ["tag", "CLIP", "CLIP2", "--labels", LABELS, "--format", "srt"],
        ["tag", "CLIP", "--labels", " ".join(["word"] * 300)],
        ["tag", "CLIP", "--labels", "Kinetics-400"],
        ["tag", "CLIP", "--model", "xclip_base_patch32.k400_8f"],
        ["evaluate", "MODEL", "nowhere.csv"],
        ["evaluate", "MODEL", "CLIP"],
        ["evaluate", "MODEL", "LIST", "--views", "4x2"],
        ["train", "--out", "run"],
        ["train", "recipe.yaml", "--labels-from", "folder", "--out", "run"],
        ["train", "recipe.yaml", "--model", "playground", "--out", "run"],
        ["train", "--labels-from", "no such folder", "--model", "MODEL", "--out", "run"],
        ["tag", "CLIP", "--labels", LABELS, "--report", "n" * 300],
        ["tag", "CLIP", "--labels", LABELS, "--model", "./nowhere"],
        ["demo", "--output", "IN_CLIP"],
        ["convert", "MODEL", "MODEL"],
        ["convert", "MODEL", "IN_CLIP"],
        ["convert", "MODEL", "n" * 300],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(watchword: Any, model: str, clip: Path, arguments: list[str]) -> None:
    annotations = clip.with_name("list.csv")
    annotations.write_text(f"path,label\n{clip.name},archery\n")
    places = {"LIST": str(annotations), "CLIP": str(clip), "CLIP2": f"{clip}2", "IN_CLIP": f"{clip}/x", "MODEL": model}
    places["IN_CLIP.json"] = f"{clip}/x.json"
    arguments = [places.get(argument, argument) for argument in arguments]
    if arguments[0] == "tag" and "--model" not in arguments:
        arguments += ["--model", model]
    outcome = watchword(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1 and outcome.err.startswith("watchword: ")


def test_mistyped_names_are_answered_with_what_is_near(
    watchword: Any, model: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "xclip_base_patch32.k400_8f" in watchword("tag", clip, "--labels", LABELS, "--model", "xclip_base_patch23.k400_8f").err
    assert "kinetics400" in watchword("tag", clip, "--labels", "kinetics_400", "--model", model).err
    monkeypatch.chdir(tmp_path)
    shutil.copy(clip, "-dash.mp4")
    assert "'./-dash.mp4'" in watchword("tag", "-dash.mp4", "--labels", LABELS, "--model", model).err


def test_without_network_the_default_model_is_one_line_that_says_what_to_do(watchword: Any, clip: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path), "HF_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "watchword", "tag", str(clip), "--labels", LABELS, "--offline"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "huggingface.co/microsoft/xclip-base-patch32" in done.stderr and "playground" in done.stderr


def test_table_goes_to_stdout_and_notes_to_stderr(watchword: Any, model: str, clip: Path) -> None:
    outcome = watchword("tag", clip, "--labels", LABELS + ", Playing chess", "--model", model)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["file", "label", "score", "match"]
    assert len(lines) == 5
    assert "merged" in outcome.err and "merged" not in outcome.out
    assert "\x1b" not in outcome.out


def test_random_weights_are_said(watchword: Any, clip: Path, tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    outcome = watchword("tag", clip, "--labels", LABELS, "--model", tmp_path)
    assert "never trained" in outcome.err


def test_without_labels_the_classes_of_the_weights_are_the_labels(watchword: Any, clip: Path, tmp_path: Path) -> None:
    tiny_model(weights="tests", class_names=("walking", "sitting", "lying")).save_pretrained(tmp_path)
    outcome = watchword("tag", clip, "--model", tmp_path, "--format", "json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    assert {tag["label"] for tag in document["results"][0]["tags"]} == {"walking", "sitting", "lying"}
    assert document["settings"]["labels_from"] == "the classes of the weights"


def test_evaluate_writes_results_videos_and_a_picture(watchword: Any, clip: Path, tmp_path: Path) -> None:
    for name, label in (("1.mp4", "walking"), ("2.mp4", "Sitting_Down"), ("3.mp4", "walking")):
        (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / label / name).write_bytes(clip.read_bytes())
    (tmp_path / "data" / "walking" / "bad.mp4").write_text("not a video")
    tiny_model(weights="tests").save_pretrained(tmp_path / "model")
    outcome = watchword("evaluate", tmp_path / "model", tmp_path / "data", "--views", "2x3", "--out", tmp_path / "out", "--json")
    assert outcome.code == 1
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results == json.loads(outcome.out)
    assert (results["num_samples"], results["num_failed"], results["num_classes"]) == (3, 1, 2)
    assert results["protocol"] == "data" and results["views"] == "2x3" and results["weights"] == "tests"
    assert "bad.mp4" in results["failed"][0]["path"] and "bad.mp4" in outcome.err and results["command"].startswith("watchword ")
    assert all(len(results[f"{what}_sha256"]) == 64 for what in ("weights", "classes", "videos"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "videos.csv").read_text(), newline="")))
    assert sum(row["right"] == "yes" for row in rows) / 3 == pytest.approx(results["top1"] / 100)
    assert (tmp_path / "out" / "confusion.png").read_bytes().startswith(b"\x89PNG")
    table = watchword("evaluate", tmp_path / "model", tmp_path / "data", "--classes", tmp_path / "names.txt")
    assert table.code == 2 and "names.txt" in table.err
    (tmp_path / "names.txt").write_text("walking\nsitting down\nlying\n")
    assert "3 for videos of 2" in watchword("evaluate", tmp_path / "model", tmp_path / "data", "--classes", tmp_path / "names.txt").err
    table = watchword("evaluate", tmp_path / "model", tmp_path / "data", "--classes", tmp_path / "names.txt", "--subset")
    assert table.code == 1 and "3 videos, 1 could not be read; percent right among 3 classes" in table.out


def test_the_playground_s_results_say_by_what_they_were_measured(watchword: Any, model: str, tmp_path: Path) -> None:
    given = ["evaluate", model, "--clips", tmp_path / "clips", "--num-clips", 2, "--out", tmp_path / "out", "--json"]
    outcome = watchword(*given)
    assert outcome.code == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results == json.loads(outcome.out) and results["num_clips"] == 2 and results["views"] == "1x1"
    assert results["protocol"] == "playground/unseen, seed 1000" and results["num_classes"] == results["num_phrases"]
    assert all(len(results[f"{what}_sha256"]) == 64 for what in ("weights", "classes", "videos"))


def test_evaluate_runs_all_splits_or_draws_of_a_protocol(watchword: Any, clip: Path, tmp_path: Path) -> None:
    names = ("brush_hair", "wave", "walk")
    for name in names:
        (tmp_path / "videos" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "videos" / name / f"{number}.mp4").symlink_to(clip)
        for split in (1, 2, 3):
            parts = [f"{number}.mp4 {2 if number in (0, split) else 1} \n" for number in range(4)]
            (tmp_path / f"{name}_test_split{split}.txt").write_text("".join(parts))
    tiny_model(weights="tests").save_pretrained(tmp_path / "model")
    given = ["evaluate", tmp_path / "model", tmp_path, "--root", tmp_path / "videos", "--protocol", "hmdb51"]
    assert "a class list of 51 for videos of 3 classes" in watchword(*given).err
    outcome = watchword(*given, "--subset", "--out", tmp_path / "out")
    assert outcome.code == 0 and "mean ± deviation of 3" in outcome.out
    whole = json.loads((tmp_path / "out" / "results.json").read_text())
    each = [json.loads((tmp_path / "out" / f"split{split}-test" / "results.json").read_text()) for split in (1, 2, 3)]
    assert [numbers["protocol"] for numbers in each] == [f"hmdb51/split{split}/test" for split in (1, 2, 3)]
    assert whole["protocol"] == "hmdb51" and whole["num_results"] == 3 and whole["num_classes"] == 51
    assert whole["top5"] == pytest.approx(sum(numbers["top5"] for numbers in each) / 3) and whole["top5_deviation"] is not None
    assert whole["results"] == [{name: value for name, value in numbers.items() if name not in ("command", "model")} for numbers in each]
    assert len({numbers["annotations_sha256"] for numbers in each}) == 3 and "annotations_sha256" not in whole
    one = watchword(*given, "--subset", "--split", 2, "--json")
    assert json.loads(one.out)["videos_sha256"] == each[1]["videos_sha256"]
    (tmp_path / "k600.csv").write_text(f'path,label\n{clip},"acting in play"\n{clip},archery\n')
    drawn = watchword("evaluate", tmp_path / "model", tmp_path / "k600.csv", "--protocol", "kinetics600_zero_shot", "--draw", 2, "--json")
    assert drawn.code == 2 and "draw2: a class list of 160 for videos of 1 classes" in drawn.err
    drawn = watchword(
        "evaluate", tmp_path / "model", tmp_path / "k600.csv", "--protocol", "kinetics600_zero_shot", "--draw", 1, "--subset", "--json"
    )
    assert (json.loads(drawn.out)["num_classes"], json.loads(drawn.out)["num_samples"]) == (160, 1)
    assert "only a protocol has draws" in watchword("evaluate", tmp_path / "model", tmp_path / "k600.csv", "--draw", 1).err


def test_json_has_a_row_for_each_input(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    outcome = watchword("tag", clip, tmp_path / "missing.mp4", "--labels", LABELS, "--model", model, "--format", "json", "--top", 2)
    assert outcome.code == 1
    document = json.loads(outcome.out)
    assert document["model"]["weights"] == "tests.tiny" and document["settings"]["labels"] == LABELS.split(", ")
    done, failed = document["results"]
    assert [len(done["tags"]), done["path"], done["status"]] == [2, str(clip), "done"]
    assert (failed["status"], failed["stage"], failed["reason"]) == ("failed", "open", "missing_file")


def test_windows_and_threshold_in_every_format(watchword: Any, model: str, clip: Path) -> None:
    def tag(format: str, *more: object) -> str:
        outcome = watchword("tag", clip, "--labels", LABELS, "--model", model, "--window", 1, "--format", format, *more)
        assert outcome.code == 0
        return str(outcome.out)

    (row,) = (json.loads(line) for line in tag("jsonl").splitlines())
    assert [window["start_seconds"] for window in row["windows"]] == [0, 1, 2]
    rows = list(csv.DictReader(io.StringIO(tag("csv"))))
    assert [row["start_seconds"] for row in rows] == ["0.0", "1.0", "2.0"]
    assert float(rows[0]["score_1"]) >= float(rows[0]["score_2"]) >= float(rows[0]["score_3"])
    cues = pysubs2.SSAFile.from_string(tag("srt"), format_="srt")
    assert (cues[0].start, cues[-1].end) == (0, 3000)
    assert "0:01–0:02" in tag("table")

    assert "(none of these)" in tag("table", "--threshold", 1)
    assert json.loads(tag("json", "--threshold", 1))["results"][0]["none_of_these"] is True
    assert next(csv.DictReader(io.StringIO(tag("csv", "--threshold", 1))))["label_1"] == "(none of these)"
    assert tag("srt", "--threshold", 1) == ""


def test_a_folder_with_broken_members(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    data = clip.read_bytes()
    (tmp_path / "good.mp4").write_bytes(data)
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) // 2])
    (tmp_path / "zero.mp4").touch()
    (tmp_path / "text.mp4").write_text("not a video")
    write_video(tmp_path / "audio.m4a", sound_only=True)
    (tmp_path / "dangling").symlink_to("nowhere.mp4")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "x.mp4").mkdir()
    (tmp_path / "notes.txt").write_text("left out")
    outcome = watchword("tag", tmp_path, "--labels", LABELS, "--model", model, "--format", "json")
    assert outcome.code == 1
    rows = {Path(row["path"]).name: row for row in json.loads(outcome.out)["results"]}
    assert set(rows) == {"good.mp4", "cut.mp4", "zero.mp4", "text.mp4", "audio.m4a", "dangling", "pipe", "x.mp4"}
    assert rows["good.mp4"]["status"] == "done"
    reasons = {name: row["reason"] for name, row in rows.items() if row["status"] == "failed"}
    assert reasons["audio.m4a"] == "no_video" and reasons["zero.mp4"] == "empty_file" and reasons["dangling"] == "missing_file"
    assert reasons["pipe"] == reasons["x.mp4"] == "not_a_file" and reasons["text.mp4"] == "not_media"
    assert "1 other files" in outcome.err and "Traceback" not in outcome.err


def test_what_is_no_file_is_told_in_one_line_or_beside_the_others(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    common = ["--labels", LABELS, "--model", model]
    alone = watchword("tag", tmp_path, *common)
    assert alone.code == 2 and len(alone.err.splitlines()) == 1
    assert repr(str(tmp_path)) in alone.err and ".mp4" in alone.err and ".webm" in alone.err
    url = "https://example.org/clip.mp4"
    assert "URLs are not fetched" in watchword("tag", url, *common).err and url in watchword("tag", url, *common).err
    assert "URLs are not fetched" in watchword("probe", url).err
    mixed = watchword("tag", tmp_path, clip, url, *common, "--format", "json")
    assert mixed.code == 1
    assert [row["status"] for row in json.loads(mixed.out)["results"]] == ["failed", "done", "failed"]
    assert "holds no video" in mixed.err and "URLs are not fetched" in mixed.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_picture_that_cannot_be_written_does_not_take_the_page_with_it(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "strip.png").symlink_to("/dev/full")
    outcome = watchword(
        "tag", clip, "--labels", LABELS, "--model", model, "--picture", tmp_path / "strip.png", "--report", tmp_path / "report.html"
    )
    assert outcome.code == 1
    assert "making coffee" in outcome.out and "making coffee" in (tmp_path / "report.html").read_text()
    assert f"failed: cannot write {str(tmp_path / 'strip.png')!r}" in outcome.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("target", ["/dev/full", "closed", "broken pipe"])
def test_an_output_that_takes_nothing_is_no_crash_and_the_page_is_written(model: str, clip: Path, tmp_path: Path, target: str) -> None:
    command = [sys.executable, "-m", "watchword", "tag", str(clip), "--labels", LABELS, "--model", model, "--report", "page.html"]
    if target == "broken pipe":
        reader, output = os.pipe()
        os.close(reader)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    shell = ["sh", "-c", '"$@" >&-', "sh", *command] if target == "closed" else command
    done = subprocess.run(shell, stdout=output, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(output)
    assert done.returncode == (0 if target == "closed" else 1)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    assert ("No space left" in done.stderr) == (target == "/dev/full")
    assert (tmp_path / "page.html").exists()


def test_an_output_without_unicode_gets_plain_characters(model: str, clip: Path) -> None:
    def run(*more: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "watchword", "tag", str(clip), "--labels", "a – b…, café 😀", "--model", model, *more]
        done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0
        return done

    table = run("--window", "1").stdout.decode("ascii").splitlines()
    assert "0:00-0:01" in table[2] and "a - b..." in "\n".join(table)
    assert len({len(line) for line in table}) == 1
    assert json.loads(run("--format", "json").stdout)["settings"]["labels"] == ["a – b…", "café 😀"]


def test_strict_stops_at_the_first_failure(watchword: Any, model: str, clip: Path) -> None:
    outcome = watchword("tag", clip, "missing.mp4", clip.parent, "--labels", LABELS, "--model", model, "--strict", "--format", "jsonl")
    assert outcome.code == 1
    assert [json.loads(line)["status"] for line in outcome.out.splitlines()] == ["done", "failed"]
    assert watchword("tag", "missing.mp4", "--labels", LABELS, "--model", model).code == 2


HOSTILE = ["a b.mp4", 'it\'s "q".mp4', "-dash.mp4", "é 日本.mp4", "semi;colon&.mp4", "$(touch pwned).mp4", "%05d.mp4"]
HOSTILE += ["http:colon.mp4", "n" * 200 + ".mp4", "new\nline.mp4", "<b>.mp4", "[bold].mp4", "$x^2$.mp4", "comma,.mp4", "=1+1.mp4"]


def test_hostile_names(watchword: Any, model: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("videos").mkdir()
    names = [os.fsencode(name) for name in HOSTILE] + [b"not \xff text.mp4"]
    for name in names:
        Path("videos", os.fsdecode(name)).write_bytes(clip.read_bytes())
    common = ["--labels", LABELS, "--model", model]
    outcome = watchword("tag", "videos", *common, "--format", "json", "--report", "report.html")
    assert outcome.code == 0
    paths = {row["path"] for row in json.loads(outcome.out)["results"]}
    assert {os.fsencode(Path(path).name) for path in paths} == set(names)
    page = Path("report.html").read_text()
    assert page.count("<section>") == len(names)
    assert "<b>" not in page and "&lt;b&gt;.mp4" in page
    rows = list(csv.DictReader(io.StringIO(watchword("tag", "videos", *common, "--format", "csv", "--top", 1).out, newline="")))
    assert len(rows) == len(names) and {row["status"] for row in rows} == {"done"}
    assert watchword("tag", "videos", *common).code == 0
    monkeypatch.chdir("videos")
    given = ["-dash.mp4", "$x^2$.mp4", "é 日本.mp4", "[bold].mp4", "new\nline.mp4"]
    assert watchword("tag", *common, "--picture", tmp_path / "strip.png", "--", *given).code == 0
    assert (tmp_path / "strip.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {"videos", "report.html", "strip.png"}


def test_list_on_standard_input_and_labels_in_a_file(
    watchword: Any, model: str, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("# what to look for\n\nwalking, then running\nsitting\n", encoding="utf-8-sig")
    for separator in ("\n", "\0"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{clip}{separator}".encode())))
        outcome = watchword("tag", "-", "--labels", labels, "--model", model, "--format", "json")
        (row,) = json.loads(outcome.out)["results"]
        assert {tag["label"] for tag in row["tags"]} == {"walking, then running", "sitting"}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert watchword("tag", "-", "--labels", labels, "--model", model).code == 2


def test_debug_shows_where_it_broke(watchword: Any, clip: Path) -> None:
    with pytest.raises(Exception, match="no such model"):
        watchword("tag", clip, "--labels", LABELS, "--model", "no such model", "--debug")


def test_probe(watchword: Any, clip: Path) -> None:
    outcome = watchword("probe", clip, "missing.mp4", "--json")
    assert outcome.code == 1
    done, failed = json.loads(outcome.out)
    assert done["video"]["width"] == 64 and failed["reason"] == "missing_file"
    assert "h264, 64x48" in watchword("probe", clip).out
    assert watchword("probe", "missing.mp4").code == 2


def test_models(watchword: Any) -> None:
    rows = json.loads(watchword("models", "--json").out)
    assert [row["name"] for row in rows if row["default"]] == ["xclip_base_patch32.k400_8f"]
    table = watchword("models").out
    assert all(row["name"] in table for row in rows)
    assert "87.7" in table and "MIT" in table


def test_convert_there_and_back(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    assert watchword("convert", model, tmp_path / "hf", "--to", "huggingface").code == 0
    assert watchword("convert", tmp_path / "hf", tmp_path / "back").code == 0
    scores = [
        json.loads(watchword("tag", clip, "--labels", LABELS, "--model", source, "--format", "json").out)["results"][0]["tags"]
        for source in (model, tmp_path / "back")
    ]
    assert scores[0] == scores[1]


def test_convert_to_half_the_size(watchword: Any, model: str, tmp_path: Path) -> None:
    assert watchword("convert", model, tmp_path / "half", "--half").code == 0
    sizes = [(Path(folder) / "model.safetensors").stat().st_size for folder in (model, tmp_path / "half")]
    assert sizes[1] < 0.55 * sizes[0]
    whole, half = XClip.from_pretrained(model).state_dict(), XClip.from_pretrained(tmp_path / "half").state_dict()
    assert all(torch.equal(half[name], whole[name].half().float()) for name in whole)


@pytest.mark.parametrize("target", ["watchword", "huggingface"])
def test_a_conversion_that_fails_leaves_nothing(model: str, tmp_path: Path, target: str) -> None:
    resource = pytest.importorskip("resource")
    code = "import sys; from watchword.cli import main; sys.exit(main(sys.argv[1:]))"
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "folder", tmp_path / "empty"):
        done = subprocess.run(
            [sys.executable, "-B", "-c", code, "convert", model, str(out), "--to", target],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),  # as a disk that is full
        )
        assert done.returncode == 2 and "cannot write" in done.stderr and len(done.stderr.splitlines()) == 1
    assert list(tmp_path.rglob("*")) == [tmp_path / "empty"]


def test_demo_with_any_model(watchword: Any, model: str, tmp_path: Path) -> None:
    outcome = watchword("demo", "--model", model, "--clips", 2, "--output", tmp_path / "demo")
    assert outcome.code == 0
    assert "of 2 right" in outcome.out
    made = {"clips", "strip.png", "report.html", "truth.csv", "film.mp4", "film.vtt", "objects.txt"}
    assert made == {path.name for path in (tmp_path / "demo").iterdir()}
    command = shlex.split(outcome.err.splitlines()[-1].strip())  # how to ask about the film, as it says
    assert command[:2] == ["watchword", "fill"]
    answered = watchword(*command[1:])
    assert answered.code == 0 and "probability" in answered.out


def test_expand_and_tag(watchword: Any, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_clip = pytest.importorskip("open_clip")
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIG_PATHS", list(open_clip.factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(open_clip.factory, "_MODEL_CONFIGS", dict(open_clip.factory._MODEL_CONFIGS))
    sizes = {
        "embed_dim": 64,
        "vision_cfg": {"image_size": 32, "patch_size": 16, "width": 64, "layers": 1},
        "text_cfg": {"width": 64, "heads": 1, "layers": 1},
    }
    (tmp_path / "watchword-tiny.json").write_text(json.dumps(sizes))
    open_clip.add_model_config(tmp_path / "watchword-tiny.json")
    arguments = ("expand", "open_clip:watchword-tiny", "--out", tmp_path / "model", "--num-frames", 2)
    refused = watchword(*arguments)
    assert refused.code == 2 and "ask for random weights" in refused.err and not (tmp_path / "model").exists()
    written = watchword(*arguments, "--random-weights")
    assert written.code == 0 and "2 frames of 32 pixels" in written.err and "all weights are random, as asked" in written.err
    assert watchword(*arguments, "--random-weights").code == 2  # the folder is there already
    tagged = watchword("tag", clip, "--labels", LABELS, "--model", tmp_path / "model", "--format", "json")
    assert tagged.code == 0 and "never trained" in tagged.err
    assert sum(tag["score"] for tag in json.loads(tagged.out)["results"][0]["tags"]) == pytest.approx(1, abs=1e-4)


def test_a_model_of_open_clip_that_is_not_here_is_one_line(watchword: Any, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    outcome = watchword("tag", clip, "--labels", LABELS, "--model", "open_clip:PE-Core-B-16")
    assert outcome.code == 2 and "timm/PE-Core-B-16 is not on this machine" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
