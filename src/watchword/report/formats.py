"""A tagging run as JSON, JSON lines, CSV, subtitles, or a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from ..results import NONE_OF_THESE
from ..xclip.tagging import ClipResult, Tag
from .rows import answers, as_number, csv_text, document, failed_cell, failed_row, failure_cells, new_table, ranked_cells, shown
from .run import TaggingRun
from .text import clock, printable

__all__ = ["as_csv", "as_json", "as_srt", "as_table", "result_row"]

_NUMBERS = ("score", "match", "similarity")


def as_json(run: TaggingRun) -> str:
    """One document: model, settings, counts, and a row for each input."""
    return document(run, (result_row(run, result) for result in run.results))


def result_row(run: TaggingRun, result: ClipResult) -> dict[str, Any]:
    """One input as plain values: its tags, or the stage at which it failed and why."""
    if result.failure:
        return failed_row(result.path, result.failure)
    start, end = result.spans[0, 0], result.spans[-1, 1]
    row: dict[str, Any] = {"path": result.path, "status": "done", "start_seconds": as_number(start), "end_seconds": as_number(end)}
    row |= _answer(run, run.tags(result))
    if run.windowed:
        row["windows"] = [
            {"start_seconds": as_number(window.start_seconds), "end_seconds": as_number(window.end_seconds), **_answer(run, window.tags)}
            for window in run.windows(result)
        ]
    return row | {"warnings": list(result.warnings)}


def as_csv(run: TaggingRun) -> str:
    """A row for each input, or for each window: the best labels side by side, then what failed."""
    num_labels = min(run.top, max((len(result.labels) for result in run.done), default=1))
    columns = [f"{name}_{place}" for place in range(1, num_labels + 1) for name in ("label", *_NUMBERS)]
    rows: list[list[object]] = []
    for result in run.results:
        if result.failure:
            rows.append([result.path, "failed", *[""] * (2 + len(columns)), *failure_cells(result.failure)])
        for window in [] if result.failure else run.windows(result):
            times = [as_number(window.start_seconds), as_number(window.end_seconds)]
            rows.append([result.path, "done", *times, *ranked_cells(window.tags, ("label", *_NUMBERS), num_labels), "", "", ""])
    return csv_text(["path", "status", "start_seconds", "end_seconds", *columns], rows)


def as_srt(run: TaggingRun, result: ClipResult) -> str:
    """The best label of each stretch of one video as subtitle cues, neighbours with the same label joined.

    Overlapping windows are shown until the next begins. Players count from the first frame, so the cues do too. Stretches without
    a label that reaches the threshold have no cue.
    """
    cues: list[tuple[float, float, str]] = []
    windows = run.windows(result)
    offset = windows[0].start_seconds
    ends = [window.start_seconds for window in windows[1:]] + [windows[-1].end_seconds]
    for window, end in zip(windows, ends, strict=True):
        if window.tags:
            start, end, label = window.start_seconds - offset, end - offset, printable(window.tags[0].label)
            if cues and cues[-1][2] == label and cues[-1][1] >= start - 1e-6:
                start = cues.pop()[0]
            cues.append((start, end, label))
    return "\n".join(f"{n}\n{_srt_time(start)} --> {_srt_time(end)}\n{label}\n" for n, (start, end, label) in enumerate(cues, start=1))


def as_table(run: TaggingRun, *, encoding: str | None = None) -> Table:
    """A table for the terminal: one line a label, or with windows one line a window; in characters that its ``encoding`` has."""
    table = new_table("file", *(["time"] if run.windowed else []), "label", "score", "match", numbers=_NUMBERS)
    for result in run.results:
        path = shown(result.path, encoding)
        if result.failure:
            table.add_row(path, *([Text()] if run.windowed else []), failed_cell(result.failure), Text(), Text())
        for window in [] if result.failure else run.windows(result):
            times = [clock(time, decimals=_decimals(run)) for time in (window.start_seconds, window.end_seconds)]
            span = [shown("–".join(times), encoding)] if run.windowed else []
            for number, (label, score, match) in enumerate(_lines(window.tags)):
                style = "dim" if label == NONE_OF_THESE else "bold" if number == 0 else ""
                table.add_row(path, *span, shown(label, encoding, style), Text(score), Text(match))
                path, span = Text(), [Text()] * len(span)
    return table


def _decimals(run: TaggingRun) -> int:
    """Digits behind the seconds that tell one window from the next."""
    steps = [run.settings.get(name) or 0 for name in ("window_seconds", "stride_seconds")]
    return next((decimals for decimals in (0, 1) if all(round(step, decimals) == step for step in steps)), 2)


def _lines(tags: list[Tag]) -> Iterator[tuple[str, str, str]]:
    if not tags:
        yield NONE_OF_THESE, "", ""
    for tag in tags:
        yield tag.label, f"{tag.score:.2f}", f"{tag.match:.2f}"


def _answer(run: TaggingRun, tags: list[Tag]) -> dict[str, Any]:
    rows = [{"label": tag.label, **{name: as_number(getattr(tag, name)) for name in _NUMBERS}} for tag in tags]
    return answers("tags", rows, run.threshold)


def _srt_time(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02},{rest % 1000:03}"
