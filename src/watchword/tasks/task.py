"""What every benchmark task of MERLOT Reserve has: the files its owners publish, and what its evaluation gives."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..devices import Precision
from ..errors import ConfigError
from ..reserve.answers import Use
from ..weights.states import hash_state

if TYPE_CHECKING:
    from ..reserve import Reserve
    from ..xclip import XClip

__all__ = ["DataReport", "EvaluationOptions", "Needed", "Task", "TaskResult", "look_for", "percent", "require", "weights_record"]


@dataclass(frozen=True)
class Needed:
    """A file or folder of a published data set.

    Attributes:
        path: below the data set's folder; ``*`` stands for anything.
        what: in words.
        where: the address at which its owners give it.
        terms: the licence, or the form to sign.
        optional: the task runs without it.
    """

    path: str
    what: str
    where: str
    terms: str
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """What of a data set is there.

    Attributes:
        num_items: questions, clips, ... that can be read from its files.
        missing: of the files that are needed.
        problems: one line each: items whose video is not there, rows that cannot be understood.
        notes: one line each, nothing to worry about.
    """

    num_items: int = 0
    missing: tuple[Needed, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "missing": [vars(needed) for needed in self.missing]}


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How a task is evaluated, whatever task it is.

    Attributes:
        use: ``sound``, ``frames``, or ``auto``: what the task's own protocol takes.
        limit: only so many items, the first.
        settings: the task's own, by name.
        on_progress: is told the share that is done, from 0 to 1.
    """

    device: str = "auto"
    precision: Precision = "float32"
    use: Use = "auto"
    limit: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    on_progress: Callable[[float], None] = lambda share: None


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """What an evaluation gives. Every item counts: one whose video cannot be read counts as wrong, and its row says why.

    Attributes:
        task: name of the task and its settings, in words.
        metrics: in percent, in the order in which they are told.
        rows: one for each item, all with the same keys, among them ``id`` and ``error``, which is empty where all went well.
        baselines: metrics of answers that need no model, by name: ``random``, ``prior``.
        exports: by name, the files that a leaderboard takes.
        notes: what a user should know, a line each.
        settings: with what it was measured: weights, hashes, protocol.
    """

    task: str
    metrics: dict[str, float]
    rows: Sequence[Mapping[str, Any]]
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    exports: dict[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["error"]]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the rows, which ``as_csv`` has, and the exports, as plain values."""
        metrics, baselines = _plain(self.metrics), {name: _plain(metrics) for name, metrics in self.baselines.items()}
        counts = {"num_items": len(self.rows), "num_failed": len(self.failed)}
        return {"task": self.task, **metrics, **counts, "baselines": baselines, "notes": self.notes, **self.settings}

    def as_csv(self) -> str:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(self.rows[0]) if self.rows else ["id", "error"], lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()


def _plain(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """With None for what is no number, which JSON has not."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


class Task(Protocol):
    """A benchmark. ``settings`` in what follows are the task's own, by name; unknown ones are a ConfigError that lists those there are."""

    name: str
    title: str
    needs: Sequence[Needed]

    def check(self, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        """What of the data set is in ``folder``. Raises ConfigError, naming file and row, for a file that is of another form."""
        ...

    def evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """Measure the weights ``model``. Raises ConfigError if a needed file is missing or of another form."""
        ...


def look_for(folder: Path, needs: Sequence[Needed]) -> tuple[Needed, ...]:
    """Those that are not in the folder, but for optional ones."""
    return tuple(needed for needed in needs if not needed.optional and not any(folder.glob(needed.path)))


def percent(hits: Sequence[bool]) -> float:
    """nan of nothing."""
    return 100 * sum(hits) / len(hits) if hits else float("nan")


def weights_record(model: Reserve | XClip) -> dict[str, str]:
    """What is on record of the weights that were measured: their name, and a hash of them."""
    return {"weights": model.config.weights, "weights_sha256": hash_state(model.state_dict())}


def require(folder: Path, needs: Sequence[Needed]) -> None:
    """ConfigError that names the first that is missing, and where its owners give it."""
    for needed in look_for(folder, needs):
        raise ConfigError(f"{folder}: no {needed.path.removeprefix('**/')} ({needed.what}); {needed.where} gives it: {needed.terms}")
