"""What pictures over time are laid out of: a header, then for each video thumbnails, rows of scores, an axis of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from .figures import FAINT, GRID, INK, as_image, drawing
from .run import Run
from .text import clock, duration, printable
from .thumbnails import Thumbnail, shorten

__all__ = [
    "NUM_THUMBNAILS", "THUMBNAIL_PIXELS", "Pen", "Section", "ThumbnailRow",
    "draw_run", "header", "score_row", "time_axis", "title",
]  # fmt: skip

MAX_SECTIONS = 20
NUM_THUMBNAILS = 8
THUMBNAIL_PIXELS = 160  # high
TRACK = "#f4f6f8"

# All lengths in inches.
WIDTH, LEFT, RIGHT, MARGIN = 11.0, 2.6, 1.6, 0.3
HEADER, TITLE, CAPTION, ROW, AXIS, GAP = 0.6, 0.34, 0.22, 0.27, 0.36, 0.26
PLOT = WIDTH - LEFT - RIGHT
SLOT = PLOT / NUM_THUMBNAILS
MAX_THUMBNAIL = 1.25


class Pen:
    """Draws on the figure in inches from the upper left corner."""

    def __init__(self, figure: Figure, height: float) -> None:
        self.figure, self.height = figure, height

    def axes(self, left: float, top: float, width: float, height: float) -> matplotlib.axes.Axes:
        box = (left / WIDTH, 1 - (top + height) / self.height, width / WIDTH, height / self.height)
        return self.figure.add_axes(box)

    def track(self, top: float, height: float, xlim: tuple[float, float], *, colour: str = TRACK) -> matplotlib.axes.Axes:
        """An empty strip over the whole width of the plot, from 0 to 1 upwards."""
        axes = self.axes(LEFT, top, PLOT, height)
        axes.set(xlim=xlim, ylim=(0, 1), xticks=[], yticks=[], facecolor=colour)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return axes

    def write(
        self, left: float, top: float, text: str, *, size: float = 9, colour: str = INK, align: str = "left", bold: bool = False
    ) -> matplotlib.text.Text:
        return self.figure.text(
            left / WIDTH, 1 - top / self.height, text, size=size, color=colour, ha=align, va="center", weight="bold" if bold else "normal"
        )


class Section(Protocol):
    """One part of a picture: how high it is in inches, and how it is drawn from ``top`` on."""

    height: float

    def draw(self, pen: Pen, top: float) -> None: ...


def draw_run(run: Run[Any], section_of: Callable[[Any, Any], Section], *, meaning: str, format: str) -> bytes:
    """A picture of what is done: which weights answered, what the numbers mean, and the sections of (run, result) below one another.

    How many more there were is said.
    """
    with drawing():
        sections = [section_of(run, result) for result in run.done[:MAX_SECTIONS]]
        left_out = len(run.done) - len(sections)
        height = HEADER + sum(section.height + GAP for section in sections) + (0.3 if left_out else 0.1)
        figure = Figure(figsize=(WIDTH, height), dpi=130, facecolor="white")
        pen = Pen(figure, height)
        header(pen, str(run.model["name"]), trained=run.model["trained"], meaning=meaning)
        top = HEADER
        for section in sections:
            section.draw(pen, top)
            top += section.height + GAP
        if left_out:
            pen.write(MARGIN, top, f"and {left_out} more", colour=FAINT)
        return as_image(figure, format)


def header(pen: Pen, name: str, *, trained: bool, meaning: str) -> None:
    """The first line of a picture: what made it, and what its numbers mean."""
    pen.write(MARGIN, 0.26, "Watchword", size=13, bold=True)
    untrained = "" if trained else "   —   these weights were never trained: scores mean nothing"
    pen.write(MARGIN + 1.25, 0.265, f"{shorten(printable(name), 60)}{untrained}", size=9, colour=FAINT)
    pen.write(WIDTH - MARGIN, 0.265, meaning, size=8, colour=FAINT, align="right")


def title(pen: Pen, top: float, path: str, answer: str, span: tuple[float, float]) -> None:
    """A video's name, and behind it the short answer and how long it is."""
    pen.write(MARGIN, top + TITLE / 2, shorten(printable(path), 70), size=10.5, bold=True)
    facts = [shorten(printable(answer), 48)] if answer else []
    pen.write(WIDTH - MARGIN, top + TITLE / 2, "  ·  ".join([*facts, duration(span[1] - span[0])]), size=9.5, align="right")


class ThumbnailRow:
    """Thumbnails, each over its part of the time, with their times below."""

    def __init__(self, thumbnails: Sequence[Thumbnail]) -> None:
        self.thumbnails = thumbnails
        aspect = thumbnails[0].rgb.shape[1] / thumbnails[0].rgb.shape[0] if thumbnails else 1.0
        self.picture_height = min(MAX_THUMBNAIL, (SLOT - 0.06) / aspect) if thumbnails else 0.0
        self.height = self.picture_height + CAPTION

    def draw(self, pen: Pen, top: float, span: tuple[float, float]) -> None:
        for number, thumbnail in enumerate(self.thumbnails):
            left = LEFT + number * SLOT
            axes = pen.axes(left + 0.03, top, SLOT - 0.06, self.picture_height)
            axes.imshow(thumbnail.rgb, aspect="equal", interpolation="antialiased")
            axes.axis("off")
            caption = clock(thumbnail.time_seconds, decimals=0 if span[1] - span[0] > 60 else 1)
            pen.write(left + SLOT / 2, top + self.picture_height + CAPTION / 2, caption, size=7, colour=FAINT, align="center")


def score_row(
    pen: Pen,
    top: float,
    name: str,
    scores: npt.NDArray[np.float32],
    spans: npt.NDArray[np.float64] | None,
    *,
    colour: str,
    score: float,
    detail: str,
    passes: bool,
) -> None:
    """A label and its score: over time as steps, one for each of ``spans`` (windows, 2), or without them a bar of the first.

    ``score`` stands behind it, then ``detail``. What does not pass the threshold is faint.
    """
    axes = pen.track(top + 0.04, ROW - 0.08, (0, 1) if spans is None else (float(spans[0, 0]), float(spans[-1, 1])))
    if spans is None:
        axes.barh(0.5, scores[0], height=1.0, color=colour)
    else:
        axes.stairs(scores, [*spans[:, 0], spans[-1, 1]], fill=True, color=colour, linewidth=0)
    ink = INK if passes else FAINT
    pen.write(LEFT - 0.12, top + ROW / 2, shorten(printable(name), 34), size=8.5, align="right", colour=ink)
    pen.write(LEFT + PLOT + 0.1, top + ROW / 2, f"{score:.2f}", size=8.5, bold=passes, colour=ink)
    pen.write(WIDTH - MARGIN, top + ROW / 2, detail, size=7.5, colour=FAINT, align="right")


def time_axis(pen: Pen, top: float, span: tuple[float, float]) -> None:
    axes = pen.axes(LEFT, top, PLOT, 0.01)
    axes.set(xlim=span, yticks=[])
    axes.tick_params(labelsize=7, colors=FAINT, length=3)
    decimals = 0 if span[1] - span[0] > 10 else 1
    axes.xaxis.set_major_formatter(lambda seconds, _: clock(seconds, decimals=decimals))
    for spine in axes.spines.values():
        spine.set_color(GRID)
