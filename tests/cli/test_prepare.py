"""``watchword prepare``: what it prints, writes and answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from talking_clips import write_talk, write_talks
from watchword.reserve.shards import RecordShards


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talks") / "my <videos>"
    write_talks(folder, 3, seconds=35)
    write_talk(folder / "mute.mkv", seconds=35, sound=False)
    return folder


def test_a_folder_to_records_and_a_page(watchword: Any, videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = watchword("prepare", videos, out, "--segments", 4, "--jobs", 0)
    assert done.code == 0, done.err
    assert re.search(r"^videos +3 prepared, 0\.03 hours, 20 segments$", done.out, re.M)
    assert re.search(r"^  left out +1 no_sound: no sound$", done.out, re.M)
    assert re.search(r"^train +5 records of 4 segments, 1 shards, 0\.\d MB$", done.out, re.M)
    assert "wrote " in done.err and len(RecordShards(out)) == 5
    page = (out / "summary.html").read_text(encoding="utf-8")
    assert page.count('<img class="frame"') == page.count('<img class="sound"') == 5
    assert "http" not in page.replace('http-equiv="', "") and "<script" not in page
    assert "3 videos" in page and "no_sound" in page and "my &lt;videos&gt;/mute.mkv" in page
    words = re.findall(r"<figcaption>([a-z ]+)<br>", page)
    assert len(words) == 5 and all(len(text.split()) > 5 for text in words)

    before = {path: path.stat().st_mtime_ns for path in out.iterdir() if path.name != ".lock"}
    again = watchword("prepare", videos, out, "--segments", 4, "--jobs", 0)
    assert again.code == 0 and "finished already" in again.err and again.out == done.out
    assert {path: path.stat().st_mtime_ns for path in before} == before
    (out / "summary.html").unlink()
    watchword("prepare", videos, out, "--segments", 4, "--jobs", 0)
    assert (out / "summary.html").read_text(encoding="utf-8") == page


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_done(watchword: Any, videos: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_talk(tmp_path / "in" / "a.mkv", seconds=35)
    (tmp_path / "in" / "bad.mp4").write_bytes(b"nothing")
    done = watchword("prepare", tmp_path / "in", tmp_path / "out", "--segments", 4, "--jobs", 0)
    assert done.code == 1 and "bad.mp4': not a media file" not in done.err and "bad.mp4: not a media file" in done.err
    assert "not_media: for example" in done.out and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--language", "en"], r"watchword\[language\]|records"),
        (["--transcribe", "small"], r"watchword\[transcribe\]|Whisper"),
        (["--timing", "nowhere.json"], "nowhere.json"),
        (["--text", "nowhere"], "no text in 'nowhere'"),
        (["--min-words", "1000"], "no record to train on: 0 of 4 videos"),
        (["--segments", "0"], "--segments"),
        (["--validation", "1"], "--validation"),
    ],
)
def test_what_cannot_be_done_is_one_line(watchword: Any, videos: Path, tmp_path: Path, arguments: list[str], problem: str) -> None:
    done = watchword("prepare", videos, tmp_path / "out", "--jobs", 0, *arguments)
    assert done.code == 2 and re.search(problem, done.err) and done.err.strip().count("\n") == 0, done.err


def test_options_reach_the_settings(watchword: Any, videos: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text('{"text": "some words about nothing"}\n' * 400)
    arguments = ["--segments", 2, "--keep-all", "--spectrogram", "jpeg", "--seed", 7, "--some-validation", "--jobs", 0, "--keep-work"]
    done = watchword("prepare", videos, tmp_path / "out", *arguments, "--text", tmp_path / "text.jsonl", "--repeat-text")
    assert done.code == 0, done.err
    settings = json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]["settings"]
    assert settings["videos"]["seed"] == 7 and settings["videos"]["max_minutes"] == 0 and settings["repeat_text"] is True
    record = RecordShards(tmp_path / "out", "validation")[0]
    assert record.web_text is not None and record.web_text.shape == (2, 1536)
    assert record.segments[0].spectrogram.startswith(b"\xff\xd8") and (tmp_path / "out" / "work").is_dir()
