"""Readers of the caption formats that YouTube serves beside WebVTT: json3, and the XML of `timedtext` (srv1, srv3)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeGuard
from xml.etree import ElementTree

from watchword.media.cues import Fragment, RawCue, Repair
from watchword.media.timed_text import strip_tags

__all__ = ["read_json3", "read_xml"]


def read_json3(text: str, report: list[Repair]) -> Iterator[RawCue]:
    """Cues of YouTube's json3: events with segments; a segment starts `tOffsetMs` after its event, lines overlap on screen.

    The last word of an event ends when the next event begins. Raises ValueError if the text is not of this format.
    """
    try:
        events = json.loads(text)["events"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("not JSON with a list of events") from None
    if not isinstance(events, list):
        raise ValueError("not JSON with a list of events")
    yield from _cues([event for event in events if isinstance(event, dict)], report)


def read_xml(text: str, report: list[Repair]) -> tuple[str, list[RawCue]]:
    """(format, cues) of YouTube's XML: "srv1" (`<text start dur>`, seconds) or "srv3" (`<p t d><s t>`, milliseconds).

    Raises ValueError if it is neither, or no XML. Document types are refused: they can expand without bound.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("XML with a document type, which captions do not have")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"broken XML: {error}") from None
    if root.tag == "transcript":
        events = [
            {
                "tStartMs": _milliseconds(node.get("start"), 1000),
                "dDurationMs": _milliseconds(node.get("dur", "0"), 1000),
                "segs": [{"utf8": strip_tags("".join(node.itertext()))}],
            }
            for node in root.iter("text")
        ]
        return "srv1", list(_cues(events, report))
    if root.tag == "timedtext":
        return "srv3", list(_cues([_srv3_event(node) for node in root.iter("p")], report))
    raise ValueError(f"XML with root element {root.tag[:40]!r}, not YouTube's transcript or timedtext")


def _srv3_event(node: ElementTree.Element) -> dict[str, Any]:
    segments: list[dict[str, Any]] = [{"utf8": node.text or ""}]
    for part in node.iter("s"):
        segments.append({"utf8": "".join(part.itertext()), "tOffsetMs": _milliseconds(part.get("t", "0"))})
    return {
        "tStartMs": _milliseconds(node.get("t")),
        "dDurationMs": _milliseconds(node.get("d", "0")),
        "aAppend": node.get("a"),
        "segs": [segment for segment in segments if segment["utf8"]],
    }


def _milliseconds(value: str | None, scale: int = 1) -> float | None:
    if value is None or not re.fullmatch(r"\s*-?[0-9]{1,12}(\.[0-9]*)?\s*", value):
        return None
    return round(float(value) * scale, 3)


def _cues(events: list[dict[str, Any]], report: list[Repair]) -> Iterator[RawCue]:
    """Cues of events that have text. A line break of its own (`aAppend`) ends the last word before it and is no cue."""
    starts = [event.get("tStartMs") for event in events]
    for number, event in enumerate(events):
        segments = event.get("segs")
        if not isinstance(segments, list):
            continue
        segments = [segment for segment in segments if isinstance(segment, dict) and isinstance(segment.get("utf8"), str)]
        start, duration = starts[number], event.get("dDurationMs", 0)
        if event.get("aAppend") and not "".join(segment["utf8"] for segment in segments).strip():
            continue
        if not (_is_number(start) and _is_number(duration)):
            report.append(Repair(f"event {number + 1} without a time", "dropped"))
            continue
        later = starts[number + 1] if number + 1 < len(starts) else None
        stop = min(start + duration, later) if _is_number(later) and later > start else start + duration
        has_offsets = any(_is_number(segment.get("tOffsetMs")) for segment in segments)
        fragments: list[Fragment] = []
        for segment in segments:
            offset = segment.get("tOffsetMs", 0)
            fragments.append(((start + offset) / 1000 if has_offsets and _is_number(offset) else None, segment["utf8"]))
        yield RawCue(start / 1000, (start + duration) / 1000, _lines(fragments), speech_end=stop / 1000)


def _lines(fragments: list[Fragment]) -> list[list[Fragment]]:
    lines: list[list[Fragment]] = [[]]
    for stamp, text in fragments:
        for i, part in enumerate(text.split("\n")):
            if i:
                lines.append([])
            lines[-1].append((None if i else stamp, part))
    return lines


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e12
