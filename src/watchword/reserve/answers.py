"""What is asked of a video, and what comes back: options ranked for each blank, over the whole video and in each window.

Two numbers go with every option:

* ``probability``: its share among the options of its blank, the softmax of 100 x cosine (spec section 15). It says which of these
  options fits best, and nothing about whether any of them fits at all. Over views and windows it is the mean.
* ``cosine``: between the model's vector at the blank and that of the option, from -1 to 1. It does not depend on the other options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..media.subtitles import Word
from ..results import Failure, mean_over_time

__all__ = ["Answer", "FillResult", "FilledWindow", "Question", "Use"]

Floats = npt.NDArray[np.float32]

Use = Literal["auto", "frames", "subtitles", "sound", "both"]
"""What beside the frames an answer rests on: nothing, words, sound, or the mean of these two; ``auto`` is ``both`` of what there is."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A statement with blanks.

    Attributes:
        text: with ``<mask>`` where an answer goes; there may be several blanks, and text before and behind them.
        options: of every blank, or a list of options for each.
        at: seconds on the file's clock: the question stands on the segment of that moment, and only the window around it answers.
        segment: the same by the segment's number, from 0, or from the end if negative. With neither, it stands on the first segment of
            each window.
        asked: in the user's own words, where ``text`` is a statement made of them; it is only carried along.
    """

    text: str
    options: Sequence[str] | Sequence[Sequence[str]]
    at: float | None = None
    segment: int | None = None
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An option and how well it fits a blank; the numbers are explained at the top of ``watchword.reserve.answers``."""

    option: str
    probability: float
    cosine: float


@dataclass(frozen=True, slots=True)
class FilledWindow:
    """What one window of at most eight segments answers, in seconds on the file's clock; ``place`` is the segment the question stood on.

    blanks: for each blank its options, best first.
    """

    start_seconds: float
    end_seconds: float
    place: tuple[float, float]
    blanks: list[list[Answer]]


@dataclass(frozen=True, eq=False)
class FillResult:
    """The answer of one file to one question.

    Attributes:
        options: for each blank.
        spans: (windows, 2) in seconds.  places: (windows, 2), the segment the question stood on.
        probabilities, cosines: for each blank (windows, options).
        used: what the answer rests on, some of ``frames``, ``subtitles``, ``sound``, over all windows.
        words: that were spoken, as far as they were read.
        warnings: what a user should know, a line each.
    """

    path: str
    question: str
    asked: str = ""
    options: tuple[tuple[str, ...], ...] = ()
    spans: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    places: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    probabilities: tuple[Floats, ...] = ()
    cosines: tuple[Floats, ...] = ()
    used: tuple[str, ...] = ()
    words: tuple[Word, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def num_blanks(self) -> int:
        return len(self.options)

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings, and what the answer rests on."""
        return () if self.failure else (*self.warnings, self.rests_on)

    @property
    def rests_on(self) -> str:
        """What was used, in words."""
        *first, last = self.used or ("the question alone",)
        return f"answered from {', '.join(first)}{' and ' if first else ''}{last}"

    def blanks(self, *, top: int | None = None, threshold: float | None = None) -> list[list[Answer]]:
        """For each blank its options over the whole video, best first: the mean over the windows, each by its length.

        ``top`` keeps the best so many, ``threshold`` those whose probability reaches it.
        """
        return [self._ranked(blank, *self.over_time(blank), top, threshold) for blank in self._numbers]

    def over_time(self, blank: int) -> tuple[Floats, Floats]:
        """Probabilities and cosines (options,) of a blank over the whole video, see ``mean_over_time``."""
        return mean_over_time(self.probabilities[blank], self.spans), mean_over_time(self.cosines[blank], self.spans)

    def whole(self, *, top: int | None = None, threshold: float | None = None) -> FilledWindow:
        """The whole video as one window; the place is that of the first."""
        place = (float(self.places[0, 0]), float(self.places[0, 1]))
        return FilledWindow(float(self.spans[0, 0]), float(self.spans[-1, 1]), place, self.blanks(top=top, threshold=threshold))

    def windows(self, *, top: int | None = None, threshold: float | None = None) -> list[FilledWindow]:
        """The answer of each window by itself."""
        return [
            FilledWindow(
                float(start),
                float(end),
                (float(place[0]), float(place[1])),
                [self._ranked(n, self.probabilities[n][number], self.cosines[n][number], top, threshold) for n in self._numbers],
            )
            for number, ((start, end), place) in enumerate(zip(self.spans, self.places, strict=True))
        ]

    @property
    def _numbers(self) -> range:
        return range(self.num_blanks)

    def _ranked(self, blank: int, probabilities: Floats, cosines: Floats, top: int | None, threshold: float | None) -> list[Answer]:
        order = np.lexsort((-cosines, -probabilities))[:top]
        ranked = [Answer(self.options[blank][i], float(probabilities[i]), float(cosines[i])) for i in order]
        return ranked if threshold is None else [answer for answer in ranked if answer.probability >= threshold]
