"""Sweeps: one recipe run with several changes and several seeds, side by side in a table.

Every run is ``watchword train`` in a process of its own: a stopped sweep goes on where it was, and a run that fails spoils no other.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigError
from ..files import write_text

__all__ = ["Row", "Sweep", "load_sweep", "run_sweep"]


class Row(BaseModel):
    """One line of the table: what it changes. In texts, ``{seed}`` and ``{folder}`` stand for the run's seed and the sweep's folder.

    ``recipe`` replaces the sweep's own; ``paper`` is the paper's figure, shown beside ours.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    recipe: Path | None = None
    change: dict[str, Any] = {}
    paper: str = ""


class Sweep(BaseModel):
    """A sweep: ``prepare`` is run for each seed before ``rows`` and is not in the table. ``metrics`` maps results to column titles.

    Recipes are found from the sweep's own folder. ``change`` holds for every row, and a row's own change goes before it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    recipe: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    metrics: dict[str, str]
    change: dict[str, Any] = {}
    prepare: tuple[Row, ...] = ()
    rows: tuple[Row, ...] = Field(min_length=1)


def load_sweep(path: str | Path) -> Sweep:
    """Read a sweep from YAML. Raises ConfigError, naming the key, for what is no sweep."""
    path = Path(path)
    try:
        sweep = Sweep(**yaml.safe_load(path.read_text()))
    except OSError as error:
        raise ConfigError(f"{path}: no such sweep ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise ConfigError(f"{path}: a sweep is a YAML mapping of keys to values ({' '.join(str(error).split())})") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{path}: {'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error
    names = [_slug(row.name) for row in (*sweep.prepare, *sweep.rows)]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"{path}: two rows are called {sorted(repeated)[0]!r}")
    placed = [row.model_copy(update={"recipe": path.parent / (row.recipe or sweep.recipe)}) for row in (*sweep.prepare, *sweep.rows)]
    return sweep.model_copy(update={"prepare": tuple(placed[: len(sweep.prepare)]), "rows": tuple(placed[len(sweep.prepare) :])})


def run_sweep(
    sweep: Sweep, folder: str | Path, *, jobs: int = 1, device: str = "auto", report: Callable[[str], None] = lambda line: None
) -> dict[str, list[dict[str, Any]]]:
    """Run what is not yet done, ``jobs`` runs at a time, and write ``table.md`` anew after each.

    Returns each row's results, one for each seed that has succeeded. What fails is told to ``report`` and leaves its line short.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def one(row: Row, seed: int, change: dict[str, Any]) -> None:
        out = _place(folder, row, seed)
        if not (out / "results.json").exists():
            report(f"{row.name}, seed {seed}: {_train(row, seed, change, folder, out, device, max(1, (os.cpu_count() or 1) // jobs))}")
        write_text(folder / "table.md", _table(sweep, _results(sweep, folder)))

    for rows, change in ((sweep.prepare, {}), (sweep.rows, sweep.change)):
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda task: one(*task), [(row, seed, change) for seed in sweep.seeds for row in rows]))
    return _results(sweep, folder)


def _train(row: Row, seed: int, change: dict[str, Any], folder: Path, out: Path, device: str, num_threads: int) -> str:
    values = {"training.seed": seed, **change, **row.change}
    texts = (f"{key}={json.dumps(value)}".replace("{seed}", str(seed)).replace("{folder}", str(folder)) for key, value in values.items())
    command = [sys.executable, "-m", "watchword", "train", str(row.recipe), "--out", str(out), "--device", device, "--quiet"]
    environment = {"OMP_NUM_THREADS": str(num_threads), **os.environ}
    done = subprocess.run(
        [*command, *(part for text in texts for part in ("--set", text))], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no word why'])[-1]}"
    return "done"


def _results(sweep: Sweep, folder: Path) -> dict[str, list[dict[str, Any]]]:
    paths = {row.name: [_place(folder, row, seed) / "results.json" for seed in sweep.seeds] for row in sweep.rows}
    return {name: [json.loads(path.read_text()) for path in found if path.exists()] for name, found in paths.items()}


def _table(sweep: Sweep, results: dict[str, list[dict[str, Any]]]) -> str:
    with_paper = any(row.paper for row in sweep.rows)
    head = ["", *sweep.metrics.values(), "seeds", *(["the paper's"] if with_paper else [])]
    lines = [head, ["---"] * len(head)]
    for row in sweep.rows:
        numbers = [_mean([float(result[metric]) for result in results[row.name] if metric in result]) for metric in sweep.metrics]
        lines.append([row.name, *numbers, str(len(results[row.name])), *([row.paper] if with_paper else [])])
    return f"{sweep.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _mean(numbers: Sequence[float]) -> str:
    if not numbers:
        return ""
    return f"{statistics.mean(numbers):.1f}" + (f" ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else "")


def _place(folder: Path, row: Row, seed: int) -> Path:
    return folder / f"{_slug(row.name)}-seed{seed}"


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")
