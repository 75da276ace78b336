"""``watchword ask``: a plain question about your videos, answered from your options."""

from __future__ import annotations

from pathlib import Path

import typer

from .fill import (
    AT,
    DEVICE,
    FORMAT,
    LANGUAGE,
    MODEL,
    NO_VISION,
    OPTIONS,
    PICTURE,
    PRECISION,
    QUESTIONS,
    STRICT,
    SUBTITLES,
    THRESHOLD,
    TIMING,
    TOP,
    USE,
    WINDOWS,
    Format,
    Use,
    answer,
)
from .running import Precision

__all__ = ["ask"]


def ask(
    arguments: list[str] = typer.Argument(
        None, metavar="VIDEO... QUESTION", help='Files, folders, patterns, - for a list; then a question such as "what is he doing?".'
    ),
    options: list[str] = OPTIONS,
    questions: Path | None = QUESTIONS,
    model: str | None = MODEL,
    use: Use = USE,
    subtitles: Path | None = SUBTITLES,
    language: str | None = LANGUAGE,
    timing: Path | None = TIMING,
    at: float | None = AT,
    windows: bool = WINDOWS,
    no_vision: bool = NO_VISION,
    top: int = TOP,
    threshold: float | None = THRESHOLD,
    format: Format = FORMAT,
    picture: Path | None = PICTURE,
    device: str = DEVICE,
    precision: Precision = PRECISION,
    strict: bool = STRICT,
) -> None:
    """Answer a plain question about videos from your options.

    A question in English becomes a statement with a blank by rule ("what is he doing?": "he is <mask>"), which is shown, and the options
    are tried in the blank as by fill. Of a question that no rule fits, write the statement yourself.

    Exit codes: 0 all done, 1 some videos failed or the picture could not be written, 2 wrong usage or nothing usable.
    """

    given = dict(locals())
    from ..text.questions import statement

    answer(**given, statement=statement)
