"""The confusion picture: which class is taken for which."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich.cells import cell_len

from ..tasks.results import ClassificationResult
from .figures import FAINT, GRID, INK, as_image, drawing
from .text import printable
from .thumbnails import shorten

__all__ = ["confusion"]

MAX_WITH_NUMBERS = 40  # classes; beyond them a cell is too small for a number
NUM_PAIRS = 25  # most frequent mistakes, listed where the cells have no numbers
NAME_LENGTH = 28

# All lengths in inches.
HEADER, MARGIN, CHARACTER, PAIRS = 0.75, 0.25, 0.62, 4.6


def confusion(result: ClassificationResult, *, format: str = "png") -> bytes:
    """The picture (``png``, ``svg``, ``pdf``, ``jpg``): rows are the true classes, columns what they were taken for.

    The colour is the share of the row. Up to 40 classes each cell has its number of videos; above, the most frequent mistakes are
    listed beside the table, which grows with the number of classes so that its names can be read.
    """
    num_classes = len(result.class_names)
    cell = 0.42 if num_classes <= MAX_WITH_NUMBERS else 0.13
    font = 8.5 if num_classes <= MAX_WITH_NUMBERS else 6.0
    names = [shorten(printable(name), NAME_LENGTH) for name in result.class_names]
    space = MARGIN + max(cell_len(name) for name in names) * font * CHARACTER / 72
    side = max(num_classes * cell, 1.6)
    width = max(space + side + MARGIN, 6.4) + (PAIRS if num_classes > MAX_WITH_NUMBERS else 0)
    height = HEADER + side + space + MARGIN
    with drawing():
        figure = Figure(figsize=(width, height), dpi=130 if num_classes <= MAX_WITH_NUMBERS else 100, facecolor="white")
        axes = figure.add_axes((space / width, (space + MARGIN) / height, side / width, side / height))
        _table(axes, result, names, font)
        failed = f", {len(result.failed)} not read" if result.failed else ""
        title = f"{printable(result.protocol)}: {result.top1:.1f} % of {len(result.read)} videos right{failed}"
        figure.text(MARGIN / width, 1 - 0.26 / height, title, size=12, weight="bold", color=INK, va="center")
        note = "rows: the truth; columns: what it was taken for; colour: share of the row"
        figure.text(MARGIN / width, 1 - 0.52 / height, note, size=8.5, color=FAINT, va="center")
        if num_classes > MAX_WITH_NUMBERS:
            left = space + side + 0.35
            figure.text(left / width, 1 - HEADER / height, _pairs(result), size=9, color=INK, va="top", linespacing=1.5)
        return as_image(figure, format)


def _table(axes: matplotlib.axes.Axes, result: ClassificationResult, names: list[str], font: float) -> None:
    table = result.confusion
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    places = range(len(names))
    axes.set_xticks(places, names, rotation=90, fontsize=font, color=INK)
    axes.set_yticks(places, names, fontsize=font, color=INK)
    axes.tick_params(length=0, pad=3)
    edges, end = np.arange(1, len(names)) - 0.5, len(names) - 0.5
    for lines in (axes.hlines, axes.vlines):  # a grid of ticks would take a minute to draw for 400 classes
        lines(edges, -0.5, end, color=GRID, linewidth=0.6 if len(names) <= MAX_WITH_NUMBERS else 0.25)
    for spine in axes.spines.values():
        spine.set_color("#c5cbd3")
    if len(names) <= MAX_WITH_NUMBERS:
        for row, column in zip(*np.nonzero(table), strict=True):
            colour = "white" if shares[row, column] > 0.55 else INK
            axes.text(column, row, str(table[row, column]), ha="center", va="center", fontsize=font, color=colour)


def _pairs(result: ClassificationResult) -> str:
    mistakes = result.confusion.copy()
    np.fill_diagonal(mistakes, 0)
    order = np.argsort(-mistakes, axis=None, kind="stable")[:NUM_PAIRS]
    rows, columns = np.unravel_index(order, mistakes.shape)
    lines = [
        f"{mistakes[row, column]} ×  {shorten(printable(result.class_names[row]), 24)}  →  "
        f"{shorten(printable(result.class_names[column]), 24)}"
        for row, column in zip(rows, columns, strict=True)
        if mistakes[row, column]
    ]
    return "\n".join(["Most frequent mistakes", *(lines or ["none"])])
