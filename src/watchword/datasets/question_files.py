"""Files of questions about videos: CSV with a header, JSON lines, or a JSON list."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import read_text

__all__ = ["QuestionRow", "read_questions"]

_COLUMNS = ("question", "path", "options", "at")
_BETWEEN_OPTIONS = ("|", ",")  # the first of them that is there divides a cell


@dataclass(frozen=True)
class QuestionRow:
    """One question as the file has it.

    path: of its video; None if it is asked of every video.
    options: for all blanks, or a list for each; None if they are given elsewhere.
    at: seconds, or None.
    """

    question: str
    path: Path | None = None
    options: tuple[str, ...] | tuple[tuple[str, ...], ...] | None = None
    at: float | None = None


def read_questions(path: Path) -> list[QuestionRow]:
    """The questions of a file: fields ``question`` and, if wanted, ``path``, ``options`` and ``at`` (seconds).

    A path is relative to the file's own folder. Options in a CSV cell have ``|`` or else commas between them; in JSON they are a list, or
    a list of lists, one for each blank. Other columns are left alone, so that a table with notes of one's own can be used as it is.

    Raises InputError if the file cannot be read or a row cannot be used; the message names the row.
    """
    text = read_text(path, "questions")
    rows = _read_json(path, text) if text.lstrip()[:1] in ("{", "[") else _read_csv(path, text)
    if not rows:
        raise InputError(f"there is no question in {str(path)!r}: write one a line, below a header with the column question")
    return [_row(path, number, row) for number, row in enumerate(rows, start=1)]


def _read_csv(path: Path, text: str) -> list[Mapping[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        names = {name: (name or "").strip().lower() for name in reader.fieldnames or ()}
        if "question" not in names.values():
            raise InputError(f"{str(path)!r} has no column question: the first line must name columns, some of {', '.join(_COLUMNS)}")
        rows = [{names[name]: value for name, value in row.items() if name in names} for row in reader]
    except csv.Error as error:
        raise InputError(f"the questions in {str(path)!r} are no CSV: {error}") from error
    return [row for row in rows if any(row.values())]


def _read_json(path: Path, text: str) -> list[Mapping[str, Any]]:
    rows: list[Any] = []
    before = 0  # lines above what is read at once
    try:
        if text.lstrip().startswith("["):
            rows = json.loads(text)
        else:
            for before, line in enumerate(text.split("\n")):  # noqa: B007 (Unicode has other line ends, which strings may hold)
                rows += [json.loads(line)] if line.strip() else []
    except json.JSONDecodeError as error:
        place = f"line {before + error.lineno}, column {error.colno}"
        raise InputError(f"the questions in {str(path)!r} are not JSON: {error.msg} ({place})") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"the questions in {str(path)!r} are not JSON: {error}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise InputError(f"the questions in {str(path)!r} must be JSON objects with the field question")
    return list(rows)


def _row(path: Path, number: int, row: Mapping[str, Any]) -> QuestionRow:
    where = f"question {number} of {str(path)!r}"
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{where} has no text")
    video = row.get("path") or None
    if video is not None and not isinstance(video, str):
        raise InputError(f"{where}: its path must be a string")
    at = row.get("at")
    try:
        seconds = None if at in (None, "") else float(at)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    if seconds is not None and not math.isfinite(seconds):
        raise InputError(f"{where}: at is {at!r}, but must be a time in seconds")
    return QuestionRow(question.strip(), path.parent / video if video else None, _options(where, row.get("options")), seconds)


def _options(where: str, given: Any) -> tuple[str, ...] | tuple[tuple[str, ...], ...] | None:
    if given is None or given == "":
        return None
    if isinstance(given, str):
        divider = next((divider for divider in _BETWEEN_OPTIONS if divider in given), ",")
        return tuple(option.strip() for option in given.split(divider))
    if _are_strings(given):
        return tuple(given)
    if isinstance(given, list) and given and all(map(_are_strings, given)):
        return tuple(map(tuple, given))
    raise InputError(f"{where}: its options must be strings, or a list of strings for each blank")


def _are_strings(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(isinstance(value, str) for value in values)
