"""The curves of a training run: loss, accuracies and learning rate over the steps."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ..errors import InputError
from .figures import FAINT, GRID, INK, as_image, drawing
from .run import PALETTE
from .text import printable

__all__ = ["curves", "read_metrics"]

MAX_POINTS_UNSMOOTHED = 30
_NOT_DRAWN = ("samples_per_second", "num_", "memory", "seconds", "data_wait_share", "loss_scale")

Series = dict[str, list[tuple[int, float]]]


def read_metrics(folder: str | Path) -> Series:
    """(step, value) pairs of each number in the run's ``metrics.jsonl``, by name; a line that a kill has cut short is left out.

    Raises InputError if the folder holds no run.
    """
    path = Path(folder) / "metrics.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError as error:
        raise InputError(f"{path}: no curves of a run there ({error.strerror})") from error
    series: Series = {}
    for line in lines:
        if not line.endswith("\n"):
            continue
        numbers = json.loads(line)
        step = numbers.pop("step")
        for name, value in numbers.items():
            if isinstance(value, (int, float)):
                series.setdefault(name, []).append((step, value))
    return series


def curves(folder: str | Path, *, title: str = "", format: str = "png") -> bytes:
    """The run in ``folder`` as a picture (``png``, ``svg``, ``pdf``, ``jpg``): one panel each for loss, percentages and learning rate.

    Long series are drawn faintly with their running mean on top; a loss that is 0 throughout, of what the data lacks, is left out. Raises
    InputError if there is nothing to draw.
    """
    series = {name: points for name, points in read_metrics(folder).items() if not any(word in name for word in _NOT_DRAWN)}
    losses = {name: points for name, points in series.items() if "loss" in name and any(value for _, value in points)}
    rates = {name: points for name, points in series.items() if "learning_rate" in name}
    percents = {name: points for name, points in series.items() if "loss" not in name and name not in rates}
    panels = [(name, lines) for name, lines in (("loss", losses), ("percent", percents), ("learning rate", rates)) if lines]
    if not panels:
        raise InputError(f"{folder}: the run has logged nothing to draw yet")
    with drawing():
        figure = Figure(figsize=(4.2 * len(panels) + 0.4, 3.5), dpi=130, facecolor="white", layout="constrained")
        if title:
            figure.suptitle(printable(title), fontsize=11, weight="bold", color=INK)
        for place, (name, lines) in enumerate(panels, start=1):
            _panel(figure.add_subplot(1, len(panels), place), name, lines)
        return as_image(figure, format)


def _panel(axes: matplotlib.axes.Axes, name: str, lines: Series) -> None:
    for colour, (label, points) in zip(_colours(len(lines)), lines.items(), strict=True):
        steps, values = np.array(points, dtype=np.float64).T
        text = printable("top1 in training" if label == "top1" else label.replace("_", " "))
        if len(steps) <= MAX_POINTS_UNSMOOTHED:
            axes.plot(steps, values, color=colour, label=text, marker="o" if len(steps) < 12 else None, markersize=3.5)
            continue
        axes.plot(steps, values, color=colour, alpha=0.25, linewidth=0.8)
        axes.plot(steps, _running_mean(values), color=colour, label=text)
    axes.set_title(name, fontsize=9.5, color=INK, loc="left")
    axes.set_xlabel("step", fontsize=8.5, color=FAINT)
    axes.tick_params(labelsize=8, colors=FAINT, length=3)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if name == "percent":
        axes.set_ylim(-2, 102)
    for side, spine in axes.spines.items():
        spine.set_color(GRID)
        spine.set_visible(side in ("left", "bottom"))
    if len(lines) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)


def _running_mean(values: np.ndarray) -> np.ndarray:
    """The mean over a window of a twentieth of the series, of what there is of it at the ends."""
    window = max(3, len(values) // 20)
    kernel = np.ones(window)
    mean: np.ndarray = np.convolve(values, kernel, "same") / np.convolve(np.ones_like(values), kernel, "same")
    return mean


def _colours(count: int) -> list[str]:
    return [PALETTE[number % len(PALETTE)] for number in range(count)]
