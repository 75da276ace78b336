"""``watchword pretrain-demo``: a small MERLOT Reserve pretrained from nothing, in minutes. No network."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .notes import check_folder, note, print_table, warnings_as_notes, write_beside

if TYPE_CHECKING:
    from ..tasks.pretrain_demo import PretrainDemo

__all__ = ["pretrain_demo"]

SHOWN_OF_A_FILM = 10  # rows; the page has all


def pretrain_demo(
    output: Path = typer.Option(Path("pretrain-demo-output"), "--output", "-o", help="Folder of the demo; one that was stopped goes on."),
    films: int = typer.Option(40, "--films", min=2, max=10000, help="Films to learn from, of about three minutes each."),
    minutes: float = typer.Option(5.0, "--minutes", min=0.1, help="Of training; writing and preparing the films come before."),
    steps: int | None = typer.Option(None, "--steps", min=1, help="So many steps in place of minutes: the same model again."),
    seed: int = typer.Option(0, "--seed", min=0, help="Other seeds give other films and another model."),
    jobs: int | None = typer.Option(None, "--jobs", "-j", min=1, help="Processes that write and prepare films [default: all cores]."),
    device: str = typer.Option("auto", "--device", help="cpu, cuda, mps; auto takes a GPU if there is one."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bar."),
) -> None:
    """Pretrain a small MERLOT Reserve from nothing: write films with subtitles, prepare, train, fill in blanks on films it never saw.

    The same stages as with your own videos (docs/pretrain.md), so short that its answers stay near chance. OUTPUT gets report.html.
    """
    check_folder(output, "--output")
    with warnings_as_notes():
        from ..devices import find_device
        from ..report.pretrain_demo import page
        from ..tasks.pretrain_demo import pretrain_demo as run

        done = run(
            output,
            num_films=films,
            minutes=minutes,
            num_steps=steps,
            seed=seed,
            num_processes=jobs,
            device=str(find_device(device)),
            progress=not quiet,
            report=note,
        )
        _print(done)
        write_beside(output / "report.html", page(done).encode("utf-8", "backslashreplace"))
    note(f"wrote {output / 'report.html'}")
    note(f"the model: watchword fill VIDEO '<mask>' --options FILE --model {shlex.quote(str(done.model_path))}")


def _print(done: PretrainDemo) -> None:
    from rich import box
    from rich.table import Table

    from ..report.pretrain_demo import SHORT, answer_rows, summary
    from ..tasks.pretrain_demo import USES

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("film", "at", "truth"):
        table.add_column(column, no_wrap=True)
    for words in USES.values():
        table.add_column(f"answer from {words}", no_wrap=True)
        table.add_column("truth's place", justify="right", no_wrap=True)
    shown: dict[str, int] = {}
    for row in answer_rows(done):
        shown[row[0]] = shown.get(row[0], 0) + 1
        if shown[row[0]] <= SHOWN_OF_A_FILM:
            table.add_row(*row)
    print_table(table, width=150)
    for line in summary(done):
        print(line)
    note(SHORT)
