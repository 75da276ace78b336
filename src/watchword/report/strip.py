"""The timeline strip: a picture of thumbnails over time with each label's score."""

from __future__ import annotations

from ..results import NONE_OF_THESE
from ..xclip.tagging import ClipResult
from .panels import (
    AXIS,
    NUM_THUMBNAILS,
    ROW,
    THUMBNAIL_PIXELS,
    TITLE,
    Pen,
    ThumbnailRow,
    draw_run,
    score_row,
    time_axis,
    title,
)
from .run import TaggingRun
from .thumbnails import thumbnails

__all__ = ["strip"]


def strip(run: TaggingRun, *, format: str = "png") -> bytes:
    """The run as a picture (``png``, ``jpg``, ``svg`` or ``pdf``): for each video thumbnails, and below them its best labels.

    A timeline shows each label's score over time, a single clip shows bars. At most 20 videos are drawn, and what is left out is said.
    """
    shares = "score = share among the labels   match = against a fixed background"
    meaning = shares if run.settings["match_against"] else "score = match = probability of each label by itself"
    return draw_run(run, _Section, meaning=meaning, format=format)


class _Section:
    """One video: its name and answer, thumbnails, and a row for each label."""

    def __init__(self, run: TaggingRun, result: ClipResult) -> None:
        self.run, self.result = run, result
        self.span = (float(result.spans[0, 0]), float(result.spans[-1, 1]))
        self.pictures = ThumbnailRow(thumbnails(result.path, NUM_THUMBNAILS, span=self.span, height=THUMBNAIL_PIXELS))
        self.labels = run.shown_labels(result)
        self.height = TITLE + self.pictures.height + ROW * len(self.labels) + (AXIS if run.windowed else 0.0)

    def draw(self, pen: Pen, top: float) -> None:
        tags = self.run.tags(self.result)
        title(pen, top, self.result.path, tags[0].label if tags else NONE_OF_THESE, self.span)
        top += TITLE
        self.pictures.draw(pen, top, self.span)
        top += self.pictures.height
        for place, label in enumerate(self.labels):
            self._label(pen, top + place * ROW, label)
        if self.run.windowed:
            time_axis(pen, top + len(self.labels) * ROW, self.span)

    def _label(self, pen: Pen, top: float, label: int) -> None:
        result, threshold = self.result, self.run.threshold
        score, match = (float(result.over_time(numbers)[label]) for numbers in (result.scores, result.matches))
        score_row(
            pen,
            top,
            result.labels[label],
            result.scores[:, label],
            result.spans if self.run.windowed else None,
            colour=self.run.colour(label),
            score=score,
            detail=f"match {match:.2f}",
            passes=threshold is None or min(score, match) >= threshold,
        )
