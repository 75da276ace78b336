"""What a benchmark found, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table as RichTable

from watchword.devices import num_cores
from watchword.report.record import has_bfloat16, machine, made_by

__all__ = ["Goal", "Report", "Table", "has_bfloat16", "machine", "markdown", "num_cores", "show"]


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
        return [*self.tables, *([Table("Goals", ("goal", "measured", "verdict"), goals)] if goals else [])]


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
    measured = ["- Times are medians of interleaved rounds in one run."] if any(report.goals for report in reports) else []
    lines = ["# Speed and memory" if measured else "# Plan", "", *made_by(command), *measured, ""]
    for report in reports:
        lines += [f"## {report.title}", ""]
        for table in report.all_tables():
            lines += [f"### {table.title}", "", _row(table.columns), _row(["---"] * len(table.columns))]
            lines += [*(_row(row) for row in table.rows), ""]
        lines += [*(f"- {note}" for note in report.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
