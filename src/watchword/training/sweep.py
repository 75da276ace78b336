"""Sweeps: one recipe run with several changes and several seeds, side by side in a table.

Every run is ``watchword train`` in a process of its own: a stopped sweep goes on where it was, and a run that fails spoils no other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import ConfigError, InputError
from ..files import write_text
from ..reserve import Reserve, ReserveConfig
from ..weights.folders import CONFIG_FILE, read_json
from ..xclip.checkpoints import config_from
from ..xclip.class_heads import HeadName
from ..xclip.cost import Cost, count_cost
from ..xclip.views import Views
from .recipes import check_evaluated, load_recipe
from .schema import ImageTextRecipe, SupervisedRecipe

__all__ = ["Evaluation", "Row", "Sweep", "load_sweep", "run_sweep", "table"]


class Evaluation(BaseModel):
    """No training: the row called ``of`` is evaluated again, each clip in ``views``, such as 4x1 (see ``Views.parse``)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: str
    views: str


class Row(BaseModel):
    """One line of the table: what it changes. In texts, ``{seed}`` and ``{folder}`` stand for the run's seed and the sweep's folder.

    ``recipe`` replaces the sweep's own; ``paper`` is the paper's figure, shown beside ours. With ``evaluate`` nothing is trained.
    What is prepared with a ``seed`` of its own is run once, for all seeds of the sweep.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    recipe: Path | None = None
    change: dict[str, Any] = {}
    evaluate: Evaluation | None = None
    paper: str = ""
    seed: int | None = None


class Sweep(BaseModel):
    """A sweep: ``prepare`` is run for each seed before its ``rows`` and is no line. ``metrics`` maps results to column titles.

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
        sweep = Sweep(**yaml.safe_load(path.read_text(encoding="utf-8")))
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
    for row in sweep.rows:
        if row.seed is not None:
            raise ConfigError(
                f"{path}: row {row.name!r} has a seed of its own, but a line of the table is of all seeds: only prepare can have one"
            )
        if row.evaluate is not None:
            _check_evaluation(path, sweep, row, row.evaluate)
    placed = [row.model_copy(update={"recipe": path.parent / (row.recipe or sweep.recipe)}) for row in (*sweep.prepare, *sweep.rows)]
    sweep = sweep.model_copy(update={"prepare": tuple(placed[: len(sweep.prepare)]), "rows": tuple(placed[len(sweep.prepare) :])})
    for row in sweep.rows:
        if row.evaluate is not None:
            _check_evaluated(path, sweep, row, Views.parse(row.evaluate.views))
    return sweep


def _check_evaluation(path: Path, sweep: Sweep, row: Row, evaluation: Evaluation) -> None:
    trained = [other.name for other in sweep.rows if other.evaluate is None]
    if evaluation.of not in trained:
        raise ConfigError(f"{path}: row {row.name!r} evaluates {evaluation.of!r}, which is no row that is trained")
    if row.change or row.recipe is not None:
        raise ConfigError(f"{path}: row {row.name!r} evaluates another row and can change nothing: drop its change and recipe")
    try:
        Views.parse(evaluation.views)
    except InputError as error:
        raise ConfigError(f"{path}: row {row.name!r}: {error}") from error


def _check_evaluated(path: Path, sweep: Sweep, row: Row, views: Views) -> None:
    """Now, not after the row that it evaluates has been trained."""
    trained = _trained(sweep, row)
    try:
        check_evaluated(load_recipe(trained.recipe or sweep.recipe, _changes(sweep, trained)), views)
    except ConfigError as error:
        raise ConfigError(f"{path}: row {row.name!r}: {error}") from error


def run_sweep(
    sweep: Sweep, folder: str | Path, *, jobs: int = 1, device: str = "auto", report: Callable[[str], None] = lambda line: None
) -> dict[str, list[dict[str, Any]]]:
    """Run what is not yet done, ``jobs`` runs at a time and one seed after the other, and write ``table.md`` anew after each.

    A run starts as soon as what it needs of its seed is over: all that is prepared or, for an evaluation, the row that it is of.
    Returns each row's results, one for each seed that has succeeded. What fails is told to ``report`` and leaves its line short.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def one(row: Row, seed: int) -> None:
        out = _place(folder, row, seed)
        if not (out / "results.json").exists():
            outcome = _run(sweep, row, seed, folder, device, max(1, (os.cpu_count() or 1) // jobs))
            if outcome == "done":
                write_text(out / "row.json", _made_of(sweep, row))
            report(f"{row.name}, seed {seed}: {outcome}")
        elif _is_outdated(sweep, row, out):
            report(f"{row.name}, seed {seed}: left out, its plan or recipe has changed since it ran; delete {str(out)!r} to run it anew")

    waiting = _runs(sweep)
    running: dict[Future[None], tuple[str, int]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        while waiting or running:
            unfinished = {*running.values(), *((row.name, seed) for row, seed in waiting)}
            ready = [(row, seed) for row, seed in waiting if not unfinished.intersection(_needs(sweep, row, seed))]
            for row, seed in ready[: jobs - len(running)]:
                waiting.remove((row, seed))
                running[pool.submit(one, row, seed)] = (row.name, seed)
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                del running[done]
                done.result()
            write_text(folder / "table.md", table(sweep, folder))
    return _results(sweep, folder)


def _made_of(sweep: Sweep, row: Row) -> str:
    """What a row's numbers depend on, as far as the plan says it."""
    trained = _trained(sweep, row)
    recipe = (trained.recipe or sweep.recipe).read_bytes()
    evaluation = row.evaluate.model_dump() if row.evaluate else None
    made = {"recipe_sha256": hashlib.sha256(recipe).hexdigest(), "change": _changes(sweep, trained), "evaluate": evaluation}
    return json.dumps(made, indent=1, sort_keys=True)


