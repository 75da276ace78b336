"""Readers of WebVTT, SubRip and (Advanced) SubStation Alpha text, tolerant of what is found in the wild.

They are our own because nothing at hand reads dirty files. Of the 36 files in the test media, pysubs2 1.8 gives what is expected for 13 and
FFmpeg 8 for 20, in particular: cues run together where a number line or a time is odd, negative times turn positive, one bad time fails a
whole file, an ASS file without the usual columns is refused, words lose their times, and nothing is reported. The two formats with "-->"
lines share one reader: it looks for the timing lines first; what lies between two of them is text, number lines and comments.
Sources: W3C WebVTT section 6; the files of the tests.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from watchword.media.cues import Fragment, RawCue, Repair

__all__ = ["ass_lines", "is_timing_line", "read_ass", "read_cue_blocks", "strip_tags", "vtt_language", "vtt_line"]

_TIME = r"(-?)(?:([0-9]{1,6})\s?:\s?)?([0-9]{1,6})\s?:\s?([0-9]{1,3})(?:\s?[.,:]\s?([0-9]{1,9}))?"
_TIMING = re.compile(rf"\s*{_TIME}\s*(?:-{{1,2}}|[–—−])\s?>\s*{_TIME}(?:[\s,].*)?")
# No pattern may scan ahead over what can start it again: a hostile file would take time with the square of its length.
_VTT_STAMP = re.compile(r"<((?:[0-9]{1,6}:)?[0-9]{1,2}:[0-9]{1,2}[.,][0-9]{1,6})>")
_VTT_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?\s([^<>]+)>", re.IGNORECASE)
_VTT_TAG = re.compile(r"</?[A-Za-z][^<>]*>|</>")
_VTT_COMMENT = re.compile(r"NOTE\b|STYLE\b|REGION\b|##|::cue")
_SRT_TAG = re.compile(r"</?(?:b|i|u|s|em|strong|font|c|v|lang|ruby|rt|span|br)\b[^<>]*>|\{\\[^{}]*\}", re.IGNORECASE)
_SRT_NUMBER = re.compile(r"\s*[0-9]+\s*")
_ASS_BLOCK = re.compile(r"\{([^{}]*)\}")
_ASS_KARAOKE = re.compile(r"\\[kK][fo]?([0-9]{1,9})")
_ASS_DRAWING = re.compile(r"\\p([0-9])")
_ASS_COLUMNS = ["layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect", "text"]


def is_timing_line(line: str) -> bool:
    """Whether the line reads `time --> time`, in any of the spellings that are accepted."""
    return _TIMING.fullmatch(line) is not None


def read_cue_blocks(text: str, *, vtt: bool, report: list[Repair], keep_tags: bool = False) -> Iterator[RawCue]:
    """Cues of WebVTT (`vtt`) or SubRip text. keep_tags: SubRip's tags and entities stay as they are written."""
    lines = text.split("\n")
    find_body = _vtt_body if vtt else _srt_body
    timings = [n for n, line in enumerate(lines) if is_timing_line(line) or _is_broken_timing(line)]
    for n, until in zip(timings, [*timings[1:], len(lines)], strict=True):
        body = [lines[i] for i in find_body(lines, n + 1, until, report)]
        match = _TIMING.fullmatch(lines[n])
        if match is None:
            report.append(Repair("unreadable time", "cue dropped", n + 1))
            continue
        groups = match.groups()
        voices = tuple(name.strip() for line in body for name in _VTT_VOICE.findall(line))
        fragments = [vtt_line(line) if vtt else _srt_line(line, keep_tags) for line in body]
        yield RawCue(_seconds(*groups[:5]), _seconds(*groups[5:]), fragments, n + 1, voices)


def vtt_line(line: str) -> list[Fragment]:
    """One line of WebVTT text as fragments: split at inline times, tags removed, entities decoded."""
    first, *rest = _VTT_STAMP.split(line)
    fragments: list[Fragment] = [(None, strip_tags(first))]
    for stamp, text in zip(rest[::2], rest[1::2], strict=True):
        *hours, minutes, seconds = stamp.replace(",", ".").split(":")
        whole, fraction = seconds.split(".")
        fragments.append((_seconds("", hours[0] if hours else None, minutes, whole, fraction), strip_tags(text)))
    return fragments


def _srt_line(line: str, keep_tags: bool) -> list[Fragment]:
    return [(None, line if keep_tags else html.unescape(_SRT_TAG.sub("", line)))]


def strip_tags(text: str) -> str:
    """Remove `<tags>`, then decode entities (`&lt;` is text, not a tag)."""
    return html.unescape(_VTT_TAG.sub("", text))


def vtt_language(text: str) -> str | None:
    """What the header of a WebVTT file states as its language."""
    match = re.search(r"^Language:[ \t]*([\w-]+)", text.split("-->", 1)[0], re.MULTILINE)
    return match[1] if match else None


