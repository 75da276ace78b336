"""Lists of labels: the shipped class names, files of one label a line, and words given on the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from ..errors import LabelError
from ..files import read_text

__all__ = ["LABEL_LISTS", "LabelList", "load_labels", "named_labels", "readable", "same_name"]

LABEL_LISTS = ("kinetics400", "kinetics600", "hmdb51", "ucf101", "playground")
"""The lists that come with the package. ``-raw`` behind a name gives its names as the data set spells them."""

RAW_SUFFIX = "-raw"
_WORDS_ALREADY = ("kinetics400", "kinetics600")
_FILE_SUFFIXES = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".md", ".xlsx")  # no label ends so
_NAME_COLUMNS = ("name", "label")
# Words of HMDB-51 and UCF-101 that no capital and no underscore divides.
_RUN_TOGETHER = {
    "pullup": "pull up",
    "pushup": "push up",
    "pushups": "push ups",
    "situp": "sit up",
    "shotput": "shot put",
    "skijet": "ski jet",
}


@dataclass(frozen=True)
class LabelList:
    """Labels and where they came from, in words that a result can carry."""

    labels: tuple[str, ...]
    source: str


def readable(name: str) -> str:
    """A data set's class name as words: ``ApplyEyeMakeup`` -> ``apply eye makeup``, ``brush_hair`` -> ``brush hair``.

    A name of several words is given back as it is.
    """
    if " " in name.strip():
        return name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.replace("_", " "))
    return " ".join(_RUN_TOGETHER.get(word, word) for word in words.lower().split())


def same_name(name: str) -> str:
    """What all spellings of a class name share: ``brush_hair``, ``BrushHair`` and ``brush hair`` give the same text."""
    return " ".join(map(readable, readable(name).split())).casefold()


def named_labels(name: str) -> LabelList:
    """A shipped list. Names that a data set runs together come as words, or with ``-raw`` as the authors of X-CLIP spell them.

    The published numbers of X-CLIP were made with the raw names (spec section 4). For Kinetics the two are the same.

    Raises:
        LabelError: no list has this name.
    """
    base = name.removesuffix(RAW_SUFFIX)
    if base not in LABEL_LISTS:
        raise LabelError(f"no label list is called {name!r}: choose one of {', '.join(LABEL_LISTS)}")
    if base == "playground":
        from ..playground import PHRASES

        return LabelList(PHRASES, base)
    text = resources.files(__package__).joinpath("labels", f"{base}.csv").read_text(encoding="utf-8")
    raw = tuple(row["name"] for row in csv.DictReader(io.StringIO(text)))
    if base in _WORDS_ALREADY:
        return LabelList(raw, base)
    words = tuple(readable(label) for label in raw)
    return LabelList(raw, f"{base} (raw names)") if name != base else LabelList(words, f"{base} (names split into words)")


def load_labels(given: str) -> LabelList:
    """What ``--labels`` takes: the name of a shipped list, a file, or labels separated by commas, in this order. Labels are given back as
    they stand there: ``watchword.text.labels.clean_labels`` checks them.

    A file has one label a line (empty lines and lines that start with ``#`` do not count), or is a CSV whose header has a
    ``name`` or ``label`` column, or in a ``.json`` file a list of strings. A label that holds a comma or, alone, a slash goes in a file.

    Raises:
        LabelError: what looks like a path (no comma and a slash, or the ending of a file) leads to no file or to a folder; the file is
            unreadable or holds no label; or a word with a number is nearly a list's name.
    """
    if given.removesuffix(RAW_SUFFIX) in LABEL_LISTS:
        return named_labels(given)
    path = Path(given)
    is_folder, is_other = _what_is_at(path)
    if is_other:  # a file, or the pipe of a shell's <(...)
        return LabelList(tuple(_read(path)), str(path))
    if is_folder and given.strip() and "," not in given:
        raise LabelError(f"{given!r} is a folder: give a file of labels in it; a label of this name goes in a file")
    if path.suffix.lower() in _FILE_SUFFIXES or ("," not in given and any(separator in given for separator in "/\\")):
        choices = f"give a file, one of {', '.join(LABEL_LISTS)}, or labels with commas"
        raise LabelError(f"no file of labels at {given!r}: {choices}; one label with a slash goes in a file")
    if near := any(map(str.isdigit, given)) and " " not in given and get_close_matches(given.lower(), LABEL_LISTS, n=1, cutoff=0.75):
        raise LabelError(f"no label list is called {given!r}; near it: {near[0]}; one label of your own goes in a file")
    return LabelList(tuple(label.strip() for label in given.split(",")), "own words")


def _what_is_at(path: Path) -> tuple[bool, bool]:
    """Whether there is a folder at the path, and whether something else."""
    try:
        return path.is_dir(), path.exists() and not path.is_dir()
    except OSError:  # a long list of labels is no valid file name
        return False, False


def _read(path: Path) -> list[str]:
    text = read_text(path, "labels", error=LabelError)
    if path.suffix.lower() == ".json":
        return _read_json(path, text)
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    column = _name_column(lines[0]) if lines else None
    if column is not None:
        lines = _read_column(path, lines, column)
    if not lines:
        raise LabelError(f"there is no label in {str(path)!r}: write one a line")
    return [line.strip() for line in lines]


def _read_json(path: Path, text: str) -> list[str]:
    try:
        labels = json.loads(text)
    except ValueError as error:
        raise LabelError(f"the labels in {str(path)!r} are not JSON: {error}") from error
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise LabelError(f"{str(path)!r} must hold a JSON list of strings, the labels")
    return labels


def _name_column(header: str) -> int | None:
    """Index of the column that holds the labels if the line is a CSV header with one, such as ``id,name``."""
    names = [name.strip().lower() for name in header.split(",")]
    return next((names.index(name) for name in _NAME_COLUMNS if name in names), None) if len(names) > 1 else None


def _read_column(path: Path, lines: list[str], column: int) -> list[str]:
    rows = list(csv.reader(lines))[1:]
    for number, row in enumerate(rows, start=1):
        if len(row) <= column:
            raise LabelError(f"row {number} of {str(path)!r} has {len(row)} columns, but labels are in column {column + 1}")
    return [row[column] for row in rows]
