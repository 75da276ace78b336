"""Filled blanks as tables and pictures: what is shown where, whatever the words and the video are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from clips_with_sound import sine, write_clip
from watchword.media.subtitles import Word
from watchword.report.fill_formats import as_csv, as_json, as_table
from watchword.report.fill_strip import fill_strip
from watchword.report.loudness import loudness
from watchword.report.run import FillingRun
from watchword.reserve.answers import FillResult
from watchword.results import Failure

OPTIONS = ("<b>bold</b>", "$x^2$", "日本語 🐕", "plain")
SCORES = np.array([[0.7, 0.2, 0.06, 0.04], [0.1, 0.8, 0.06, 0.04]], np.float32)
SPANS = np.array([[0.0, 6.0], [6.0, 8.0]])


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("report") / "loud.mkv", seconds=8, sounds={0: sine(440, 2, 0.8), 4.0: sine(440, 2, 0.2)})


def result(video: Path | str, num_windows: int = 1, num_blanks: int = 1, **changes: Any) -> FillResult:
    values: dict[str, Any] = dict(
        path=str(video),
        question="they say <mask> here" if num_blanks == 1 else "<mask> and <mask>.",
        options=(OPTIONS,) * num_blanks,
        spans=SPANS[:num_windows],
        places=SPANS[:num_windows] * 0.5,
        probabilities=(SCORES[:num_windows],) * num_blanks,
        cosines=(SCORES[:num_windows] / 4,) * num_blanks,
        used=("frames", "sound"),
        words=(Word("$hello$", 0.5, 1.0), Word("there\u202e", 5.0, 5.5), Word("late", 90.0, 91.0)),
    )
    return FillResult(**values | changes)


def filling_run(results: list[FillResult], **changes: Any) -> FillingRun:
    values: dict[str, Any] = dict(model={"name": "tiny", "trained": True}, settings={}, results=results, top=4)
    return FillingRun(**values | changes)


def table(run: FillingRun) -> list[str]:
    console = Console(width=140, file=io.StringIO())
    console.print(as_table(run))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_columns_are_there_where_they_tell_lines_apart(video: Path) -> None:
    assert table(filling_run([result("a.mp4")]))[0].split() == ["file", "option", "probability", "cosine"]
    assert table(filling_run([result("a.mp4", num_blanks=2), result("a.mp4")]))[0].split()[:4] == ["file", "question", "blank", "option"]
    timeline = table(filling_run([result("a.mp4", 2)], windowed=True, top=1))
    assert [line.split()[-4:] for line in timeline[2:]] == [
        ["0:00–0:06", "<b>bold</b>", "0.70", "0.175"],
        ["0:06–0:08", "$x^2$", "0.80", "0.200"],
    ]
    whole = table(filling_run([result("a.mp4", 2)], top=1))
    assert whole[2].split()[1:] == ["<b>bold</b>", "0.55", "0.138"]  # 6 s and 2 s weigh 3 to 1


def test_failures_and_none_of_these(video: Path) -> None:
    from watchword.media import MediaError

    failed = FillResult("bad.mp4", "they <mask>", failure=Failure.of(MediaError("bad.mp4", "cannot be read"), "open"))
    run = filling_run([result("a.mp4"), failed], threshold=0.9)
    text = "\n".join(table(run))
    assert "(none of these)" in text and "failed: " in text
    assert "(none of these)" in as_csv(run) and '"none_of_these": true' in as_json(run) and "cannot be read" in as_csv(run)


@pytest.mark.parametrize("num_windows", [1, 2])
def test_the_picture_shows_statement_place_sound_words_and_options(video: Path, num_windows: int) -> None:
    svg = fill_strip(filling_run([result(video, num_windows, 2, asked="what do they say?")]), format="svg")
    assert svg == fill_strip(filling_run([result(video, num_windows, 2, asked="what do they say?")]), format="svg")
    picture = Image.open(io.BytesIO(fill_strip(filling_run([result(video, num_windows)])))).convert("RGB")
    pixels = np.asarray(picture).astype(int)
    yellow = (abs(pixels - np.array([252, 238, 201])) < 6).all(axis=2)  # behind the place of the question
    columns = np.flatnonzero(yellow.sum(axis=0) > 40)
    left, width = 2.6 * 130, 6.8 * 130
    assert abs(columns[0] - left) < 4
    assert abs(columns[-1] - (left + width * 0.5)) < 8
    best = (abs(pixels - np.array([0x2F, 0x6D, 0xB5])) < 3).all(axis=2)
    assert best.sum() > 2000


def test_a_video_that_is_gone_and_words_without_end_still_give_a_picture() -> None:
    words = tuple(Word("chatter" * 9, n / 50, n / 50) for n in range(300))
    gone = result("gone.mp4", words=words, question="a very long statement " * 30 + "<mask>", used=())
    with Image.open(io.BytesIO(fill_strip(filling_run([gone], threshold=0.99)))) as picture:
        assert picture.width == 1430 and picture.height > 600  # the statement takes several lines


def test_loudness_is_of_the_span_and_knows_where_there_is_no_sound(video: Path) -> None:
    peaks = loudness(video, (0.0, 8.0), 8)
    assert peaks is not None
    assert peaks[:2] == pytest.approx([1, 1], abs=0.02) and peaks[4:6] == pytest.approx([0.25, 0.25], abs=0.02)
    assert np.isnan(peaks[[3, 6, 7]]).all()
    half = loudness(video, (4.0, 6.0), 2)
    assert half is not None and half == pytest.approx([1, 1], abs=0.02)
    assert loudness("gone.mp4", (0.0, 8.0), 8) is None
    assert loudness(write_clip(video.with_name("mute.mkv"), seconds=2), (0.0, 2.0), 8) is None
