"""Which stretches of a video become segments: evenly for answering, by the words spoken for learning. Times only, no files.

Source: merlot-reserve-data spec sections 6, 15 and 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import InputError
from ..media.subtitles import Word

__all__ = [
    "SEGMENT_SECONDS",
    "TAIL_SECONDS",
    "WINDOW_SEGMENTS",
    "Section",
    "Span",
    "centred_spans",
    "even_spans",
    "released_spans",
    "sections",
    "spans_before",
    "windows",
]

SEGMENT_SECONDS = 5.0
WINDOW_SEGMENTS = 8
"""Most segments that the model sees at once."""

MAX_SPEED = 3
_FEW_WORDS, _MANY_WORDS = 8, 16
_NO_MERGE_ABOVE = 0.9
TAIL_SECONDS = 1.0
"""A rest shorter than this makes no segment of its own."""


@dataclass(frozen=True)
class Span:
    """A stretch of a video. start, end: seconds. middle: of what is there of it; there the frame is taken."""

    start: float
    end: float

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Section:
    """A segment to learn from: `span` of the video, played `speed` times faster, with the words of numbers `rows`."""

    span: Span
    speed: int
    rows: tuple[int, ...]

    def relative(self, words: Sequence[Word]) -> list[tuple[float, float]]:
        """(start, end) of its words in seconds since its start, in the sped-up clock; they may lie a little outside 0 to 5."""
        since = self.span.start
        return [((words[row].start - since) / self.speed, (words[row].end - since) / self.speed) for row in self.rows]


def sections(words: Sequence[Word], duration: float, draw: Callable[[], float]) -> list[Section]:
    """Cut a video into segments by its words (corrected times, in order), as for pretraining.

    A stretch with few words is mostly joined with the next, at most twice, and then played two or three times faster. Stretches without
    words are kept; what comes after the last word is not covered.

    duration: of the video in seconds.  draw: gives uniform numbers from 0 to 1: one for where the first segment starts, then one for
    each time that joining is possible.

    Raises InputError for times that are not finite.
    """
    centres = np.array([(word.start + word.end) / 2 for word in words], np.float64)
    if not (np.isfinite(centres).all() and np.isfinite(duration)):
        raise InputError("word times and duration must be finite numbers of seconds; check the captions")
    if not words:
        return []
    last = duration - 1
    start = round(max(words[0].start - 0.5 * draw() * SEGMENT_SECONDS, 0.0), 2)
    found: list[Section] = []
    first_row = 0
    while first_row < len(words) and start + SEGMENT_SECONDS <= last:
        speed, end, rows = 0, start, np.empty(0, np.int64)
        for speed in range(1, MAX_SPEED + 1):
            end = start + SEGMENT_SECONDS * speed
            rows = np.flatnonzero(centres[first_row:] < end) + first_row
            after = end + SEGMENT_SECONDS
            if len(rows) >= _FEW_WORDS or after > last or np.count_nonzero(centres[first_row:] < after) >= _MANY_WORDS:
                break
            if draw() > _NO_MERGE_ABOVE:
                break
        end = round(end, 2)
        found.append(Section(Span(start, end), speed, tuple(rows.tolist())))
        start = end
        first_row = int(rows[-1]) + 1 if len(rows) else first_row
    return found


def even_spans(start: float, end: float, *, interval: float = SEGMENT_SECONDS, limit: int | None = None) -> list[Span]:
    """Spans of `interval` seconds that cover a video from `start` to `end`; the last one is shorter.

    A rest of less than a second is left out, unless it is all there is. limit: most spans. Raises InputError for times out of order.
    """
    _check(start, end, interval, limit)
    count = max(int((end - start) / interval + 1e-9), 0)
    spans = [Span(start + i * interval, start + (i + 1) * interval) for i in range(count)]
    rest = spans[-1].end if spans else start
    if not spans or end - rest >= TAIL_SECONDS:
        spans.append(Span(rest, max(end, rest)))
    return spans[:limit]


def released_spans(sound_seconds: float, *, start: float = 0.0, interval: float = SEGMENT_SECONDS, limit: int | None = None) -> list[Span]:
    """The spans of the released demo: whole ones only, and none in the last second of the sound (so none of exactly 6 s, defect D14).

    Raises InputError for less than 6 s, as there.
    """
    _check(start, sound_seconds + start, interval, limit)
    until = sound_seconds - 1
    if until < interval:
        raise InputError(f"{sound_seconds:g} s of sound; the released demo needs {interval + 1:g} s; leave out `released`")
    spans: list[Span] = []
    while start + interval < until and (limit is None or len(spans) < limit):
        spans.append(Span(start, start + interval))
        start += interval
    return spans


def centred_spans(duration: float, seconds: float = 3.0) -> list[Span]:
    """As many spans of `seconds` as fit, in the middle of a video (MSR-VTT question answering)."""
    _check(0.0, duration, seconds, None)
    count = int(duration // seconds)
    start = round((duration - seconds * count) / 2, 2)
    spans = []
    for _ in range(count):
        spans.append(Span(start, start + seconds))
        start += seconds
    return spans


def spans_before(time: float, count: int, seconds: float) -> list[Span]:
    """`count` spans of `seconds` that end at `time`, rounded to hundredths; what lies before 0 is cut off (action anticipation)."""
    _check(0.0, max(time, 0.0), seconds, None)
    edges = [round(max(time - seconds * i, 0.0), 2) for i in range(count, -1, -1)]
    return [Span(low, high) for low, high in pairwise(edges)]


def windows(count: int, *, size: int = WINDOW_SEGMENTS) -> list[range]:
    """Numbers 0 to count - 1 in as few runs of at most `size` as possible, of sizes as equal as can be, in order."""
    if size < 1 or count < 0:
        raise InputError(f"{count} segments in windows of {size}: a window must hold at least one")
    num_windows = -(-count // size)
    edges = [count * i // num_windows for i in range(num_windows + 1)] if num_windows else []
    return [range(low, high) for low, high in pairwise(edges)]


def _check(start: float, end: float, interval: float, limit: int | None) -> None:
    if not (np.isfinite(start) and np.isfinite(end) and start <= end):
        raise InputError(f"from {start} s to {end} s: times must be finite and in order")
    if not 0 < interval < np.inf:
        raise InputError(f"interval is {interval}; it must be a positive number of seconds")
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; at least one segment must be allowed")
