"""``watchword sweep``: one recipe with several changes and seeds, in a table."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from .notes import check_folder, check_writable, note

__all__ = ["sweep"]


def sweep(
    context: typer.Context,
    plan: Path = typer.Argument(..., help="A sweep, such as recipes/ablations/supervised.yaml."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the runs; what was done there is not done again."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, help="Runs at a time; the cores are shared among them."),
    page: Path | None = typer.Option(
        None, "--table", metavar="PAGE.md", help="Also put the table on record: a section of this page, with command, date and machine."
    ),
    device: str = typer.Option("auto", "--device", help="cpu, cuda, cuda:1, mps; auto takes a GPU if there is one."),
) -> None:
    """Train and evaluate every row of a plan with every seed, and print the table; it is in OUT/table.md too.

    Stopped at any moment, the same command goes on.
    """
    from ..report.record import write_section
    from ..training.sweep import load_sweep, run_sweep

    chosen = load_sweep(plan)
    check_folder(out)
    check_writable(page, "--table")
    results = run_sweep(chosen, out, jobs=jobs, device=device, report=note)
    named = {name for found in results.values() for result in found for name in result}
    for metric in chosen.metrics:
        if named and metric not in named:
            note(f"note: no run has a result {metric!r}; they have {', '.join(sorted(named))}")
    if page is not None:
        heading = f"{plan.resolve().parent.name}: {plan.stem}".replace("_", " ").capitalize()
        write_section(page, heading, shlex.join(["watchword", *context.obj]), (out / "table.md").read_text())
        note(f"the table is in {page}")
    print((out / "table.md").read_text(), end="")
    if any(len(results[row.name]) < len(chosen.seeds) for row in chosen.rows):
        raise typer.Exit(1)
