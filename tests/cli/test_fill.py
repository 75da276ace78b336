"""`watchword fill` and `ask` as their users meet them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from clips_with_sound import sine, write_clip
from tiny_reserve import tiny_reserve
from watchword.playground import sample_scene
from watchword.playground import write_clip as write_playground_clip

STATEMENT = "in this video i'll be <mask>"
OPTIONS = "making coffee, going backpacking, playing chess"
NAMES = set(OPTIONS.split(", "))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    tiny_reserve(weights="tests.tiny").save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_clip(tmp_path_factory.mktemp("clip") / "clip.mkv", seconds=12, fps=2, sounds={0: sine(440, 12)})
    path.with_suffix(".srt").write_text("1\n00:00:01,000 --> 00:00:04,000\nand now we grind the beans\n")
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("long") / "long.mkv", seconds=75, fps=1)


def test_a_table_on_stdout_and_what_it_rests_on_beside_it(watchword: Any, model: str, clip: Path) -> None:
    outcome = watchword("fill", clip, STATEMENT, "--options", OPTIONS, "--model", model)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["file", "option", "probability", "cosine"] and len(lines) == 5
    assert "answered from frames, subtitles and sound" in outcome.err and "never trained" not in outcome.err


def test_untrained_weights_and_the_authors_format(watchword: Any, clip: Path, tmp_path: Path) -> None:
    from watchword.reserve.checkpoints import save_released

    begun = tiny_reserve()
    begun.contrastive_scales.data.fill_(1.0)  # as training begins
    save_released(begun, tmp_path / "ckpt_0")
    tiny_reserve().save_pretrained(tmp_path / "ours")
    ours = watchword("fill", clip, STATEMENT, "--options", OPTIONS, "--model", tmp_path / "ours", "--format", "json")
    assert ours.code == 0 and "never trained" in ours.err
    assert json.loads(ours.out)["model"]["trained"] is False
    released = watchword("fill", clip, STATEMENT, "--options", OPTIONS, "--model", tmp_path / "ckpt_0", "--format", "json")
    assert released.code == 0 and "12 x 20 patches" in released.err and "never trained" in released.err


def test_json_jsonl_and_csv_hold_the_same_numbers(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    def fill(format: str, *more: object) -> str:
        outcome = watchword(
            "fill", clip, tmp_path / "missing.mp4", "a <mask> man, <mask>", "--options", OPTIONS, "--options", "yes, no",
            "--model", model, "--format", format, *more,
        )  # fmt: skip
        assert outcome.code == 1 and outcome.err.count("missing.mp4") == 1
        return str(outcome.out)

    document = json.loads(fill("json"))
    assert document["settings"]["options"] == [OPTIONS.split(", "), ["yes", "no"]] and (document["num_done"], document["num_failed"]) == (
        1,
        1,
    )
    done, failed = document["results"]
    first = next(csv.DictReader(io.StringIO(fill("csv"), newline="")))
    assert [row["option"] for row in done["blanks"][0]["options"]] == [first[f"option_{place}"] for place in (1, 2, 3)]
    assert [{row["option"] for row in blank["options"]} for blank in done["blanks"]] == [NAMES, {"yes", "no"}]
    assert all(sum(row["probability"] for row in blank["options"]) == pytest.approx(1, abs=1e-4) for blank in done["blanks"])
    assert done["used"] == ["frames", "subtitles", "sound"] and done["question_seconds"] == [0, 5]
    assert (failed["reason"], failed["question"]) == ("missing_file", "a <mask> man, <mask>")
    assert [json.loads(line) for line in fill("jsonl").splitlines()] == [done, failed]
    rows = list(csv.DictReader(io.StringIO(fill("csv", "--top", 1), newline="")))
    assert [(row["status"], row["blank"], row["reason"]) for row in rows] == [
        ("done", "1", ""), ("done", "2", ""), ("failed", "", "missing_file"),
    ]  # fmt: skip
    assert "option_2" not in rows[0] and float(rows[1]["probability_1"]) == done["blanks"][1]["options"][0]["probability"]


def test_threshold_top_windows_and_a_moment(watchword: Any, model: str, long: Path) -> None:
    def fill(format: str, *more: object) -> str:
        outcome = watchword("fill", long, STATEMENT, "--options", OPTIONS, "--model", model, "--format", format, *more)
        assert outcome.code == 0
        return str(outcome.out)

    assert fill("table", "--threshold", 1).splitlines()[-1].split(maxsplit=1)[1].strip() == "(none of these)"
    assert json.loads(fill("json", "--threshold", 1))["results"][0]["blanks"][0] == {"options": [], "none_of_these": True}
    assert len(json.loads(fill("json", "--top", 2))["results"][0]["blanks"][0]["options"]) == 2
    (result,) = json.loads(fill("json", "--windows"))["results"]
    assert [(window["start_seconds"], window["end_seconds"]) for window in result["windows"]] == [(0, 35), (35, 75)]
    assert "question_seconds" not in result and [window["question_seconds"] for window in result["windows"]] == [[0, 5], [35, 40]]
    assert "0:35–1:15" in fill("table", "--windows") and len(list(csv.reader(io.StringIO(fill("csv", "--windows"))))) == 3
    (result,) = json.loads(fill("json", "--at", 50))["results"]
    assert (result["start_seconds"], result["question_seconds"]) == (35, [50, 55])


def test_a_file_of_questions_with_paths_and_options_of_their_own(
    watchword: Any, model: str, clip: Path, long: Path, tmp_path: Path
) -> None:
    questions = tmp_path / "questions.csv"
    questions.write_text(
        f'path,question,options,at,remark\n{clip},he is <mask>,"left|right, or so",,x\n'
        f'{clip},she <mask>,,,\n{long},it <mask>,"up,down",50,\n'
    )
    outcome = watchword("fill", "--questions", questions, "--options", OPTIONS, "--model", model, "--format", "json")
    assert outcome.code == 0 and "3 of 3 answered" in outcome.err
    rows = json.loads(outcome.out)["results"]
    assert [(Path(row["path"]).name, row["question"]) for row in rows] == [
        ("clip.mkv", "he is <mask>"), ("clip.mkv", "she <mask>"), ("long.mkv", "it <mask>"),
    ]  # fmt: skip
    assert [{option["option"] for option in row["blanks"][0]["options"]} for row in rows] == [
        {"left", "right, or so"},
        NAMES,
        {"up", "down"},
    ]
    assert rows[2]["start_seconds"] == 35
    alone = watchword("fill", clip, "she <mask>", "--options", OPTIONS, "--model", model, "--format", "json")
    (same,) = json.loads(alone.out)["results"]
    for ours, theirs in zip(rows[1]["blanks"][0]["options"], same["blanks"][0]["options"], strict=True):
        assert ours == pytest.approx(theirs, abs=2e-5)
    (tmp_path / "all.jsonl").write_text('{"question": "a <mask>", "options": ["b", "c"]}\n')
    outcome = watchword("fill", clip.parent, long, "--questions", tmp_path / "all.jsonl", "--model", model)
    assert outcome.code == 0 and outcome.out.count("\n") == 6


def test_ask_shows_the_statement_that_it_used(watchword: Any, model: str, clip: Path, tmp_path: Path) -> None:
    asked = watchword("ask", clip, "what is he doing?", "--options", OPTIONS, "--model", model, "--format", "json")
    assert asked.code == 0 and "statement: he is <mask>" in asked.err
    (row,) = json.loads(asked.out)["results"]
    assert (row["asked"], row["question"]) == ("what is he doing?", "he is <mask>")
    filled = watchword("fill", clip, "he is <mask>", "--options", OPTIONS, "--model", model, "--format", "json")
    (same,) = json.loads(filled.out)["results"]
    assert row["blanks"] == same["blanks"] and "asked" not in same
    assert "statement: a <mask> b" in watchword("ask", clip, "a <mask> b", "--options", OPTIONS, "--model", model).err
    table = watchword("ask", clip, "what is he doing?", "--options", OPTIONS, "--model", model, "--format", "csv").out
    (line,) = csv.DictReader(io.StringIO(table, newline=""))
    assert (line["asked"], line["question"], line["blank"]) == ("what is he doing?", "he is <mask>", "1")
    refused = watchword("ask", clip, "colourless green ideas", "--options", OPTIONS, "--model", model)
    assert refused.code == 2 and refused.out == "" and "colourless green ideas" in refused.err


def test_the_picture_in_every_format(watchword: Any, model: str, clip: Path, long: Path, tmp_path: Path) -> None:
    for suffix, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        path = tmp_path / f"picture.{suffix}"
        videos = [clip, long] if suffix == "png" else [clip]
        outcome = watchword("fill", *videos, STATEMENT, "--options", OPTIONS, "--model", model, "--picture", path)
        assert outcome.code == 0 and f"wrote {path}" in outcome.err and path.read_bytes().startswith(begin)
    with Image.open(tmp_path / "picture.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert (pixels == (0x2F, 0x6D, 0xB5)).all(axis=1).sum() > 1000  # the bars of the best options


def test_a_playground_clip_with_sound_is_filled_and_asked(watchword: Any, model: str, tmp_path: Path) -> None:
    write_playground_clip(sample_scene(7), tmp_path / "scene.mp4", size=64)
    for command, text in (("fill", "the <mask> moves"), ("ask", "what is moving?")):
        outcome = watchword(command, tmp_path, text, "--options", "red square, blue star", "--model", model)
        assert outcome.code == 0 and "answered from frames, subtitles and sound" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fill"], "give a video"),
        (["fill", "CLIP"], "give a video"),
        (["fill", "CLIP", STATEMENT], "give --options"),
        (["fill", "CLIP", STATEMENT, "--options", "one"], "at least two"),
        (["fill", "CLIP", STATEMENT, "--options", "a, ,b"], "option 2 of 3 is empty"),
        (["fill", "CLIP", STATEMENT, "--options", "missing.txt"], "missing.txt"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--options", "c,d"], "2 lists of options for 1 blanks"),
        (["fill", "CLIP", "no blank", "--options", "a,b"], "write <mask>"),
        (["fill", "nowhere/*.mp4", STATEMENT, "--options", "a,b", "--subtitles", "x.srt", "--use", "ears"], "ears"),
        (["fill", "CLIP", "CLIP2", STATEMENT, "--options", "a,b", "--subtitles", "x.srt"], "--subtitles takes one video"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--subtitles", "x.srt", "--use", "sound"], "leave out --subtitles"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--picture", "strip.docx"], ".docx"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--threshold", "7"], "threshold"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--model", "./nowhere"], "nowhere"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--model", "ckpts/base"], "can no longer be downloaded"),
        (["fill", "CLIP", STATEMENT, "--options", "a,b", "--device", "nonsense"], "nonsense"),
        (["fill", "--questions", "nowhere.csv", "--options", "a,b"], "nowhere.csv"),
        (["fill", "--questions", "NO_PATHS", "--options", "a,b"], "of which video"),
        (["fill", "CLIP2", "--questions", "PATHS", "--options", "a,b"], "leave out videos"),
        (["fill", "CLIP", "--questions", "NO_PATHS"], "give --options"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_code_2(
    watchword: Any, model: str, clip: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "no_paths.csv").write_text("question\nit is <mask>\n")
    (tmp_path / "paths.csv").write_text(f"path,question\n{clip},it is <mask>\n")
    places = {"CLIP": clip, "CLIP2": f"{clip}2", "NO_PATHS": tmp_path / "no_paths.csv", "PATHS": tmp_path / "paths.csv"}
    given = [str(places.get(argument, argument)) for argument in arguments]
    outcome = watchword(*given, *([] if "--model" in given else ["--model", model]))
    assert outcome.code == 2 and outcome.out == ""
    assert len(outcome.err.splitlines()) == 1 and outcome.err.startswith("watchword: ") and words in outcome.err


def test_without_a_model_one_line_says_what_to_do(watchword: Any, clip: Path) -> None:
    outcome = watchword("fill", clip, STATEMENT, "--options", OPTIONS)
    assert outcome.code == 2 and len(outcome.err.splitlines()) == 1
    assert "--model" in outcome.err and "no longer be downloaded" in outcome.err


def test_strict_stops_and_a_list_comes_from_standard_input(model: str, clip: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "watchword", "fill", "-", STATEMENT, "--options", OPTIONS, "--model", model, "--format", "jsonl"]
    done = subprocess.run([*command, "--strict"], capture_output=True, text=True, input=f"{tmp_path}/none.mp4\n{clip}\n")
    assert done.returncode == 2 and [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["failed"]
    assert "stopped at the first failure" in done.stderr


def test_help_loads_nothing_heavy() -> None:
    code = "import sys\nfrom watchword.cli import main\nmain(['ask', '--help'])\n"
    code += "print(*({'torch', 'numpy', 'av'} & set(sys.modules)), 'loaded')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--questions" in done.stdout and done.stdout.splitlines()[-1] == "loaded"


def test_wrong_usage_is_named_before_any_weights_are_read(watchword: Any, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.csv").write_text(f'question,options\n{STATEMENT},"a, b"\n')
    for arguments, words in (
        ([clip, STATEMENT, "--questions", tmp_path / "questions.csv"], f"{STATEMENT!r} is a statement, but --questions has them"),
        ([clip, STATEMENT, "--options", OPTIONS, "--at", "nan"], "--at nan: give a time in seconds"),
        ([clip, STATEMENT, "--options", OPTIONS, "--use", "all"], "Invalid value for '--use': 'all' is not one of"),
    ):
        outcome = watchword("fill", *arguments, "--model", tmp_path / "none")
        assert outcome.code == 2 and words in outcome.err


def test_a_moment_beyond_the_end_is_told_of_each_video(watchword: Any, model: str, clip: Path, long: Path) -> None:
    outcome = watchword("fill", clip, long, STATEMENT, "--options", OPTIONS, "--model", model, "--at", "500")
    assert outcome.code == 2
    assert all(f"failed: {str(path)!r}: the question stands at 500 s" in outcome.err for path in (clip, long))
