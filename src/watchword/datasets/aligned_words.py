"""Words as captions time them beside the times at which a forced aligner, say, hears them: what the timing regressor learns from."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from ..errors import InputError
from ..files import read_text
from ..media.subtitles import Word
from ..reserve.timing import SpokenTranscript

__all__ = ["COLUMNS", "read_aligned_words"]

COLUMNS = ("word", "caption_start", "caption_end", "start", "end")


def read_aligned_words(path: Path) -> list[SpokenTranscript]:
    """The transcripts of a CSV file with a header, a word a line in the order they are spoken.

    Columns: ``word``; ``caption_start`` and ``caption_end``, seconds as captioned; ``start`` and ``end``, seconds as heard; and, if there
    are several transcripts, ``transcript``, of which equal neighbours belong together.

    Raises InputError, naming the line, for what cannot be read.
    """
    reader = csv.DictReader(io.StringIO(read_text(path, "aligned words"), newline=""))
    if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise InputError(f"{str(path)!r} has no column {missing[0]}: the first line must name the columns {', '.join(COLUMNS)}")
    transcripts: list[tuple[str, list[Word], list[tuple[float, float]]]] = []
    try:
        for row in reader:
            name = row.get("transcript") or ""
            if not transcripts or transcripts[-1][0] != name:
                transcripts.append((name, [], []))
            caption_start, caption_end, start, end = (_seconds(path, reader.line_num, row, column) for column in COLUMNS[1:])
            transcripts[-1][1].append(Word(row["word"] or "", caption_start, caption_end))
            transcripts[-1][2].append((start, end))
    except csv.Error as error:
        raise InputError(f"{str(path)!r}, line {reader.line_num}: not a CSV file ({error})") from error
    if not transcripts:
        raise InputError(f"there is no word in {str(path)!r}: write one a line, below the header")
    return [SpokenTranscript(tuple(words), tuple(spoken)) for _, words, spoken in transcripts]


def _seconds(path: Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        seconds = float(row[column])
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InputError(f"{str(path)!r}, line {line}: {column} is {row[column]!r}, but must be a number of seconds")
    return seconds
