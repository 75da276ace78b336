"""Text files to the stretches of web text that records carry. Source: merlot-reserve-data spec section 10."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..files import replacing
from ..text.reserve import default_tokenizer
from ..text.web import clean_document
from .draws import record_draws
from .packing import pack_documents

__all__ = ["check_texts", "find_texts", "open_stretches", "read_documents", "write_stretches"]

_LINES = ".jsonl"
_ENDINGS = (".txt", _LINES)
_MAX_DOCUMENT_BYTES = 256 << 20


def find_texts(path: str | os.PathLike[str]) -> list[Path]:
    """The .txt and .jsonl files of a folder and of those in it, in order of their names; a file is taken whatever it is called.

    Raises InputError if there is none.
    """
    place = Path(path)
    if place.is_file():
        return [place]
    found = sorted(inside for inside in place.rglob("*") if inside.suffix.lower() in _ENDINGS and inside.is_file())
    if not found:
        raise InputError(f"no text in {str(path)!r}: give a file or a folder with .txt files or .jsonl files with a `text` field")
    return found


def read_documents(path: Path) -> Iterator[str]:
    """The documents of one file: a .jsonl has one a line, in its field `text`; any other file is one. UTF-8; wrong bytes are replaced.

    Raises InputError for a line without a text, or one (or a file) of more than 256 MB.
    """
    try:
        with path.open("rb") as file:
            if path.suffix.lower() != _LINES:
                yield _decoded(file.read(_MAX_DOCUMENT_BYTES + 1), f"{str(path)!r}")
                return
            number = 0
            while line := file.readline(_MAX_DOCUMENT_BYTES + 1):
                number += 1
                if line.strip():
                    yield _text_of(_decoded(line, f"{str(path)!r}, line {number}"), f"{str(path)!r}, line {number}")
    except OSError as error:
        raise InputError(f"the text {str(path)!r} cannot be read: {error.strerror}") from None


def check_texts(files: Sequence[Path]) -> None:
    """Raise InputError now, not after the videos, if the first line of a .jsonl file has no text."""
    for path in files:
        if path.suffix.lower() == _LINES:
            next(read_documents(path), None)


def _decoded(data: bytes, where: str) -> str:
    if len(data) > _MAX_DOCUMENT_BYTES:
        raise InputError(f"{where}: a document of more than {_MAX_DOCUMENT_BYTES >> 20} MB; cut it into smaller ones")
    return data.decode("utf-8-sig", "replace")


def _text_of(line: str, where: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise InputError(f'{where}: not a JSON object with a text, such as {{"text": "..."}}; put it right or take it out')
    return text


def write_stretches(files: Sequence[Path], path: Path, count: int, *, length: int, seed: int) -> int:
    """Write the first `count` stretches of the files' documents, cleaned and packed, to one file; how many there were.

    Half of the documents, by lot, have their numbers in words.
    """

    def documents() -> Iterator[str]:
        for number, file in enumerate(files):
            for place, text in enumerate(read_documents(file)):
                spell = record_draws(seed, 0, f"text {number} {place}").coin("spell_numbers")
                yield clean_document(text, spell_numbers=spell)

    written = 0
    with replacing(path) as beside, beside.open("wb") as out:
        for stretch in islice(pack_documents(documents(), default_tokenizer(), length=length), count):
            out.write(stretch.astype("<i4").tobytes())
            written += 1
    return written


def open_stretches(path: Path, length: int) -> npt.NDArray[np.int32]:
    """int32 (stretches, length): what `write_stretches` wrote, read where it is asked for."""
    if not path.stat().st_size:
        return np.empty((0, length), np.int32)
    return np.memmap(path, "<i4", "r").reshape(-1, length)
