"""``watchword models``: which weights there are, and which to use."""

from __future__ import annotations

import sys

import typer

from .notes import print_table
from .tag import DEFAULT_MODEL

__all__ = ["models"]

BYTES_PER_WEIGHT = 4


def models(as_json: bool = typer.Option(False, "--json", help="Everything that is known, licences included, as JSON.")) -> None:
    """List the weights that can be named with --model, with size, training data, reported accuracy and licences.

    Below them stand image-text models that tag as the mean of their frames, or are expanded and trained: see watchword expand.
    """
    from dataclasses import asdict

    from ..report.text import fitting, to_json
    from ..xclip.expandable import EXPANDABLE
    from ..xclip.registry import PAPER, RELEASED

    rows = [{**asdict(row), "default": row.name == DEFAULT_MODEL, "kind": "released"} for row in RELEASED.values()]
    rows += [{"name": row.name, **asdict(row), "default": False, "kind": "expandable"} for row in EXPANDABLE]
    if as_json:
        print(to_json(rows, indent=2))
        return
    from rich import box
    from rich.table import Table

    def table_of(numbers: tuple[str, ...], words: tuple[str, ...]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column("name", no_wrap=True)
        for column in numbers:
            table.add_column(column, justify="right", no_wrap=True)
        for column in words:
            table.add_column(column, overflow="fold", min_width=min(20, max(len(column), 8)))
        return table

    table = table_of(("frames", "pixels", "MB"), ("trained on", "reported", "use for"))
    licences: dict[tuple[str, str, str], list[str]] = {}
    for row in RELEASED.values():
        size = "in the package" if row.bundled else f"{row.num_parameters * BYTES_PER_WEIGHT / 1e6:,.0f}"
        use_for = f"{row.use_for} (default)" if row.name == DEFAULT_MODEL else row.use_for
        reported = fitting(row.reported.removesuffix(f" ({PAPER})"), sys.stdout.encoding)
        table.add_row(row.name, str(row.num_frames), str(row.image_size), size, row.training_data, reported, use_for)
        licences.setdefault((row.code_licence, row.weights_licence, row.data_licence), []).append(row.training_data.partition(",")[0])
    print_table(table, width=180)
    print(f"\nReported: by {PAPER}, not measured here.\n\nLicences:")
    for (code, weights, data), trained_on in licences.items():
        print(f"  trained on {', '.join(dict.fromkeys(trained_on))}\n    code: {code}\n    weights: {weights}\n    data: {data}")

    table = table_of(("pixels", "MB"), ("image tower", "trained on", "scores", "use for"))
    for image_text in EXPANDABLE:
        megabytes = (image_text.num_parameters - image_text.num_new_parameters) * BYTES_PER_WEIGHT / 1e6 if image_text.tag else 0
        table.add_row(
            image_text.name,
            str(image_text.image_size),
            f"{megabytes:,.0f}" if megabytes else "-",
            image_text.tower,
            image_text.training_data,
            image_text.scored_by,
            image_text.use_for,
        )
    print("\nImage-text models of open_clip, without training on video the mean of 8 frames (others of open_clip can be named too):\n")
    print_table(table, width=180)
    print(
        "\nNothing about them was measured here. Licences: see the pages of the weights on the Hub. "
        "SigLIP's tokenizer is fetched from there too, and read by transformers."
    )
