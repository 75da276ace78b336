"""Pages of measurements: a section is written again, the others stay."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from watchword.report.record import machine, write_section


def test_a_section_is_written_again_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "my_results.md"
    write_section(page, "First", "watchword one", "| a |\n")
    page.write_text(page.read_text() + "\n## By hand\n\nWhat it means.\n")
    before = page.read_text()
    assert before.startswith("# My results\n\n## First\n\n- Command: `watchword one`\n- Date: " + date.today().isoformat())
    write_section(page, "Second", "watchword two", "| b |")
    write_section(page, "First", "watchword one --more", "| c |")
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == ["# My results", "## First", "## By hand", "## Second"]
    assert "| a |" not in text and "`watchword one --more`" in text and "| c |\n\n## By hand\n\nWhat it means.\n\n## Second" in text
    assert text.endswith("| b |\n")


def test_the_machine_is_told_without_its_name() -> None:
    told = machine()
    assert "cores" in told["Processor"] and "torch" in told["Versions"] and told.keys() == {"Processor", "System", "Versions"}
