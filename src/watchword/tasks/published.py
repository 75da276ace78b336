"""Reading the files that data sets publish: every error names the file and the row."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConfigError

__all__ = ["find_published", "read_json_list", "read_table", "text_field", "whole_field"]


def find_published(folder: Path, *names: str) -> Path:
    """The file of the first of these names (``*`` stands for anything) that is in the folder or below it, the one that lies highest.

    Raises ConfigError if there is none, or several lie as high.
    """
    for name in names:
        if found := sorted(folder.glob(f"**/{name}"), key=lambda path: (len(path.parts), path)):
            if len(found) > 1 and len(found[1].parts) == len(found[0].parts):
                raise ConfigError(f"{folder}: which of {found[0].relative_to(folder)} and {found[1].relative_to(folder)}? keep one of them")
            return found[0]
    raise ConfigError(f"{folder}: no {' or '.join(names)} in it")


def read_json_list(folder: Path, *names: str) -> tuple[Path, list[Mapping[str, Any]]]:
    """The file and what it lists: objects, in a JSON list, or one a line."""
    path = find_published(folder, *names)
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error})") from error
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise ConfigError(f"{path}: must list objects")
    return path, rows


def read_table(folder: Path, *names: str, needed: Sequence[str], delimiter: str = ",") -> tuple[Path, list[dict[str, str]]]:
    """The file and its rows by the columns of its first line. ConfigError if one of ``needed`` is no column, or a row is too short."""
    path = find_published(folder, *names)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: no table ({error})") from error
    for number, row in enumerate(rows, start=2):
        for column in needed:
            if row.get(column) is None:
                what = f"has no column {column!r}" if column not in row else f"line {number} ends before its column {column!r}"
                raise ConfigError(f"{path}: {what}")
    return path, rows


def text_field(row: Mapping[str, Any], key: str, where: str) -> str:
    """A text that is not empty. ConfigError that says where, if it is none."""
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key} is {value!r}, but must be a text")
    return value


def whole_field(row: Mapping[str, Any], key: str, where: str) -> int:
    """A whole number, written as one or as text. ConfigError that says where, if it is none."""
    try:
        return int(row[key])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {key} is {row.get(key)!r}, but must be a whole number") from error
