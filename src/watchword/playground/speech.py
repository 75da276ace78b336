"""What is said over a scene, word by word, and the subtitle file that YouTube would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from watchword.playground.scene import Scene
from watchword.playground.setting import generator

_FILLERS: Final = ("", "", "look", "now", "here", "see", "and now", "okay so", "oh look")
_LINE_LETTERS: Final = 32


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
    lengths = np.array([0.11 + 0.03 * len(text) for text in texts]) * rng.uniform(0.85, 1.15, len(texts))
    pauses = rng.uniform(0.01, 0.06, len(texts))
    pauses[0] = rng.uniform(0.04, 0.2)
    ends = np.cumsum(lengths + pauses)
    pace = min(1.0, 0.95 * scene.duration_seconds / float(ends[-1]))
    spoken = zip(texts, ((ends - lengths) * pace).tolist(), (ends * pace).tolist(), strict=True)
    return [Word(text, round(start, 3), round(end, 3)) for text, start, end in spoken]


def narration_vtt(words: Sequence[Word]) -> str:
    """WebVTT as YouTube writes it for speech: lines roll up, and each word after a line's first carries its time."""
    cues = ["WEBVTT\nKind: captions\nLanguage: en"]
    above = " "
    for line in _lines(words):
        first, *others = line
        text = " ".join(word.text for word in line)
        timed = "".join(f"<{_clock(word.start_seconds)}><c> {word.text}</c>" for word in others)
        start, end = _clock(first.start_seconds), _clock(line[-1].end_seconds)
        rolled = _clock(line[-1].end_seconds + 0.01)
        place = "align:start position:0%"
        cues.append(f"{start} --> {end} {place}\n{above}\n{first.text}{timed}")
        cues.append(f"{end} --> {rolled} {place}\n{text}\n ")
        above = text
    return "\n\n".join(cues) + "\n"


def _lines(words: Sequence[Word]) -> list[list[Word]]:
    lines: list[list[Word]] = []
    for word in words:
        if lines and sum(len(other.text) + 1 for other in lines[-1]) + len(word.text) <= _LINE_LETTERS:
            lines[-1].append(word)
        else:
            lines.append([word])
    return lines


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{milliseconds // 1000:02}.{milliseconds % 1000:03}"
