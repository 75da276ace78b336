"""What an evaluation of classification gives: accuracies, tables, and a row for each video."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["NUM_RANKED", "ClassResult", "ClassificationResult", "Spread", "VideoResult", "averaged", "ranked", "spread"]

NUM_RANKED = 5
METRICS = ("top1", "top5", "mean_per_class")


@dataclass(frozen=True, kw_only=True)
class VideoResult:
    """One video. If ``error`` is not empty it could not be read, and only ``path``, ``label``, ``reason`` and ``error`` count.

    Attributes:
        label: number of the true class.
        ranked: the best five classes with their probabilities, best first; a probability is the mean over the views.
        place: of the true class among all, 1 is the best.
        probability: of the true class.
        warnings: about damage in the file.
        reason, error: a fixed word and the message.
    """

    path: str
    label: int
    ranked: tuple[tuple[int, float], ...] = ()
    place: int = 0
    probability: float = 0.0
    warnings: tuple[str, ...] = ()
    reason: str = ""
    error: str = ""

    @property
    def guess(self) -> int:
        return self.ranked[0][0]


def ranked(path: str | Path, label: int, shares: npt.NDArray[np.float64], warnings: tuple[str, ...] = ()) -> VideoResult:
    """The result of a video that shows class ``label``, from the probabilities of all classes (K,)."""
    order = np.argsort(-shares, kind="stable")
    return VideoResult(
        path=str(path),
        label=label,
        ranked=tuple((int(number), float(shares[number])) for number in order[:NUM_RANKED]),
        place=1 + int(np.flatnonzero(order == label)[0]),
        probability=float(shares[label]),
        warnings=warnings,
    )


@dataclass(frozen=True)
class ClassResult:
    """One class: how many of its videos were read, the percentage right (None without videos), and what it is most taken for."""

    name: str
    num_videos: int
    top1: float | None
    taken_for: str = ""
    num_taken: int = 0


@dataclass(frozen=True, kw_only=True)
class ClassificationResult:
    """Accuracies in percent over the videos that could be read; those that could not are in ``failed``.

    Attributes:
        protocol: name of the protocol or the list.
        class_names: all candidates, in order.
        videos: a result for each video of the list, in its order.
        settings: with what it was measured (weights, views, precision, hashes, ...), plain values.
    """

    protocol: str
    class_names: tuple[str, ...]
    videos: tuple[VideoResult, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def read(self) -> list[VideoResult]:
        return [video for video in self.videos if not video.error]

    @cached_property
    def failed(self) -> list[VideoResult]:
        return [video for video in self.videos if video.error]

    @cached_property
    def wrong(self) -> list[VideoResult]:
        """Videos whose best class is not the true one, the surest mistakes first."""
        return sorted((video for video in self.read if video.place != 1), key=lambda video: -video.ranked[0][1])

    @property
    def top1(self) -> float:
        return self._within(1)

    @property
    def top5(self) -> float | None:
        """None with fewer than five classes, where it would say nothing."""
        return self._within(5) if len(self.class_names) >= 5 else None

    @property
    def mean_per_class(self) -> float:
        """The mean of the classes' accuracies, over the classes with videos: each class counts the same."""
        return float(np.mean([row.top1 for row in self.per_class if row.top1 is not None]))

    def _within(self, places: int) -> float:
        return 100 * sum(video.place <= places for video in self.read) / len(self.read)

    @cached_property
    def confusion(self) -> npt.NDArray[np.int64]:
        """(K, K) numbers of videos: rows are true classes, columns what they were taken for."""
        table = np.zeros((len(self.class_names), len(self.class_names)), np.int64)
        for video in self.read:
            table[video.label, video.guess] += 1
        return table

    @cached_property
    def per_class(self) -> list[ClassResult]:
        rows = []
        for number, (name, row) in enumerate(zip(self.class_names, self.confusion, strict=True)):
            others = row.copy()
            others[number] = 0
            worst = int(others.argmax())
            taken = (self.class_names[worst], int(others[worst])) if others[worst] else ("", 0)
            rows.append(ClassResult(name, int(row.sum()), 100 * float(row[number] / row.sum()) if row.sum() else None, *taken))
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Everything but the videos' own rows, which ``as_csv`` has, as plain values."""
        return {
            "protocol": self.protocol,
            **{name: getattr(self, name) for name in METRICS},
            "num_samples": len(self.read),
            "num_failed": len(self.failed),
            "num_classes": len(self.class_names),
            "num_classes_with_videos": sum(row.num_videos > 0 for row in self.per_class),
            **self.settings,
            "failed": [{"path": video.path, "reason": video.reason, "error": video.error} for video in self.failed],
            "per_class": [vars(row) for row in self.per_class],
        }

    def as_csv(self) -> str:
        """A row for each video: path, label, guess, the place and probability of the truth, the best five, and what is wrong with it."""
        num_ranked = min(NUM_RANKED, len(self.class_names))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        best = [f"{name}_{place}" for place in range(1, num_ranked + 1) for name in ("class", "probability")]
        writer.writerow(["path", "label", "guess", "right", "place", "probability", *best, "reason", "error"])
        for video in self.videos:
            label = self.class_names[video.label]
            if video.error:
                writer.writerow([video.path, label, *[""] * (4 + len(best)), video.reason, video.error])
                continue
            cells = [cell for number, share in video.ranked for cell in (self.class_names[number], f"{share:.6f}")]
            right = "yes" if video.place == 1 else "no"
            own = [self.class_names[video.guess], right, video.place, f"{video.probability:.6f}"]
            writer.writerow([video.path, label, *own, *cells, "", ""])
        return out.getvalue()


@dataclass(frozen=True)
class Spread:
    """Of one number over several results: its mean, its sample standard deviation (n - 1; None for one result), and the numbers."""

    mean: float
    deviation: float | None
    values: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.deviation is None else f"{self.mean:.1f} ± {self.deviation:.1f}"


def spread(results: Sequence[ClassificationResult]) -> dict[str, Spread]:
    """The mean and deviation of every accuracy over splits, draws or seeds; a metric that a result lacks is left out.

    Raises InputError if there is no result, or results have another number of classes or of views: those are not to be averaged.
    """
    if not results:
        raise InputError("there are no results to take the mean of")
    for name, values in (
        ("numbers of classes", {len(result.class_names) for result in results}),
        ("views", {str(result.settings.get("views")) for result in results}),
    ):
        if len(values) > 1:
            raise InputError(f"results of different {name} have no common mean: {', '.join(sorted(map(str, values)))}")
    table = {}
    for metric in METRICS:
        numbers = [getattr(result, metric) for result in results]
        if None not in numbers:
            deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
            table[metric] = Spread(float(np.mean(numbers)), deviation, tuple(numbers))
    return table


def averaged(protocol: str, results: Sequence[ClassificationResult]) -> dict[str, Any]:
    """Plain values: mean and deviation of each accuracy over splits or draws, with what all results have in common, and each of them.

    Errors are those of `spread`.
    """
    table = spread(results)
    each = [result.as_dict() for result in results]
    numbers: dict[str, Any] = {}
    for metric, over in table.items():
        numbers |= {metric: over.mean, f"{metric}_deviation": over.deviation}
    common = {name: value for name, value in each[0].items() if name not in numbers and all(other[name] == value for other in each[1:])}
    return {"protocol": protocol, **numbers, "num_results": len(each), **common, "results": each}
