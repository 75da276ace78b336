"""A tagging run as JSON, JSON lines, CSV, subtitles, or a table for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from ..results import NONE_OF_THESE
from ..xclip.tagging import ClipResult, Tag
from .run import TaggingRun
from .text import clock, fitting, printable, to_json

__all__ = ["as_csv", "as_json", "as_srt", "as_table", "result_row"]

_DECIMALS = 6  # of scores; seconds get as many


def as_json(run: TaggingRun) -> str:
    """One document: model, settings, counts, and a row for each input."""
    return to_json(
        {
            "model": run.model,
            "settings": run.settings,
            "num_done": len(run.done),
            "num_failed": len(run.failed),
            "results": [result_row(run, result) for result in run.results],
        },
        indent=2,
    )


def result_row(run: TaggingRun, result: ClipResult) -> dict[str, Any]:
    """One input as plain values: its tags, or the stage at which it failed and why."""
    if result.failure:
        failure = result.failure
        reason = {"stage": failure.stage, "reason": failure.reason, "message": str(failure.error)}
        return {"path": result.path, "status": "failed", **reason}
    start, end = result.spans[0, 0], result.spans[-1, 1]
    row: dict[str, Any] = {"path": result.path, "status": "done", "start_seconds": _number(start), "end_seconds": _number(end)}
    row |= _answer(run, run.tags(result))
    if run.windowed:
        row["windows"] = [
            {"start_seconds": _number(window.start_seconds), "end_seconds": _number(window.end_seconds), **_answer(run, window.tags)}
            for window in run.windows(result)
        ]
    return row | {"warnings": list(result.warnings)}


def as_csv(run: TaggingRun) -> str:
    """A row for each input, or for each window: the best labels side by side, then what failed."""
    numbers = ("score", "match", "similarity")
    num_labels = min(run.top, max((len(result.labels) for result in run.done), default=1))
    columns = [f"{name}_{place}" for place in range(1, num_labels + 1) for name in ("label", *numbers)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(["path", "status", "start_seconds", "end_seconds", *columns, "stage", "reason", "message"])
    for result in run.results:
        if result.failure:
            failure = result.failure
            blank = [""] * (2 + len(columns))
            writer.writerow([result.path, "failed", *blank, failure.stage, failure.reason, printable(str(failure.error))])
        for window in [] if result.failure else run.windows(result):
            cells = [cell for tag in window.tags for cell in (tag.label, *(_number(getattr(tag, name)) for name in numbers))]
            cells = cells or [NONE_OF_THESE]
            cells += [""] * (len(columns) - len(cells))
            times = [_number(window.start_seconds), _number(window.end_seconds)]
            writer.writerow([result.path, "done", *times, *cells, "", "", ""])
    return out.getvalue()


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

    def shown(text: str, style: str = "") -> Text:
        return Text(fitting(printable(text), encoding), style=style)

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("file", overflow="fold")
    if run.windowed:
        table.add_column("time", no_wrap=True)
    table.add_column("label", overflow="fold", min_width=16)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("match", justify="right", no_wrap=True)
    for result in run.results:
        path = shown(result.path)
        if result.failure:
            cells = [Text(f"failed: {result.failure.reason}", style="red"), Text(), Text()]
            table.add_row(path, *([Text()] if run.windowed else []), *cells)
        for window in [] if result.failure else run.windows(result):
            times = [clock(time, decimals=_decimals(run)) for time in (window.start_seconds, window.end_seconds)]
            span = [shown("–".join(times))] if run.windowed else []
            for number, (label, score, match) in enumerate(_lines(window.tags)):
                style = "dim" if label == NONE_OF_THESE else "bold" if number == 0 else ""
                table.add_row(path, *span, shown(label, style), Text(score), Text(match))
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
    rows = [
        {"label": tag.label, "score": _number(tag.score), "match": _number(tag.match), "similarity": _number(tag.similarity)}
        for tag in tags
    ]
    return {"tags": rows} if run.threshold is None else {"tags": rows, "none_of_these": not rows}


def _number(value: float) -> float:
    return round(float(value), _DECIMALS)


def _srt_time(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    hours, rest = divmod(milliseconds, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02},{rest % 1000:03}"