def _is_broken_timing(line: str) -> bool:
    left, arrow, right = line.partition("-->")
    return bool(arrow) and re.search("[0-9]:[0-9]", left + " " + right) is not None


def _seconds(sign: str, hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    nanoseconds = (int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)) * 10**9 + int((fraction or "0").ljust(9, "0"))
    return (-nanoseconds if sign else nanoseconds) / 10**9


def _paragraphs(empty: Sequence[bool], start: int) -> list[list[int]]:
    """Numbers of the lines that are not empty, those without an empty line between them together. Counting begins at `start`."""
    paragraphs: list[list[int]] = []
    for n, is_empty in enumerate(empty, start):
        if not is_empty and paragraphs and paragraphs[-1][-1] == n - 1:
            paragraphs[-1].append(n)
        elif not is_empty:
            paragraphs.append([n])
    return paragraphs


def _vtt_body(lines: Sequence[str], start: int, stop: int, report: list[Repair]) -> list[int]:
    """The lines of a WebVTT cue's text between its timing line and the next.

    A line with a space is not empty: YouTube's files rely on it. Where an editor has stripped that space, inline times give the text away.
    """
    paragraphs = _paragraphs([line == "" for line in lines[start:stop]], start)
    has_text = bool(paragraphs) and (paragraphs[0][0] == start or any(_VTT_STAMP.search(lines[n]) for n in paragraphs[0]))
    body = paragraphs.pop(0) if has_text else []
    if paragraphs and stop < len(lines) and paragraphs[-1][-1] == stop - 1:
        paragraphs.pop()  # the next cue's identifier
    for paragraph in paragraphs:
        if not any(_VTT_COMMENT.match(lines[n]) for n in paragraph) and any(lines[n].strip() for n in paragraph):
            report.append(Repair("text without a time", "ignored", paragraph[0] + 1))
    return body


def _srt_body(lines: Sequence[str], start: int, stop: int, report: list[Repair]) -> list[int]:
    """The lines of a SubRip cue's text between its timing line and the next: also what follows an empty line, if no number leads it."""
    if start < stop < len(lines) and _SRT_NUMBER.fullmatch(lines[stop - 1]):
        stop -= 1  # the next cue's number
    body: list[int] = []
    for paragraph in _paragraphs([not line.strip() for line in lines[start:stop]], start):
        if paragraph[0] != start and _SRT_NUMBER.fullmatch(lines[paragraph[0]]):
            report.append(Repair("number and no time", "cue dropped", paragraph[0] + 1))
            continue
        if body:
            report.append(Repair("empty line within a cue", "text after it kept", paragraph[0] + 1))
        body += paragraph
    return body


def read_ass(text: str, report: list[Repair]) -> Iterator[RawCue]:
    """Cues of SSA or ASS text: its `Dialogue:` lines, columns as the `Format:` line of the events says."""
    columns = _ASS_COLUMNS
    for number, line in enumerate(text.split("\n"), 1):
        key, _, value = line.partition(":")
        if key.strip().lower() == "format":
            named = [name.strip().lower() for name in value.split(",")]
            columns = named if {"start", "end", "text"} <= set(named) else columns
        if key.strip().lower() != "dialogue":
            continue
        values = dict(zip(columns, value.split(",", len(columns) - 1), strict=False))
        times = [re.fullmatch(rf"\s*{_TIME}\s*", values.get(name, "")) for name in ("start", "end")]
        if times[0] is None or times[1] is None or "text" not in values:
            report.append(Repair("unreadable time", "cue dropped", number))
            continue
        start, end = (_seconds(*match.groups()) for match in times if match)
        voice = (values.get("name") or values.get("actor") or "").strip()
        yield RawCue(start, end, ass_lines(values["text"], start), number, (voice,) if voice else ())


def ass_lines(text: str, start: float) -> list[list[Fragment]]:
    """The text of an ASS event as lines of fragments: override blocks and drawings removed, karaoke syllables timed from `start`."""
    first, *rest = _ASS_BLOCK.split(text)
    fragments: list[Fragment] = [(None, first)]
    centiseconds, duration, is_drawing = 0, 0, False
    for block, piece in zip(rest[::2], rest[1::2], strict=True):
        durations = [int(match) for match in _ASS_KARAOKE.findall(block)]
        for upcoming in durations:
            centiseconds, duration = centiseconds + duration, upcoming
        for scale in _ASS_DRAWING.findall(block):
            is_drawing = scale != "0"
        if not is_drawing:
            fragments.append((start + centiseconds / 100 if durations else None, piece))
    lines: list[list[Fragment]] = [[]]
    for stamp, piece in fragments:
        for i, part in enumerate(re.split(r"\\[nN]", piece)):
            if i:
                lines.append([])
            lines[-1].append((None if i else stamp, part.replace("\\h", " ")))
    return lines
