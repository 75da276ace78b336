"""Filled blanks as JSON, JSON lines, CSV, or a table for the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from ..reserve.answers import Answer, FilledWindow, FillResult
from ..results import NONE_OF_THESE
from .rows import answers, as_number, csv_text, document, failed_cell, failed_row, failure_cells, new_table, ranked_cells, shown
from .run import FillingRun
from .text import clock

__all__ = ["as_csv", "as_json", "as_table", "result_row"]

_NUMBERS = ("probability", "cosine")


def as_json(run: FillingRun) -> str:
    """One document: model, settings, counts, and a row for each video and question."""
    return document(run, (result_row(run, result) for result in run.results))


def result_row(run: FillingRun, result: FillResult) -> dict[str, Any]:
    """One video and question as plain values: the options of each blank, or the stage at which it failed and why."""
    asked = {"question": result.question, **({"asked": result.asked} if result.asked else {})}
    if result.failure:
        return failed_row(result.path, result.failure, **asked)
    row = {"path": result.path, "status": "done", **asked, **_window_row(run, result.whole(top=run.top, threshold=run.threshold))}
    if len(result.spans) > 1:  # it stood on a place in each
        del row["question_seconds"]
    if run.windowed:
        row["windows"] = [_window_row(run, window) for window in run.windows(result)]
    return row | {"used": list(result.used), "warnings": list(result.warnings)}


def as_csv(run: FillingRun) -> str:
    """A row for each video, question and blank, or for each window of them: the best options side by side, then what failed."""
    most = max((len(options) for result in run.done for options in result.options), default=1)
    num_options = min(run.top, most)
    columns = [f"{name}_{place}" for place in range(1, num_options + 1) for name in ("option", *_NUMBERS)]
    with_asked = any(result.asked for result in run.results)
    rows: list[list[object]] = []
    for result in run.results:
        asked = [result.asked, result.question] if with_asked else [result.question]
        if result.failure:
            blank = [""] * (3 + len(columns))
            rows.append([result.path, "failed", *asked, *blank, *failure_cells(result.failure)])
        for window in [] if result.failure else run.windows(result):
            times = [as_number(window.start_seconds), as_number(window.end_seconds)]
            for number, ranked in enumerate(window.blanks, start=1):
                cells = ranked_cells(ranked, ("option", *_NUMBERS), num_options)
                rows.append([result.path, "done", *asked, number, *times, *cells, "", "", ""])
    names = ["asked", "question"] if with_asked else ["question"]
    return csv_text(["path", "status", *names, "blank", "start_seconds", "end_seconds", *columns], rows)


def as_table(run: FillingRun, *, encoding: str | None = None) -> Table:
    """A table for the terminal: one line an option, in characters that its ``encoding`` has.

    Columns for the question, the blank and the time are there where they tell lines apart.
    """
    told_apart = {"file": True, "question": run.num_questions > 1, "blank": run.num_blanks > 1, "time": run.windowed}
    table = new_table(*(name for name, is_there in told_apart.items() if is_there), "option", *_NUMBERS, numbers=("blank", *_NUMBERS))
    for result in run.results:
        cells = {"file": result.path, "question": result.question, "blank": "", "time": ""}

        def line(*rest: Text, cells: dict[str, str] = cells) -> None:
            table.add_row(*(shown(cells[name], encoding) for name, is_there in told_apart.items() if is_there), *rest)
            cells |= dict.fromkeys(cells, "")  # said once

        if result.failure:
            line(failed_cell(result.failure), Text(), Text())
        for window in [] if result.failure else run.windows(result):
            cells["time"] = "–".join(clock(time) for time in (window.start_seconds, window.end_seconds))
            for number, ranked in enumerate(window.blanks, start=1):
                cells["blank"] = str(number)
                for place, answer in enumerate(ranked):
                    style = "bold" if place == 0 else ""
                    line(shown(answer.option, encoding, style), Text(f"{answer.probability:.2f}"), Text(f"{answer.cosine:.3f}"))
                if not ranked:
                    line(Text(NONE_OF_THESE, style="dim"), Text(), Text())
    return table


def _window_row(run: FillingRun, window: FilledWindow) -> dict[str, Any]:
    return {
        "start_seconds": as_number(window.start_seconds),
        "end_seconds": as_number(window.end_seconds),
        "question_seconds": [as_number(time) for time in window.place],
        "blanks": [answers("options", [_option_row(answer) for answer in ranked], run.threshold) for ranked in window.blanks],
    }


def _option_row(answer: Answer) -> dict[str, Any]:
    return {"option": answer.option, **{name: as_number(getattr(answer, name)) for name in _NUMBERS}}