def _is_outdated(sweep: Sweep, row: Row, out: Path) -> bool:
    made = out / "row.json"
    return made.exists() and made.read_text() != _made_of(sweep, row)


def _runs(sweep: Sweep) -> list[tuple[Row, int]]:
    """Every run in the order it is wanted, one seed after the other."""
    runs: list[tuple[Row, int]] = []
    for seed in sweep.seeds:
        every = [(row, seed if row.seed is None else row.seed) for row in (*sweep.prepare, *sweep.rows)]
        runs += [run for run in every if run not in runs]
    return runs


def _needs(sweep: Sweep, row: Row, seed: int) -> list[tuple[str, int]]:
    if row.evaluate is not None:
        return [(row.evaluate.of, seed)]
    return [] if row in sweep.prepare else [(one.name, seed if one.seed is None else one.seed) for one in sweep.prepare]


def _run(sweep: Sweep, row: Row, seed: int, folder: Path, device: str, num_threads: int) -> str:
    trained = _trained(sweep, row)
    values = {"training.seed": seed, **_changes(sweep, trained)}
    texts = (f"{key}={json.dumps(value)}".replace("{seed}", str(seed)).replace("{folder}", str(folder)) for key, value in values.items())
    command = [sys.executable, "-m", "watchword", "train", str(trained.recipe), "--out", str(_place(folder, trained, seed))]
    command += ["--device", device, "--quiet", *(part for text in texts for part in ("--set", text))]
    if row.evaluate is not None:
        command += ["--views", row.evaluate.views]
    environment = {"OMP_NUM_THREADS": str(num_threads), **os.environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no word why'])[-1]}"
    if row.evaluate is not None:  # a training writes its results itself
        _place(folder, row, seed).mkdir(parents=True, exist_ok=True)
        write_text(_place(folder, row, seed) / "results.json", done.stdout)
    return "done"


def _trained(sweep: Sweep, row: Row) -> Row:
    """The row whose training a row's numbers are of: its own but for an evaluation."""
    return row if row.evaluate is None else next(other for other in sweep.rows if other.name == row.evaluate.of)


def _changes(sweep: Sweep, row: Row) -> dict[str, Any]:
    return row.change if row in sweep.prepare else {**sweep.change, **row.change}


def _results(sweep: Sweep, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What is done, but for what was run by another plan or recipe."""
    results: dict[str, list[dict[str, Any]]] = {}
    for row in sweep.rows:
        places = [_place(folder, row, seed) for seed in sweep.seeds]
        done = [place / "results.json" for place in places if (place / "results.json").exists() and not _is_outdated(sweep, row, place)]
        results[row.name] = [json.loads(path.read_text()) for path in done]
    return results


def table(sweep: Sweep, folder: str | Path) -> str:
    """The table of what is done, in Markdown: for each row the metrics' mean and deviation over the seeds, and what a variant costs.

    GFLOPs are billions of multiply-accumulates of X-CLIP for one clip and one label, as the paper counts them, times the number of views.
    """
    folder = Path(folder)
    results = _results(sweep, folder)
    with_paper = any(row.paper for row in sweep.rows)
    head = ["", *sweep.metrics.values(), "GFLOPs", "million parameters", "seeds", *(["the paper's"] if with_paper else [])]
    lines = [head, ["---"] * len(head)]
    for row in sweep.rows:
        numbers = [_mean([float(result[metric]) for result in results[row.name] if metric in result]) for metric in sweep.metrics]
        cost = _cost(sweep, row, folder)
        lines.append([row.name, *numbers, *cost, str(len(results[row.name])), *([row.paper] if with_paper else [])])
    escaped = [[cell.replace("|", "\\|") for cell in cells] for cells in lines]
    return f"{sweep.title}\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in escaped) + "\n"


def _cost(sweep: Sweep, row: Row, folder: Path) -> tuple[str, str]:
    """GFLOPs and million parameters of the variant as its finished runs have saved it; empty if none has."""
    trained = _trained(sweep, row)
    files = [path for seed in sweep.seeds if (path := _place(folder, trained, seed) / "model" / CONFIG_FILE).exists()]
    if not files:
        return "", ""
    recipe = load_recipe(trained.recipe or sweep.recipe, _changes(sweep, trained))
    if not isinstance(recipe, SupervisedRecipe | ImageTextRecipe):
        return "", _rounded(_reserve_parameters(files[0]) / 1e6)
    cost = _counted(files[0], recipe.head, len(recipe.templates)) if isinstance(recipe, SupervisedRecipe) else _counted(files[0])
    views = f" x {Views.parse(row.evaluate.views).count}" if row.evaluate is not None else ""
    return _rounded(cost.total) + views, _rounded(cost.parameters)


@cache
def _counted(path: Path, head: HeadName = "names", num_templates: int = 1) -> Cost:
    values = read_json(path)
    values.pop("model_type")
    return count_cost(config_from(values), head=head, num_templates=num_templates)


@cache
def _reserve_parameters(path: Path) -> int:
    values = read_json(path)
    values.pop("model_type")
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Reserve(ReserveConfig.from_dict(values)).parameters())


def _rounded(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.0f}"


def _mean(numbers: Sequence[float]) -> str:
    if not numbers:
        return ""
    return f"{statistics.mean(numbers):.1f}" + (f" ± {statistics.stdev(numbers):.1f}" if len(numbers) > 1 else "")


def _place(folder: Path, row: Row, seed: int) -> Path:
    return folder / f"{_slug(row.name)}-seed{seed}"


def _slug(name: str) -> str:
    return re.sub(r"\W+", "-", name.lower()).strip("-")
