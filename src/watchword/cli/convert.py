"""``watchword convert``: weights from one format to another."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import typer

from ..errors import InputError
from .notes import check_writable, new_folder, note, warnings_as_notes, writing

__all__ = ["convert"]


class Target(StrEnum):
    watchword = "watchword"
    huggingface = "huggingface"
    released = "released"


def convert(
    source: str = typer.Argument(
        ..., help="Name, folder, .pth or .safetensors file, Hub repository, or clip:MODEL/TAG; MERLOT Reserve: the authors' file, a folder."
    ),
    out: Path = typer.Argument(..., help="Folder to write, new or empty; with --to released a new file."),
    to: Target = typer.Option(
        Target.watchword,
        "--to",
        help="watchword: config.json and model.safetensors; huggingface: X-CLIP for transformers; released: the msgpack file that MERLOT "
        "Reserve's own code reads.",
    ),
    num_frames: int | None = typer.Option(None, "--num-frames", min=1, help="X-CLIP: frames of a clip, if another number is wanted."),
    interpolate: bool = typer.Option(False, "--interpolate", help="With --num-frames: interpolate the temporal positions."),
    half: bool = typer.Option(False, "--half", help="Write float16: half the size, rounded; loading makes float32 of it again."),
    activation: str | None = typer.Option(None, "--activation", help="For files that do not say it: quick_gelu or gelu."),
    grid: str | None = typer.Option(
        None, "--grid", metavar="ROWSxCOLUMNS", help="MERLOT Reserve: patches of a frame, 12x20, 18x32 or 24x24 [default: by the file]."
    ),
) -> None:
    """Convert X-CLIP or MERLOT Reserve weights. What is missing, extra or misshapen is an error with a table, and nothing is written.

    Folders of MERLOT Reserve weights get the tokenizer and a card that says what they are and which file they are from.
    """
    from ..reserve.checkpoints import holds_reserve

    if holds_reserve(source):
        if num_frames is not None or interpolate or activation is not None or to is Target.huggingface:
            raise InputError(
                f"{source} holds MERLOT Reserve weights; --num-frames, --interpolate, --activation and huggingface are X-CLIP's"
            )
        _reserve(source, out, to, half, _grid(grid))
    elif to is Target.released or grid is not None:
        raise InputError(f"{source} holds no MERLOT Reserve weights: --to released and --grid are for these")
    else:
        _xclip(source, out, to, half, num_frames, interpolate, activation)


def _xclip(source: str, out: Path, to: Target, half: bool, num_frames: int | None, interpolate: bool, activation: str | None) -> None:
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


def _reserve(source: str, out: Path, to: Target, half: bool, grid: tuple[int, int] | None) -> None:
    from ..reserve import checkpoints
    from ..reserve.config import kind_of, size_of

    if to is Target.watchword:
        new_folder(out)
    else:
        check_writable(out, "OUT")
        if out.exists():
            raise InputError(f"OUT: {str(out)!r} is there already: give a new file")
    with warnings_as_notes():
        model = checkpoints.load(source, grid=grid)
        path = checkpoints.released_file(source)
        step = 0 if path is None else checkpoints.read_released(path).step
        with writing(out):
            if to is Target.released:
                checkpoints.save_released(model, out, step=step, dtype="float16" if half else "float32")
            else:
                origin = None if path is None else checkpoints.Origin.of(path, step=step)
                checkpoints.save(model.half() if half else model, out, origin=origin, tokenizer=checkpoints.own_tokenizer(source))
    config = model.config
    what = f"MERLOT Reserve, {size_of(config)}, {kind_of(config.parts)}, grid {config.grid[0]} x {config.grid[1]}"
    note(f"wrote {out}: {what}, weights {config.weights!r}")


def _grid(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = re.fullmatch(r"(\d{1,3})x(\d{1,3})", text.strip())
    if sides is None:
        raise InputError(f"--grid {text!r}: write ROWSxCOLUMNS, such as 18x32")
    return int(sides[1]), int(sides[2])
