"""Text, pictures and pages made of results: legible, escaped, self-contained."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from rich.cells import cell_len
from rich.console import Console

from tiny_clips import write_video
from watchword.errors import InputError
from watchword.media import MediaError
from watchword.report.confusion import confusion
from watchword.report.curves import curves, read_metrics
from watchword.report.formats import as_csv, as_json, as_srt, as_table
from watchword.report.html import page
from watchword.report.run import TaggingRun
from watchword.report.strip import strip
from watchword.report.text import clock, duration, printable, to_json
from watchword.report.thumbnails import shorten
from watchword.results import Failure
from watchword.tasks.results import ClassificationResult, VideoResult
from watchword.xclip.tagging import ClipResult

LABELS = ("<script>alert(1)</script>", "$x^2$ & co", "日本語 🐕", "plain")
SCORES = [[0.7, 0.2, 0.06, 0.04], [0.1, 0.8, 0.06, 0.04], [0.1, 0.7, 0.1, 0.1]]


def result(path: Path | str, spans: list[tuple[float, float]]) -> ClipResult:
    scores = np.array(SCORES[: len(spans)], np.float32)
    return ClipResult(str(path), LABELS, np.array(spans), scores, scores / 2, scores / 4, ("a <note>",))


def tagging_run(results: list[ClipResult], **changes: Any) -> TaggingRun:
    model = {"name": "tiny", "weights": "tiny", "trained": True, "num_frames": 4, "image_size": 32, "precision": "float32"}
    settings = {"labels": list(LABELS), "labels_from": "own words", "match_against": "plain scenes", "window_seconds": 1.0}
    values: dict[str, Any] = dict(model=model, settings=settings, results=results, top=4)
    return TaggingRun(**values | changes)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("report") / "<i>$5^2$ 日本.mp4", num_frames=30, size=(64, 48))


def failed() -> ClipResult:
    return ClipResult("bad <b>.mp4", failure=Failure.of(MediaError("bad <b>.mp4", "cannot be read"), "open"))


TIMELINE = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "srcset")]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("windowed", [False, True])
def test_page_is_escaped_and_needs_nothing_beside_it(video: Path, windowed: bool) -> None:
    spans = TIMELINE if windowed else [(0.0, 3.0)]
    text = page(tagging_run([result(video, spans), failed()], windowed=windowed))
    parsed = _Page(text)
    assert len(parsed.links) == 8 and all(link.startswith("data:image/jpeg;base64,") for link in parsed.links)
    assert not {"script", "link", "iframe", "i", "b", "note"} & set(parsed.tags)
    assert ("svg" in parsed.tags) == windowed
    assert "url(" not in text and "default-src 'none'" in text
    for words in (*LABELS, str(video), "bad <b>.mp4", "a <note>", "cannot be read"):
        assert words in parsed.words


def test_page_says_that_random_weights_mean_nothing(video: Path) -> None:
    run = tagging_run([result(video, TIMELINE)])
    run.model["trained"] = False
    assert "never trained" in page(run)


@pytest.mark.parametrize("windowed", [False, True])
def test_strip_is_a_picture_with_the_thumbnails_in_it(video: Path, windowed: bool) -> None:
    spans = TIMELINE if windowed else [(0.0, 3.0)]
    with Image.open(io.BytesIO(strip(tagging_run([result(video, spans), result(video, spans), failed()], windowed=windowed)))) as picture:
        assert picture.width > 1200
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
    bar_in_the_video = (pixels[:, 0] > 200) & (pixels[:, 1] < 110) & (pixels[:, 2] < 90)
    assert bar_in_the_video.sum() > 100
    assert (pixels.min(axis=1) > 240).mean() > 0.5  # dark on light


def test_strip_of_a_video_that_is_gone_has_the_scores(tmp_path: Path) -> None:
    picture = strip(tagging_run([result(tmp_path / "gone.mp4", TIMELINE)], windowed=True, threshold=0.99), format="svg")
    assert b"<svg" in picture


def test_table_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    run = tagging_run([result("a.mp4", [(0.0, 3.0)]), failed()], top=2, threshold=0.3)
    Console(width=90).print(as_table(run))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in lines if not line.startswith("─")] == [
        ["file", "label", "score", "match"],
        ["a.mp4", "<script>alert(1)</script>", "0.70", "0.35"],
        ["bad", "<b>.mp4", "failed:", "unreadable"],
    ]


def test_subtitles_join_neighbours_and_count_from_the_first_frame() -> None:
    spans = [(10.0, 12.0), (11.0, 13.0), (12.0, 13.5)]
    cues = as_srt(tagging_run([result("a.mp4", spans)], windowed=True), result("a.mp4", spans))
    assert cues.split("\n\n") == [
        "1\n00:00:00,000 --> 00:00:01,000\n<script>alert(1)</script>",
        "2\n00:00:01,000 --> 00:00:03,500\n$x^2$ & co\n",
    ]


def test_csv_and_json_agree(video: Path) -> None:
    run = tagging_run([result(video, TIMELINE), failed()], windowed=True, top=2)
    assert as_csv(run).count("\r\n") == 1 + 3 + 1
    assert '"num_failed": 1' in as_json(run)
    for words in (LABELS[0], "unreadable"):
        assert words in as_csv(run) and words in as_json(run)


@given(st.floats(0, 400_000))
def test_clock_reads_back(seconds: float) -> None:
    *minutes, rest = clock(seconds, decimals=1).split(":")
    total = float(rest)
    for place, part in enumerate(reversed(minutes), start=1):
        total += int(part) * 60**place
    assert total == pytest.approx(seconds, abs=0.051)
    assert float(rest) < 60


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3661, "1:01:01"), (-1.5, "-0:02")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
    assert duration(9.44) == "9.4 s" and duration(125) == "2:05"


@given(st.text())
def test_printable_is_one_line_that_any_output_takes(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert shown.isprintable()
    assert not re.search(r"[\x00-\x1f\x7f\u202e]", shown)


def test_json_of_a_path_that_is_no_text() -> None:
    assert to_json({"path": "日\udcff"}) == '{"path": "\\u65e5\\udcff"}'
    assert to_json({"path": "日"}) == '{"path": "日"}'


@pytest.mark.parametrize(("window", "times"), [(1.0, "0:01–0:02"), (0.5, "0:00.5–0:01.0"), (0.25, "0:00.25–0:00.50")])
def test_the_table_tells_short_windows_apart(video: Path, window: float, times: str) -> None:
    shown = tagging_run([result(video, [(n * window, (n + 1) * window) for n in range(3)])], windowed=True)
    shown.settings["window_seconds"] = window
    console = Console(width=120, file=io.StringIO())
    console.print(as_table(shown))
    assert times in console.file.getvalue()  # type: ignore[attr-defined]


@given(st.text(), st.integers(8, 60))
@example("日本語" * 20, 34)
def test_shortened_text_fits_its_columns(text: str, length: int) -> None:
    short = shorten(text, length)
    assert cell_len(short) <= length
    assert short == text or "…" in short


def classified(num_classes: int, names: tuple[str, ...] = ()) -> ClassificationResult:
    names += tuple(f"a class with a rather long name, number {number}" for number in range(len(names), num_classes))
    videos = [
        VideoResult(path=f"{label}.mp4", label=label, ranked=(((label + shift) % num_classes, 0.5),), place=1 + (shift > 0))
        for label in range(num_classes)
        for shift in (0, 0, 1)
    ]
    return ClassificationResult(protocol="<b> $x$", class_names=names, videos=tuple(videos))


@pytest.mark.parametrize("num_classes", [2, 12, 41])
def test_confusion_grows_with_the_classes_and_is_dark_on_its_diagonal(num_classes: int) -> None:
    with Image.open(io.BytesIO(confusion(classified(num_classes, ("$x^2$", "日本語"))))) as picture:
        assert picture.width >= 11 * num_classes and picture.height >= 11 * num_classes
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3).astype(int)
    dark_blue = (pixels[:, 2] - pixels[:, 0] > 90) & (pixels[:, 0] < 90)
    cell = (max(0.42, 1.6 / num_classes) * 130 if num_classes <= 40 else 0.13 * 100) ** 2
    assert dark_blue.sum() == pytest.approx(num_classes * cell, rel=0.35)


def test_curves_show_what_was_logged(tmp_path: Path) -> None:
    lines = [
        f'{{"step": {step}, "loss": {9 / step}, "held_out_top1": 50, "samples_per_second": 3, "table": [1]}}\n' for step in range(1, 60)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"step": 60, "lo')
    assert read_metrics(tmp_path)["loss"] == [(step, 9 / step) for step in range(1, 60)]
    picture = curves(tmp_path, title="<run>", format="svg").decode()
    assert "<svg" in picture
    drawn = curves(tmp_path)
    with Image.open(io.BytesIO(drawn)) as png:
        two_panels = png.width
    (tmp_path / "metrics.jsonl").write_text("".join(line.replace("}", ', "data_wait_share": 0.5, "loss_scale": 65536}') for line in lines))
    assert curves(tmp_path) == drawn, "what is neither a loss nor a percentage stands among the percentages"
    (tmp_path / "metrics.jsonl").write_text("".join(line.replace("}", ', "span_loss_random_text": 0.0}') for line in lines))
    assert curves(tmp_path) == drawn, "a loss of what the data lacks is drawn"
    (tmp_path / "metrics.jsonl").write_text("".join(line.replace('"loss"', '"learning_rate": 1, "loss"') for line in lines))
    with Image.open(io.BytesIO(curves(tmp_path))) as png:
        assert png.width > two_panels
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(InputError, match="nothing to draw"):
        curves(tmp_path)
    with pytest.raises(InputError, match="no curves"):
        curves(tmp_path / "nowhere")
