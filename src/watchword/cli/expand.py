"""``watchword expand``: an image-text model of open_clip as a video model."""

from __future__ import annotations

from pathlib import Path

import typer

from .notes import new_folder, note, warnings_as_notes, writing

__all__ = ["expand"]


def expand(
    source: str = typer.Argument(
        ..., metavar="open_clip:NAME[/TAG]", help="A model of open_clip, with its weights' tag or a file of them."
    ),
    out: Path = typer.Option(..., "--out", "-o", help="Folder to write; must be new or empty."),
    num_frames: int = typer.Option(8, "--num-frames", min=1, help="Frames of a clip."),
    random_weights: bool = typer.Option(False, "--random-weights", help="Draw the image-text model at random; nothing is downloaded."),
) -> None:
    """Expand an image-text model to video, ready to be trained, or to tag with as it is.

    Messages between frames, integration over time and video-specific prompts are added and begin at zero: until it is trained, the
    model scores the mean of the frames as the image-text model does.
    """
    new_folder(out)
    with warnings_as_notes():
        from ..xclip import expand as expansion
        from ..xclip.model import is_new_part

        model = expansion.load(source, num_frames=num_frames, random_weights=random_weights)
        with writing(out):
            model.save_pretrained(out)
    counts = {name: weight.numel() / 1e6 for name, weight in model.named_parameters()}
    new = sum(count for name, count in counts.items() if is_new_part(name))
    size = f"{sum(counts.values()):,.1f} M parameters, {new:,.1f} M of them for video and untrained"
    note(f"wrote {out}: {model.config.num_frames} frames of {model.config.image_size} pixels, {size}")
    if random_weights:
        note("note: all weights are random, as asked: the scores mean nothing until the model is trained")
