"""The picture of filled blanks: frames, sound and words over time, where the question stands, and the options with their probabilities."""

from __future__ import annotations

import textwrap

import numpy as np

from ..media.subtitles import Word
from ..reserve.answers import FillResult
from ..reserve.inputs import mask_query
from ..results import NONE_OF_THESE
from ..text.reserve import MASK_TEXT
from .figures import FAINT, INK, text_width
from .loudness import loudness
from .panels import (
    AXIS,
    LEFT,
    MARGIN,
    NUM_THUMBNAILS,
    PLOT,
    ROW,
    SLOT,
    THUMBNAIL_PIXELS,
    TITLE,
    WIDTH,
    Pen,
    ThumbnailRow,
    draw_run,
    score_row,
    time_axis,
    title,
)
from .run import PALETTE, FillingRun
from .text import printable
from .thumbnails import shorten, thumbnails

__all__ = ["fill_strip"]

NUM_BINS = 560  # of the sound
PLACE = "#f2b705"  # where the question stands
SOUND = "#8fa3b8"
BEST, OTHERS = PALETTE[0], "#b3c8e0"
STATEMENT_SIZE = 11.5

# All lengths in inches.
STATEMENT_LINE, PLACE_ROW, SOUND_ROW, WORD_LINE, SPACE = 0.27, 0.2, 0.42, 0.145, 0.1
MAX_WORD_LINES = 5
WORD_COLUMNS = 15  # characters of a line of words below a thumbnail


def fill_strip(run: FillingRun, *, format: str = "png") -> bytes:
    """The run as a picture (``png``, ``jpg``, ``svg`` or ``pdf``): for each video and question the statement filled in, thumbnails, the
    loudness of the sound, the words spoken, the segments on which the question stood, and the best options of each blank.

    With several windows the options' probabilities are drawn over time, else as bars. At most 20 are drawn; what is left out is said.
    """
    return draw_run(run, _Section, meaning="probability = share among the options", format=format)


