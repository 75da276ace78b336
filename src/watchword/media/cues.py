"""Cues and timed words: what every subtitle format is read into, and how words get their times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

__all__ = ["Cue", "Fragment", "RawCue", "Repair", "Subtitles", "Word", "finish_cues"]

Fragment = tuple[float | None, str]
"""A piece of text and the time in seconds from which on it is spoken (None: the file does not say)."""

_ROLL_UP_GAP_SECONDS = 0.1
_REPEAT_SECONDS = 0.05
_MAX_ROLLING_LINES = 8
_FIRST_IDEOGRAPH = "\u2e80"
_MAX_SECONDS = 1e9


@dataclass(frozen=True)
class Word:
    """One word. `start` and `end` in seconds. `estimated`: the file times only the words around it; this one was spread evenly."""

    text: str
    start: float
    end: float
    estimated: bool = False


@dataclass(frozen=True)
class Cue:
    """One piece of subtitle: `text` without markup, lines joined by newlines, shown from `start` to `end` (seconds, 0 <= start <= end).

    `words`: every word of the text in order. `voices`: names of the speakers, where the file gives them.
    """

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = field(default=(), repr=False)
    voices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repair:
    """What was wrong with the file (`problem`), what was done about it (`action`), and where (`line`, from 1; None: the whole file)."""

    problem: str
    action: str
    line: int | None = None

    def __str__(self) -> str:
        return ("" if self.line is None else f"line {self.line}: ") + f"{self.problem}; {self.action}"


@dataclass(frozen=True)
class Subtitles:
    """Subtitles as read.

    cues: sorted by start. Text that a rolling caption shows again is there once.
    report: what was repaired, dropped or guessed; empty for a clean file.
    format: "vtt", "srt", "ass", "json3", "srv1", "srv3", or the codec of an embedded track.
    encoding: of a file; None for an embedded track.  language: as the file, its name or the track says, or None.
    source: the file read.  track: index of the embedded stream, or None.
    """

    cues: tuple[Cue, ...]
    report: tuple[Repair, ...] = ()
    format: str = ""
    encoding: str | None = None
    language: str | None = None
    source: str = ""
    track: int | None = None

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """All words, each once, cue by cue. Words that the file does not time are spread evenly and are marked `estimated`."""
        return tuple(word for cue in self.cues for word in cue.words)

    @property
    def word_timed(self) -> bool:
        """Whether the file itself times words (YouTube's automatic captions, karaoke), not only cues."""
        return any(not word.estimated for word in self.words)

    @property
    def text(self) -> str:
        """The whole text, words joined by single spaces."""
        return " ".join(word.text for word in self.words)


@dataclass
class RawCue:
    """A cue as a format's reader found it: each line is a list of fragments. `speech_end`: when its last word ends, if not at `end`."""

    start: float
    end: float
    lines: list[list[Fragment]]
    line: int | None = None
    voices: tuple[str, ...] = ()
    speech_end: float | None = None

    @property
    def stamped(self) -> bool:
        return any(_is_stamped(line) for line in self.lines)


def finish_cues(raw_cues: Iterable[RawCue], report: list[Repair]) -> tuple[Cue, ...]:
    """Repair times, drop what is empty, sort, take out what rolling captions repeat, and time the words. Adds to `report`."""
    kept = [cue for cue in raw_cues if _repair_times(cue, report) and _has_text(cue, report)]
    if any(later.start < earlier.start for earlier, later in pairwise(kept)):
        report.append(Repair("cues are not in order of time", "sorted"))
        kept.sort(key=lambda cue: cue.start)
    word_timed = any(cue.stamped for cue in kept)
    if _rolls_up(kept, word_timed):
        kept = _without_repeats(kept, report)
    return tuple(_finish(cue, word_timed, report) for cue in kept)


def _repair_times(cue: RawCue, report: list[Repair]) -> bool:
    if not (math.isfinite(cue.start) and math.isfinite(cue.end) and max(cue.start, cue.end) < _MAX_SECONDS):
        report.append(Repair("impossible time", "cue dropped", cue.line))
        return False
    if cue.end < 0 or (cue.start < 0 and cue.end == 0):
        report.append(Repair("cue ends before time 0", "cue dropped", cue.line))
        return False
    if cue.start < 0:
        report.append(Repair("cue starts before time 0", "starts at 0 now", cue.line))
        cue.start = 0.0
    if cue.end < cue.start:
        report.append(Repair("cue ends before it starts", "ends at its start now", cue.line))
        cue.end = cue.start
    return True


def _has_text(cue: RawCue, report: list[Repair]) -> bool:
    cue.lines = [line for line in cue.lines if _plain(line)]
    if not cue.lines:
        report.append(Repair("cue without text", "cue dropped", cue.line))
    return bool(cue.lines)


def _rolls_up(cues: Sequence[RawCue], word_timed: bool) -> bool:
    """Whether lines stay on screen and are written again in the next cue, as in YouTube's automatic captions and files made from them.

    The signs: cues of some 10 ms that only repeat; or repeated lines in a file whose new words carry times. Without these signs a
    repeated line is taken to be said twice.
    """
    for earlier, later in pairwise(cues):
        if _num_repeated(earlier, later) and (word_timed or later.end - later.start <= _REPEAT_SECONDS):
            return True
    return False


def _without_repeats(cues: Sequence[RawCue], report: list[Repair]) -> list[RawCue]:
    kept: list[RawCue] = []
    previous: RawCue | None = None
    for cue in cues:
        num_repeated = 0 if previous is None else _num_repeated(previous, cue)
        previous = cue
        if num_repeated < len(cue.lines):
            kept.append(RawCue(cue.start, cue.end, cue.lines[num_repeated:], cue.line, cue.voices, cue.speech_end))
    report.append(Repair("rolling captions show lines again", f"{len(cues)} cues reduced to {len(kept)} without repeated text"))
    return kept


def _num_repeated(earlier: RawCue, later: RawCue) -> int:
    """How many of the first lines of `later` are the last lines of `earlier`, still on screen."""
    if not -_REPEAT_SECONDS <= later.start - earlier.end <= _ROLL_UP_GAP_SECONDS:
        return 0
    old = [_plain(line) for line in earlier.lines]
    new = [_plain(line) if not _is_stamped(line) else None for line in later.lines]
    return max(n for n in range(min(len(old), len(new), _MAX_ROLLING_LINES) + 1) if new[:n] == old[len(old) - n :])


def _finish(cue: RawCue, word_timed: bool, report: list[Repair]) -> Cue:
    fragments = [fragment for line in cue.lines for fragment in [*line, (None, "\n")]]
    text = "\n".join(_plain(line) for line in cue.lines)
    timed = cue.stamped or (word_timed and len(text.split()) == 1)
    end = cue.end if cue.speech_end is None else cue.speech_end
    words, num_bad_stamps = _time_words(fragments, cue.start, end, timed=timed)
    if num_bad_stamps:
        report.append(Repair(f"{num_bad_stamps} word times lie outside the cue or go backwards", "estimated instead", cue.line))
    return Cue(cue.start, cue.end, text, words, cue.voices)


def _time_words(fragments: Iterable[Fragment], start: float, end: float, *, timed: bool) -> tuple[tuple[Word, ...], int]:
    """Split into words. A word starts at the time of the fragment it opens; words between two known times are spread evenly.

    Each word ends where the next one starts, the last at `end`. Also returns how many times of fragments were of no use.
    """
    texts: list[str] = []
    stamps: list[float | None] = []
    num_bad_stamps, latest, before = 0, start, " "
    for stamp, text in fragments:
        if stamp is not None and not latest <= stamp <= end:
            num_bad_stamps += 1
            stamp = None
        latest = latest if stamp is None else stamp
        pieces = text.split()
        continues = bool(pieces) and _same_word(before, text[0])
        if continues:
            texts[-1] += pieces.pop(0)
        texts += pieces
        stamps += [None if continues or i else stamp for i in range(len(pieces))]
        before = text[-1:] or before
    if not texts:
        return (), num_bad_stamps
    anchors = [0] + [i for i in range(1, len(texts)) if stamps[i] is not None] + [len(texts)]
    first = stamps[0]
    words: list[Word] = []
    for low, high in pairwise(anchors):
        since = (start if first is None else first) if low == 0 else words[-1].end
        known = stamps[high] if high < len(texts) else None
        until = end if known is None else known
        step = (until - since) / (high - low)
        times = [since + i * step for i in range(high - low)] + [until]
        for i in range(high - low):
            words.append(Word(texts[low + i], times[i], times[i + 1], estimated=i > 0 or not timed))
    return tuple(words), num_bad_stamps


def _same_word(before: str, after: str) -> bool:
    """Whether a fragment that ends and one that begins without a space between them are parts of one word (a sung syllable each)."""
    return not before.isspace() and not after.isspace() and max(before, after) < _FIRST_IDEOGRAPH


def _plain(line: Iterable[Fragment]) -> str:
    return " ".join("".join(text for _, text in line).split())


def _is_stamped(line: Iterable[Fragment]) -> bool:
    return any(stamp is not None for stamp, text in line if text.strip())
