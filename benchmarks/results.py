"""What a benchmark found, for the terminal and as Markdown."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

__all__ = ["Goal", "Report", "Table", "has_bfloat16", "machine", "markdown", "num_cores", "show"]

PACKAGES = ("watchword", "torch", "torchvision", "transformers", "av", "torchcodec", "decord2", "librosa", "jax", "flax", "numpy")


@dataclass(frozen=True)
class Table:
    """Rows of text under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Goal:
    """What was to be reached, what was measured, and whether it was enough; None where this machine cannot tell."""

    text: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.met is None else "met" if self.met else "not met"


@dataclass
class Report:
    """All that one benchmark has to say."""

    title: str
    tables: list[Table] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def all_tables(self) -> list[Table]:
        goals = [(goal.text, goal.measured, goal.verdict) for goal in self.goals]
        return [*self.tables, Table("Goals", ("goal", "measured", "verdict"), goals)]


def show(report: Report, console: Console) -> None:
    """Print a report."""
    console.rule(report.title)
    for table in report.all_tables():
        drawn = RichTable(title=table.title, title_justify="left")
        for number, column in enumerate(table.columns):
            drawn.add_column(column, justify="left" if number == 0 or table.title == "Goals" else "right")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for note in report.notes:
        console.print(f"- {note}", markup=False)


def markdown(reports: Sequence[Report], command: str) -> str:
    """One page with the command, the date and the machine on top."""
    lines = ["# Speed and memory", "", f"- Command: `{command}`", f"- Date: {date.today().isoformat()}"]
    lines += [f"- {name}: {value}" for name, value in machine().items()]
    lines += ["- Times are medians of interleaved rounds in one run.", ""]
    for report in reports:
        lines += [f"## {report.title}", ""]
        for table in report.all_tables():
            lines += [f"### {table.title}", "", _row(table.columns), _row(["---"] * len(table.columns))]
            lines += [*(_row(row) for row in table.rows), ""]
        lines += [*(f"- {note}" for note in report.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def machine() -> dict[str, str]:
    """The machine in words, without a name or a path of it."""
    load = f", load {os.getloadavg()[0]:.1f} when this was written" if hasattr(os, "getloadavg") else ""
    return {
        "Processor": f"{_processor()}, {num_cores()} cores{', bfloat16' if has_bfloat16() else ''}{load}",
        "System": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "Versions": ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name))),
    }


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware (x86: AVX-512 BF16 or AMX; Arm: BF16)."""
    return bool({"avx512_bf16", "amx_bf16", "bf16"}.intersection(_cpu_info("flags", "Features").split()))


def _processor() -> str:
    return _cpu_info("model name") or platform.processor() or sys.platform


def _cpu_info(*keys: str) -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() in keys:
            return value.strip()
    return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
