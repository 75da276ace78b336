"""What is said over a scene, word by word, and the subtitle file that YouTube would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.playground.scene import Scene
from watchword.playground.setting import generator

_FILLERS: Final = ("", "", "look", "now", "here", "see", "and now", "okay so", "oh look")
_LINE_LETTERS: Final = 32
_LINE_PAUSE: Final = 0.4
_ROLL_UP_PAUSE: Final = 0.1
"""Seconds without a word after which a new line begins, and after which the line above it is no longer shown."""

START_OFFSETS: Final = (-0.075, 0.294)
END_OFFSETS: Final = (-0.093, 0.319)
"""By how many seconds an automatic caption's start and end come before the word's, at least and at most."""

_SHORTEST_CAPTION: Final = 0.02

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Word:
    """A spoken word and when it is spoken, in seconds of the clip."""

    text: str
    start_seconds: float
    end_seconds: float


def narration(scene: Scene) -> list[Word]:
    """The words said over a scene: its phrase, sometimes after a filler such as ``"look"``; times in whole ms."""
    rng = generator(scene.seed, 4)
    texts = f"{_FILLERS[rng.integers(len(_FILLERS))]} {scene.phrase}".split()
    lengths, pauses = pronounce(texts, rng)
    pauses[0] = rng.uniform(0.04, 0.2)
    ends = np.cumsum(lengths + pauses)
    pace = min(1.0, 0.95 * scene.duration_seconds / float(ends[-1]))
    spoken = zip(texts, ((ends - lengths) * pace).tolist(), (ends * pace).tolist(), strict=True)
    return [Word(text, round(start, 3), round(end, 3)) for text, start, end in spoken]


def pronounce(texts: Sequence[str], rng: np.random.Generator) -> tuple[Floats, Floats]:
    """How long each word lasts, and the pause before it, in seconds, each (words,)."""
    lengths = np.array([0.11 + 0.03 * len(text) for text in texts]) * rng.uniform(0.85, 1.15, len(texts))
    return lengths, rng.uniform(0.01, 0.06, len(texts))


def caption_words(words: Sequence[Word], rng: np.random.Generator) -> list[Word]:
    """The words as automatic captions time them: mostly early, and each ends where the next begins, unless there is a pause.

    What is to be added to a caption's times to get the true ones is what the released correction can give: about 0.11 s, and more for long
    words than for short ones, within `START_OFFSETS` and `END_OFFSETS`, but where words would meet or come before 0. Times are in whole ms.

    Source: merlot-reserve-data spec section 5.
    """
    if not words:
        return []
    starts = np.array([word.start_seconds for word in words]) - _offsets(words, rng, *START_OFFSETS)
    ends = np.array([word.end_seconds for word in words]) - _offsets(words, rng, *END_OFFSETS)
    steps = _SHORTEST_CAPTION * np.arange(len(words))
    starts = (np.maximum.accumulate(np.maximum(starts, 0) - steps) + steps).round(3)
    following = np.append(starts[1:], np.inf)
    ends = np.minimum(np.maximum(ends, starts + _SHORTEST_CAPTION), following).round(3)
    ends = np.where(following - ends < _LINE_PAUSE, following, ends)
    return [Word(word.text, start, end) for word, start, end in zip(words, starts.tolist(), ends.tolist(), strict=True)]


def _offsets(words: Sequence[Word], rng: np.random.Generator, low: float, high: float) -> Floats:
    letters = np.array([len(word.text) for word in words])
    offsets = (low + high) / 2 + 0.06 * np.tanh((letters - 4) / 2) + rng.normal(0, 0.045, len(words))
    clipped: Floats = np.clip(offsets, low, high)
    return clipped


def narration_vtt(words: Sequence[Word]) -> str:
    """WebVTT as YouTube writes it for speech: lines roll up, and each word after a line's first carries its time.

    A new line begins after a pause, and the lines before it are then no longer shown.
    """
    cues = ["WEBVTT\nKind: captions\nLanguage: en"]
    above, shown_until = " ", 0.0
    for line in _lines(words):
        first, *others = line
        if first.start_seconds - shown_until > _ROLL_UP_PAUSE:
            above = " "
        text = " ".join(word.text for word in line)
        timed = "".join(f"<{_clock(word.start_seconds)}><c> {word.text}</c>" for word in others)
        start, end = _clock(first.start_seconds), _clock(line[-1].end_seconds)
        rolled = _clock(line[-1].end_seconds + 0.01)
        place = "align:start position:0%"
        cues.append(f"{start} --> {end} {place}\n{above}\n{first.text}{timed}")
        cues.append(f"{end} --> {rolled} {place}\n{text}\n ")
        above, shown_until = text, line[-1].end_seconds
    return "\n\n".join(cues) + "\n"


def _lines(words: Sequence[Word]) -> list[list[Word]]:
    lines: list[list[Word]] = []
    for word in words:
        line = lines[-1] if lines else []
        goes_on = line and word.start_seconds - line[-1].end_seconds < _LINE_PAUSE
        if goes_on and sum(len(other.text) + 1 for other in line) + len(word.text) <= _LINE_LETTERS:
            line.append(word)
        else:
            lines.append([word])
    return lines


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}.{milliseconds % 1000:03}"
