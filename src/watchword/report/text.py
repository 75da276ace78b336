"""Words and numbers fit for any output."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["clock", "duration", "fitting", "printable", "to_json"]

_STAND_INS = (
    {"–": "-", "—": "-", "−": "-", "…": "...", "±": "+/-", "×": "x", "°": " degrees"} | dict.fromkeys("‘’", "'") | dict.fromkeys("“”", '"')
)


def clock(seconds: float, *, decimals: int = 0) -> str:
    """Seconds as a person reads them: ``1:02:03``, ``2:03``, with ``decimals`` digits behind the seconds."""
    unit = 10**decimals
    ticks = round(abs(seconds) * unit)
    whole, part = divmod(ticks, unit)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return ("-" if seconds < 0 and ticks else "") + text + (f".{part:0{decimals}}" if decimals else "")


def duration(seconds: float) -> str:
    """A length of time: ``9.4 s``, ``2:03``."""
    return f"{seconds:.1f} s" if seconds < 60 else clock(seconds)


def printable(text: str) -> str:
    """The text on one line, fit for any output: control characters and half surrogates written as escapes."""
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def fitting(text: str, encoding: str | None) -> str:
    """The text in characters that an output of this encoding has: typographic signs as plain stand-ins, all others as escapes."""
    encoding = encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(
            character if character.encode(encoding, "ignore") else _STAND_INS.get(character) or _escape(character) for character in text
        )
    return text


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def to_json(values: Any, *, indent: int | None = None) -> str:
    """JSON in readable characters; in escapes where a path holds bytes that are no text."""
    text = json.dumps(values, ensure_ascii=False, indent=indent, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(values, indent=indent, allow_nan=False)
    return text
