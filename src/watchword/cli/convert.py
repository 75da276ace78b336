"""``watchword convert``: weights from one format to another."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

from .notes import new_folder, note, warnings_as_notes, writing

__all__ = ["convert"]


class Target(StrEnum):
    watchword = "watchword"
    huggingface = "huggingface"


def convert(
    source: str = typer.Argument(..., help="Name, folder, .pth or .safetensors file, Hub repository, or clip:MODEL/TAG."),
    out: Path = typer.Argument(..., help="Folder to write; must be new or empty."),
    to: Target = typer.Option(
        Target.watchword, "--to", help="watchword: config.json and model.safetensors; huggingface: for transformers."
    ),
    num_frames: int | None = typer.Option(None, "--num-frames", min=1, help="Frames of a clip, if another number is wanted."),
    interpolate: bool = typer.Option(False, "--interpolate", help="With --num-frames: interpolate the temporal positions."),
    half: bool = typer.Option(False, "--half", help="Write float16: half the size, rounded; loading makes float32 of it again."),
    activation: str | None = typer.Option(None, "--activation", help="For files that do not say it: quick_gelu or gelu."),
) -> None:
    """Convert X-CLIP weights. What is missing, extra or of another shape is an error with a table, and nothing is written."""
    new_folder(out)
    with warnings_as_notes():
        from ..xclip.checkpoints import load, save, save_huggingface

        model = load(source, num_frames=num_frames, temporal_interpolation=interpolate, activation=activation)
        if half:
            model.half()
        with writing(out):
            (save if to is Target.watchword else save_huggingface)(model, out)
    config = model.config
    note(f"wrote {out}: {config.num_frames} frames of {config.image_size} pixels, weights {config.weights!r}")
