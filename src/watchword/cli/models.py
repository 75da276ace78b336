"""``watchword models``: which weights there are, and which to use."""

from __future__ import annotations

import typer

from .tag import DEFAULT_MODEL

__all__ = ["models"]

BYTES_PER_WEIGHT = 4


def models(as_json: bool = typer.Option(False, "--json", help="Everything that is known, licences included, as JSON.")) -> None:
    """List the weights that can be named with --model.

    The accuracy is what the paper reports, not measured here; --json has its protocol, and the licences of code, weights and data.
    """
    from dataclasses import asdict

    from ..report.text import to_json
    from ..xclip.registry import RELEASED

    rows = [{**asdict(row), "default": row.name == DEFAULT_MODEL} for row in RELEASED.values()]
    if as_json:
        print(to_json(rows, indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("name", no_wrap=True)
    for column in ("frames", "pixels", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("trained on", "reported", "licences: code; weights; data", "use for"):
        table.add_column(column, overflow="fold", min_width=14)
    for row in RELEASED.values():
        size = "in the package" if row.bundled else f"{row.num_parameters * BYTES_PER_WEIGHT / 1e6:,.0f}"
        use_for = f"{row.use_for} [default]" if row.name == DEFAULT_MODEL else row.use_for
        licences = f"{row.code_licence}; {row.weights_licence}; {row.data_licence}"
        cells = (row.name, str(row.num_frames), str(row.image_size), size, row.training_data, row.reported, licences, use_for)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells), end_section=True)
    console = Console(highlight=False)
    (console if console.is_terminal else Console(width=200, highlight=False)).print(table)
