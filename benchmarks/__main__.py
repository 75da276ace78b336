"""Run the benchmarks: ``python -m benchmarks [name ...] [--quick]``."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from rich.console import Console

from .results import Report, machine, markdown, show

NAMES = (
    "xclip_speed", "decoders", "folder", "memory", "training", "spectrogram", "reserve_speed", "contrast", "pretraining_plan",
    "examples", "reserve_tasks", "zero_shot",
)  # fmt: skip
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Watchword beside its peers, in one run.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"which benchmarks: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: only shows that it runs; writes no results")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"no benchmark is called {min(unknown)!r}: choose from {', '.join(NAMES)}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    for name, value in machine().items():
        console.print(f"{name}: {value}", markup=False, highlight=False)
    reports: list[Report] = []
    for name in options.names or NAMES:
        report: Report = import_module(f".{name}", __package__).run(quick=options.quick)
        show(report, console)
        reports.append(report)
        if not options.quick:  # after each, so that a later failure takes nothing with it
            _write(f"{name}.md", [report], f"python -m benchmarks {name}") if options.names else _write(
                "speed.md", reports, "python -m benchmarks"
            )


def _write(file_name: str, reports: list[Report], command: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    partial = RESULTS / f"{file_name}.part"
    partial.write_text(markdown(reports, command), encoding="utf-8")
    partial.replace(RESULTS / file_name)


if __name__ == "__main__":
    main()
