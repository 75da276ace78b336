"""What results of every kind are made of as JSON, CSV and tables: documents, failures, numbers, cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from ..results import NONE_OF_THESE, Failure
from .run import R, Run
from .text import fitting, printable, to_json

__all__ = [
    "answers", "as_number", "csv_text", "document", "failed_cell",
    "failed_row", "failure_cells", "new_table", "ranked_cells", "shown",
]  # fmt: skip

_DECIMALS = 6  # of scores; seconds get as many
FAILURE_COLUMNS = ("stage", "reason", "message")


def document(run: Run[R], rows: Iterable[dict[str, Any]]) -> str:
    """One JSON document: model, settings, counts, and the rows of the results."""
    counts = {"num_done": len(run.done), "num_failed": len(run.failed)}
    return to_json({"model": run.model, "settings": run.settings, **counts, "results": list(rows)}, indent=2)


def failed_row(path: str, failure: Failure, **more: Any) -> dict[str, Any]:
    """What failed, at which stage and why, as plain values."""
    return {
        "path": path,
        "status": "failed",
        **more,
        "stage": failure.stage,
        "reason": failure.reason,
        "message": str(failure.error),
    }


def answers(name: str, rows: list[dict[str, Any]], threshold: float | None) -> dict[str, Any]:
    """The best ones under this name; with a threshold also whether there is none."""
    return {name: rows} if threshold is None else {name: rows, "none_of_these": not rows}


def as_number(value: float) -> float:
    return round(float(value), _DECIMALS)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, those that say what failed at their end."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*columns, *FAILURE_COLUMNS])
    writer.writerows(rows)
    return out.getvalue()


def ranked_cells(ranked: Sequence[Any], names: Sequence[str], count: int) -> list[object]:
    """The best ones side by side: the text of each and its numbers, and blanks up to ``count`` of them; or that there is none."""
    cells: list[object] = []
    for one in ranked:
        text, *numbers = (getattr(one, name) for name in names)
        cells += [text, *map(as_number, numbers)]
    cells = cells or [NONE_OF_THESE]
    return cells + [""] * (count * len(names) - len(cells))


def failure_cells(failure: Failure) -> list[str]:
    """For the columns at the end of a CSV row."""
    return [failure.stage, failure.reason, printable(str(failure.error))]


def new_table(*columns: str, numbers: Sequence[str]) -> Table:
    """A table for the terminal; the columns of these names are numbers, and ``time`` and they are never broken."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        if column in numbers:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold", no_wrap=column == "time", min_width=16 if column in ("label", "option") else None)
    return table


def shown(text: str, encoding: str | None, style: str = "") -> Text:
    """A cell in characters that the terminal's ``encoding`` has."""
    return Text(fitting(printable(text), encoding), style=style)


def failed_cell(failure: Failure) -> Text:
    return Text(f"failed: {failure.reason}", style="red")