class _Section:
    """One video and one question."""

    def __init__(self, run: FillingRun, result: FillResult) -> None:
        self.run, self.result = run, result
        self.span = (float(result.spans[0, 0]), float(result.spans[-1, 1]))
        self.pictures = ThumbnailRow(thumbnails(result.path, NUM_THUMBNAILS, span=self.span, height=THUMBNAIL_PIXELS))
        self.peaks = loudness(result.path, self.span, NUM_BINS)
        self.words = _words_below(result.words, self.span)
        self.statement = _lines(self._filled_in())
        self.asked = STATEMENT_LINE if result.asked else 0.0
        self.options = [run.shown_options(result, blank) for blank in range(result.num_blanks)]
        self.over_time = len(result.spans) > 1
        self.heading = ROW if result.num_blanks > 1 else 0.0
        self.timeline_height = PLACE_ROW + self.pictures.height + SOUND_ROW + SPACE + WORD_LINE * max(map(len, self.words), default=0)
        self.height = TITLE + self.asked + STATEMENT_LINE * len(self.statement) + SPACE + self.timeline_height + AXIS
        self.height += sum(self.heading + ROW * len(options) for options in self.options)

    def _filled_in(self) -> list[tuple[str, bool]]:
        """The words of the statement, and those of the best options in its blanks, which are marked by True."""
        first, *rest = mask_query(self.result.question).split(MASK_TEXT)
        words = [(word, False) for word in first.split()]
        for ranked, text in zip(self.result.blanks(top=1, threshold=self.run.threshold), rest, strict=True):
            answer = (ranked[0].option if ranked else NONE_OF_THESE).split()
            if text and not text[0].isspace():  # a full stop stands close
                close, _, text = text.partition(" ")
                answer[-1] += close
            words += [(word, True) for word in answer] + [(word, False) for word in text.split()]
        return [(printable(word), is_answer) for word, is_answer in words]

    def draw(self, pen: Pen, top: float) -> None:
        title(pen, top, self.result.path, self.result.rests_on, self.span)
        top += TITLE
        if self.asked:
            pen.write(MARGIN, top + STATEMENT_LINE / 2, shorten(printable(self.result.asked), 110), size=STATEMENT_SIZE, colour=FAINT)
            top += self.asked
        for line in self.statement:
            for left, word, is_answer in line:
                pen.write(left, top + STATEMENT_LINE / 2, word, size=STATEMENT_SIZE, colour=BEST if is_answer else INK, bold=is_answer)
            top += STATEMENT_LINE
        self._timeline(pen, top + SPACE)
        top += SPACE + self.timeline_height
        time_axis(pen, top, self.span)
        top += AXIS
        for blank, options in enumerate(self.options):
            if self.heading:
                pen.write(LEFT - 0.12, top + ROW / 2, f"blank {blank + 1}", size=8.5, align="right", colour=FAINT)
                top += self.heading
            for place, option in enumerate(options):
                self._option(pen, top, blank, option, OTHERS if place else BEST)
                top += ROW

    def _timeline(self, pen: Pen, top: float) -> None:
        """What is to be seen and heard, over one axis of time, with the question's places behind it."""
        back = pen.track(top, self.timeline_height, self.span, colour="white")
        for start, end in self.result.places:
            back.axvspan(start, end, color=PLACE, alpha=0.22, linewidth=0)
        for start in self.result.spans[1:, 0]:
            back.axvline(start, color=FAINT, linewidth=0.7, linestyle=(0, (3, 3)))
        where = "the question stands here" if len(self.result.places) == 1 else "in each window the question stands here"
        pen.write(LEFT - 0.12, top + PLACE_ROW / 2, where, size=7.5, colour=FAINT, align="right")
        top += PLACE_ROW
        self.pictures.draw(pen, top, self.span)
        top += self.pictures.height
        self._sound(pen, top)
        top += SOUND_ROW + SPACE
        if any(self.words):
            pen.write(LEFT - 0.12, top + WORD_LINE / 2, "words", size=7.5, colour=FAINT, align="right")
        for slot, lines in enumerate(self.words):
            for number, line in enumerate(lines):
                pen.write(LEFT + (slot + 0.5) * SLOT, top + (number + 0.5) * WORD_LINE, line, size=6.6, align="center")

    def _sound(self, pen: Pen, top: float) -> None:
        used = "sound" in self.result.used
        name = "sound" if used or self.peaks is None else "sound (not used)"
        pen.write(LEFT - 0.12, top + SOUND_ROW / 2, name, size=7.5, colour=FAINT, align="right")
        if self.peaks is None or not np.nanmax(self.peaks):
            silence = "none in the file" if self.peaks is None else "silence"
            pen.write(LEFT + PLOT / 2, top + SOUND_ROW / 2, silence, size=7.5, colour=FAINT, align="center")
            return
        axes = pen.track(top, SOUND_ROW, self.span, colour="none")
        axes.set_ylim(-1.05, 1.05)
        edges = np.linspace(*self.span, NUM_BINS + 1)
        middles = (edges[:-1] + edges[1:]) / 2
        axes.fill_between(middles, -self.peaks, self.peaks, color=SOUND if used else "#d5dbe2", linewidth=0.4)

    def _option(self, pen: Pen, top: float, blank: int, option: int, colour: str) -> None:
        result, threshold = self.result, self.run.threshold
        mean, cosine = (float(numbers[option]) for numbers in result.over_time(blank))
        score_row(
            pen,
            top,
            result.options[blank][option],
            result.probabilities[blank][:, option],
            result.spans if self.over_time else None,
            colour=colour,
            score=mean,
            detail=f"cosine {cosine:.3f}",
            passes=threshold is None or mean >= threshold,
        )


def _lines(words: list[tuple[str, bool]]) -> list[list[tuple[float, str, bool]]]:
    """Words laid out in lines: for each word where it begins, in inches, and whether it is of an answer."""
    lines: list[list[tuple[float, str, bool]]] = [[]]
    left, space = MARGIN, text_width("n n", size=STATEMENT_SIZE) - text_width("nn", size=STATEMENT_SIZE)
    for word, is_answer in words:
        width = text_width(word, size=STATEMENT_SIZE, bold=is_answer)
        if left + width > WIDTH - MARGIN and lines[-1]:
            lines.append([])
            left = MARGIN
        lines[-1].append((left, word, is_answer))
        left += width + space
    return lines


def _words_below(words: tuple[Word, ...], span: tuple[float, float]) -> list[list[str]]:
    """For each of the thumbnails the words spoken in its part of the time, as short lines."""
    slots: list[list[str]] = [[] for _ in range(NUM_THUMBNAILS)]
    for word in words:
        place = ((word.start + word.end) / 2 - span[0]) / max(span[1] - span[0], 1e-9) * NUM_THUMBNAILS
        if 0 <= place <= NUM_THUMBNAILS:
            slots[min(int(place), NUM_THUMBNAILS - 1)].append(printable(word.text))
    lines = [textwrap.wrap(" ".join(slot), WORD_COLUMNS) for slot in slots]
    return [part if len(part) <= MAX_WORD_LINES else [*part[: MAX_WORD_LINES - 1], "…"] for part in lines]
