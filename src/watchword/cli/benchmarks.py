"""What ``watchword evaluate TASK --data DIR --model M`` and ``watchword data check TASK DIR`` do: the benchmarks of MERLOT Reserve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from ..errors import ConfigError
from .notes import check_folder, note, print_table, progress, warnings_as_notes, write_beside, writing
from .running import ALL_DONE, SOME_FAILED
from .values import parse_settings

if TYPE_CHECKING:
    from ..tasks.task import DataReport, TaskResult

__all__ = ["check_task", "evaluate_task", "is_task"]

_SHOWN = 10  # problems of a data set


def is_task(name: str) -> bool:
    """False for a protocol of X-CLIP. ConfigError, listing all, for what is neither."""
    from typing import get_args

    from ..datasets.protocols import ProtocolName
    from ..tasks.registry import TASKS

    protocols = get_args(ProtocolName)
    if name not in TASKS and name not in protocols:
        raise ConfigError(f"no task is called {name!r}: choose one of {', '.join((*TASKS, *protocols))}")
    return name in TASKS


def evaluate_task(
    name: str, data: Path, model: str, made: dict[str, str], *, settings: Sequence[str], out: Path | None, as_json: bool, **options: Any
) -> NoReturn:
    """Measure, print the metrics beside those of answers without a model, write what ``out`` is for, and exit."""
    from ..tasks.registry import find_task
    from ..tasks.task import EvaluationOptions

    if out is not None:
        check_folder(out)
    with warnings_as_notes():
        task = find_task(name)
        if task.needs and not data.is_dir():
            raise ConfigError(f"--data: {str(data)!r} is no folder")
        note(f"{task.name}: {task.title}")
        with progress(1, "evaluating") as advance:
            chosen = EvaluationOptions(settings=parse_settings(settings), on_progress=lambda share: advance(0, share), **options)
            result = task.evaluate(data, model, chosen)
    for line in result.notes:
        note(f"note: {line}")
    numbers = {**made, **result.as_dict()}
    if out is not None:
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        files = {
            "results.json": f"{json.dumps(numbers, indent=1)}\n".encode(),
            "items.csv": result.as_csv().encode("utf-8", "surrogateescape"),
        }
        for file, content in (files | result.exports).items():
            with writing(out):
                (out / file).parent.mkdir(parents=True, exist_ok=True)
            write_beside(out / file, content)
        note(f"wrote {', '.join(files | result.exports)} into {out}")
    if as_json:
        print(json.dumps(numbers))
    else:
        _print(result)
    raise typer.Exit(SOME_FAILED if result.failed else ALL_DONE)


def _print(result: TaskResult) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..report.text import printable

    failed = f", {len(result.failed)} could not be answered and count as wrong" if result.failed else ""
    print(f"{len(result.rows)} items{failed}")
    reasons = list(dict.fromkeys(" ".join(str(row["error"]).split()) for row in result.failed))
    for reason in reasons[:_SHOWN]:
        note(f"failed: {printable(reason)}")
    if len(reasons) > _SHOWN:
        note(f"failed: … and {len(reasons) - _SHOWN} more; --out lists all in items.csv")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("percent")
    weights = str(result.settings.get("weights", "model"))
    for column in ("the model" if weights in result.baselines else weights, *result.baselines):
        table.add_column(Text(printable(column)), justify="right")
    for metric, value in result.metrics.items():
        others = (result.baselines[column].get(metric) for column in result.baselines)
        table.add_row(metric.replace("_", " "), f"{value:.2f}", *("" if other is None else f"{other:.2f}" for other in others))
    print_table(table, width=120)


def check_task(name: str, folder: Path, *, settings: Sequence[str], as_json: bool) -> NoReturn:
    """Say what of a task's data set is in a folder. Exits with 0, or 1 if something is missing."""
    from ..report.text import to_json
    from ..tasks.registry import find_task

    task = find_task(name)
    if task.needs and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is no folder")
    report = task.check(folder, parse_settings(settings))
    if as_json:
        print(to_json(report.as_dict(), indent=2))
    else:
        print(f"{task.name}: {task.title}")
        _print_report(report)
    raise typer.Exit(1 if report.missing or report.problems else 0)


def _print_report(report: DataReport) -> None:
    from ..report.text import printable

    for needed in report.missing:
        print(f"missing: {needed.path.removeprefix('**/')} ({needed.what}); from {needed.where}: {needed.terms}")
    if report.missing:
        return
    print(f"{report.num_items} items")
    for line in report.notes:
        print(f"note: {printable(line)}")
    for line in report.problems[:_SHOWN]:
        print(f"problem: {printable(line)}")
    if len(report.problems) > _SHOWN:
        print(f"… and {len(report.problems) - _SHOWN} more problems; --format json lists all")
    if not report.problems:
        print("no problems")
