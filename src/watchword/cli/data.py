"""``watchword data``: look at a data set before training on it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .benchmarks import check_task, is_task
from .notes import print_table, progress, warnings_as_notes

if TYPE_CHECKING:
    from ..datasets.check import DataCheck

__all__ = ["app", "check"]

app = typer.Typer(no_args_is_help=True, help="Look at a data set before training on it.")
_SHOWN = 10  # problems of a kind in the table


class Format(StrEnum):
    table = "table"
    json = "json"


class WhichPart(StrEnum):
    train = "train"
    test = "test"


@app.callback()
def data() -> None:
    """Look at a data set before training on it."""


@app.command()
def check(
    source: Path = typer.Argument(..., help="An annotation list, a folder of class folders, or of split files; or the name of a task."),
    folder: Path | None = typer.Argument(None, help="After a task: folder of its data set, files as its owners publish them."),
    root: Path | None = typer.Option(None, "--root", help="Folder that paths are relative to; the list's own if not given."),
    classes: str | None = typer.Option(None, "--classes", help="Class list: kinetics400, kinetics600, hmdb51, ucf101, or a file."),
    split: int | None = typer.Option(
        None, "--split", min=1, max=3, help="Split, where SOURCE is a folder of split files (UCF-101, HMDB-51)."
    ),
    part: WhichPart = typer.Option(WhichPart.train, "--part", help="Part of the split."),
    held_out: Path | None = typer.Option(
        None, "--held-out", help="The list that will not be trained on (of split files: their folder); videos of both are named."
    ),
    num_frames: int | None = typer.Option(None, "--num-frames", min=1, help="Frames that a clip takes; shorter videos are named."),
    decode: bool = typer.Option(False, "--decode", help="Decode every video to its end: finds damage inside pictures, and takes long."),
    format: Format = typer.Option(Format.table, "--format", "-f", help="table shows some problems of each kind, json all."),
    num_workers: int | None = typer.Option(None, "--workers", min=1, help="Processes that read files; all cores if not given."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Task: one of its settings, such as split=test. Repeatable."),
) -> None:
    """Find what is missing, unreadable, damaged, too short, doubled, unbalanced or held out as well, and labels not in the class list.

    watchword data check TASK DIR says what is missing of a benchmark's data set, where its owners give it and on what terms.

    Of a list every video is opened; of a task it is only looked whether they are there. Exit codes: 0 nothing found, 1 problems, 2 the
    list cannot be understood.
    """
    if folder is not None:
        if is_task(str(source)):
            check_task(str(source), folder, settings=settings, as_json=format == Format.json)
        classes, source = str(source).split("-")[0].removesuffix("_zero_shot"), folder
    from ..datasets.check import check_videos
    from ..report.text import to_json

    with warnings_as_notes(), progress(1, "checking") as tell:
        found = check_videos(
            source,
            root=root,
            classes=classes,
            split=split,
            part=None if split is None else part.value,
            held_out=held_out,
            num_frames=num_frames,
            decode=decode,
            num_workers=num_workers,
            report=lambda done, total: tell(0, done / total),
        )
    if format == Format.json:
        print(to_json(found.as_dict(), indent=2))
    else:
        _print(found)
    raise typer.Exit(1 if found.problems else 0)


def _print(found: DataCheck) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..datasets.check import PROBLEM_KINDS
    from ..report.text import printable

    frames = f"; frames: {found.fewest_frames} at least, {found.median_frames} in the median" if found.fewest_frames else ""
    print(f"{found.num_videos} videos of {found.num_classes} classes, {found.num_readable} readable{frames}")
    if not found.problems:
        print("no problems")
        return
    for kind, count in found.num_by_kind.items():
        print(f"  {kind:20} {count:6}  {PROBLEM_KINDS[kind]}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("problem", no_wrap=True)
    table.add_column("what", overflow="fold", min_width=20)
    table.add_column("why", overflow="fold", min_width=20)
    for kind, count in found.num_by_kind.items():
        for problem in [problem for problem in found.problems if problem.kind == kind][:_SHOWN]:
            table.add_row(kind, Text(printable(problem.path or problem.label or "")), Text(printable(problem.message)))
        if count > _SHOWN:
            table.add_row(kind, f"… and {count - _SHOWN} more", "--format json lists all")
    print_table(table, width=180)
