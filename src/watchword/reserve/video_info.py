"""What the `.info.json` beside a video (yt-dlp writes it) says of it: id, title, description, tags, and a few facts.

Source: merlot-reserve-data spec sections 3 and 9; defect D4.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..text.reserve import ReserveTokenizer
from .records import RecordVideo

__all__ = ["VideoInfo", "read_info"]

_MAX_BYTES = 64 << 20
_MAX_LETTERS, _MAX_TEXTS, _MAX_NUMBER = 200, 100, 1e15
_MAX_TOKENS = 1024  # more metadata is never read, at any resolution
_FACTS: dict[str, tuple[type, ...]] = {"channel": (str,), "view_count": (int,), "average_rating": (int, float), "upload_date": (str,)}


@dataclass(frozen=True)
class VideoInfo:
    """id: of the video, None where no file says it.  facts: plain JSON values for a record's meta."""

    id: str | None
    title: str
    description: str = ""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def tokens(self, tokenizer: ReserveTokenizer, **more: Any) -> RecordVideo:
        """As a record keeps it. more: further facts."""
        title, description, tags = (
            tuple(tokenizer.encode(text, special=False)[:_MAX_TOKENS]) for text in (self.title, self.description, ", ".join(self.tags))
        )
        return RecordVideo(title, description, tags, {**self.facts, "categories": list(self.categories), **more})


def read_info(path: str | os.PathLike[str]) -> VideoInfo:
    """What is known of a video file: from `NAME.info.json` for `NAME.mp4`; without one its name is the title.

    Fields that are missing or of a wrong type count as empty. Raises InputError if the file is there, but is no JSON object.
    """
    beside = Path(path).with_suffix(".info.json")
    name = os.fsencode(Path(path).stem).decode("utf-8", "replace")
    if not beside.is_file():
        return VideoInfo(None, name)
    try:
        with beside.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        values = json.loads(data.decode("utf-8")) if len(data) <= _MAX_BYTES else None
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{str(beside)!r} cannot be read ({type(error).__name__}: {error}); put it right or take it away") from None
    facts = {key: values[key] for key, kind in _FACTS.items() if isinstance(values.get(key), kind)}
    own_id = _text(values.get("id"))
    return VideoInfo(
        id=own_id if own_id and own_id.isprintable() and len(own_id) <= _MAX_LETTERS else None,
        title=_text(values.get("title")) or name,
        description=_text(values.get("description")),
        tags=_texts(values.get("tags")),
        categories=_texts(values.get("categories")),
        facts={
            key: _text(value)[:_MAX_LETTERS] if isinstance(value, str) else value
            for key, value in facts.items()
            if isinstance(value, str) or abs(value) < _MAX_NUMBER
        },
    )


def _text(value: object) -> str:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _texts(values: object) -> tuple[str, ...]:
    found = values if isinstance(values, list) else []
    return tuple(_text(value)[:_MAX_LETTERS] for value in found if isinstance(value, str))[:_MAX_TEXTS]
