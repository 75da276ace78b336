"""The timeline strip: a picture of thumbnails over time with each label's score."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from ..results import NONE_OF_THESE
from ..xclip.tagging import ClipResult
from .figures import FAINT, GRID, INK, as_image, drawing
from .run import TaggingRun
from .text import clock, duration, printable
from .thumbnails import shorten, thumbnails

__all__ = ["strip"]

MAX_FILES = 20
NUM_THUMBNAILS = 8
THUMBNAIL_PIXELS = 160  # high

# All lengths in inches.
WIDTH, LEFT, RIGHT, MARGIN = 11.0, 2.6, 1.6, 0.3
HEADER, TITLE, CAPTION, ROW, AXIS, GAP = 0.6, 0.34, 0.22, 0.27, 0.36, 0.26
PLOT = WIDTH - LEFT - RIGHT
SLOT = PLOT / NUM_THUMBNAILS
MAX_THUMBNAIL = 1.25


def strip(run: TaggingRun, *, format: str = "png") -> bytes:
    """The run as a picture (``png``, ``jpg``, ``svg`` or ``pdf``): for each video thumbnails, and below them its best labels.

    A timeline shows each label's score over time, a single clip shows bars. At most 20 videos are drawn, and what is left out is said.
    """
    shown = run.done[:MAX_FILES]
    sections = [_Section(run, result) for result in shown]
    left_out = len(run.done) - len(shown)
    height = HEADER + sum(section.height + GAP for section in sections) + (0.3 if left_out else 0.1)
    with drawing():
        figure = Figure(figsize=(WIDTH, height), dpi=130, facecolor="white")
        pen = _Pen(figure, height)
        _header(pen, run)
        top = HEADER
        for section in sections:
            section.draw(pen, top)
            top += section.height + GAP
        if left_out:
            pen.write(MARGIN, top, f"and {left_out} more", colour=FAINT)
        return as_image(figure, format)


class _Pen:
    """Draws on the figure in inches from the upper left corner."""

    def __init__(self, figure: Figure, height: float) -> None:
        self.figure, self.height = figure, height

    def axes(self, left: float, top: float, width: float, height: float) -> matplotlib.axes.Axes:
        box = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        return self.figure.add_axes(box)

    def write(
        self, left: float, top: float, text: str, *, size: float = 9, colour: str = INK, align: str = "left", bold: bool = False
    ) -> None:
        self.figure.text(
            left / WIDTH, 1 - top / self.height, text, size=size, color=colour, ha=align, va="center", weight="bold" if bold else "normal"
        )


def _header(pen: _Pen, run: TaggingRun) -> None:
    pen.write(MARGIN, 0.26, "Watchword", size=13, bold=True)
    trained = "" if run.model["trained"] else "   —   these weights were never trained: scores mean nothing"
    pen.write(MARGIN + 1.25, 0.265, f"{printable(str(run.model['name']))}{trained}", size=9, colour=FAINT)
    shares = "score = share among the labels   match = against a fixed background"
    meaning = shares if run.settings["match_against"] else "score = match = probability of each label by itself"
    pen.write(WIDTH - MARGIN, 0.265, meaning, size=8, colour=FAINT, align="right")


class _Section:
    """One video: its name and answer, thumbnails, and a row for each label."""

    def __init__(self, run: TaggingRun, result: ClipResult) -> None:
        self.run, self.result = run, result
        self.thumbnails = thumbnails(result.path, NUM_THUMBNAILS, span=result.spans[[0, -1], [0, 1]], height=THUMBNAIL_PIXELS)
        self.labels = run.shown_labels(result)
        aspect = self.thumbnails[0].rgb.shape[1] / self.thumbnails[0].rgb.shape[0] if self.thumbnails else 1.0
        self.row_height = min(MAX_THUMBNAIL, (SLOT - 0.06) / aspect) if self.thumbnails else 0.0
        self.height = TITLE + self.row_height + CAPTION + ROW * len(self.labels) + (AXIS if run.windowed else 0.0)

    def draw(self, pen: _Pen, top: float) -> None:
        start, end = float(self.result.spans[0, 0]), float(self.result.spans[-1, 1])
        tags = self.run.tags(self.result)
        pen.write(MARGIN, top + TITLE / 2, shorten(printable(self.result.path), 70), size=10.5, bold=True)
        answer = printable(tags[0].label) if tags else NONE_OF_THESE
        pen.write(WIDTH - MARGIN, top + TITLE / 2, f"{shorten(answer, 40)}  ·  {duration(end - start)}", size=9.5, align="right")
        top += TITLE
        for number, thumbnail in enumerate(self.thumbnails):
            left = LEFT + number * SLOT
            axes = pen.axes(left + 0.03, top, SLOT - 0.06, self.row_height)
            axes.imshow(thumbnail.rgb, aspect="equal", interpolation="antialiased")
            axes.axis("off")
            caption = clock(thumbnail.time_seconds, decimals=0 if end - start > 60 else 1)
            pen.write(left + SLOT / 2, top + self.row_height + CAPTION / 2, caption, size=7, colour=FAINT, align="center")
        top += self.row_height + CAPTION
        for place, label in enumerate(self.labels):
            self._label(pen, top + place * ROW, label, self.run.colour(label), (start, end))
        if self.run.windowed:
            self._time_axis(pen, top + len(self.labels) * ROW, (start, end))

    def _label(self, pen: _Pen, top: float, label: int, colour: str, span: tuple[float, float]) -> None:
        scores = self.result.scores[:, label]
        score, match = (float(self.result.over_time(numbers)[label]) for numbers in (self.result.scores, self.result.matches))
        axes = pen.axes(LEFT, top + 0.04, PLOT, ROW - 0.08)
        axes.set(xlim=span if self.run.windowed else (0, 1), ylim=(0, 1), xticks=[], yticks=[], facecolor="#f4f6f8")
        for spine in axes.spines.values():
            spine.set_visible(False)
        if self.run.windowed:
            edges = [*self.result.spans[:, 0], span[1]]
            axes.stairs(scores, edges, fill=True, color=colour, linewidth=0)
        else:
            axes.barh(0.5, scores[0], height=1.0, color=colour)
        passes = self.run.threshold is None or min(score, match) >= self.run.threshold
        ink = INK if passes else FAINT
        pen.write(LEFT - 0.12, top + ROW / 2, shorten(printable(self.result.labels[label]), 34), size=8.5, align="right", colour=ink)
        pen.write(LEFT + PLOT + 0.1, top + ROW / 2, f"{score:.2f}", size=8.5, bold=passes, colour=ink)
        pen.write(WIDTH - MARGIN, top + ROW / 2, f"match {match:.2f}", size=7.5, colour=FAINT, align="right")

    def _time_axis(self, pen: _Pen, top: float, span: tuple[float, float]) -> None:
        axes = pen.axes(LEFT, top, PLOT, 0.01)
        axes.set(xlim=span, yticks=[])
        axes.tick_params(labelsize=7, colors=FAINT, length=3)
        decimals = 0 if span[1] - span[0] > 10 else 1
        axes.xaxis.set_major_formatter(lambda seconds, _: clock(seconds, decimals=decimals))
        for spine in axes.spines.values():
            spine.set_color(GRID)
