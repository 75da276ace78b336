"""``watchword evaluate``: a model by a benchmark's protocol."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import typer

from .notes import note, warnings_as_notes

__all__ = ["evaluate"]


class Benchmark(StrEnum):
    playground = "playground"


def evaluate(
    benchmark: Benchmark = typer.Argument(..., help="The protocol."),
    model: str = typer.Option("playground", "--model", "-m", help="Weights, as in `watchword tag`."),
    clips: Path = typer.Option(Path("runs/evaluation-clips"), "--clips", help="Folder of the test clips; those missing are rendered."),
    num_clips: int = typer.Option(464, "--num-clips", min=1, help="How many; all unseen combinations occur equally often."),
    seed: int = typer.Option(1000, "--seed", min=0, help="Other seeds give other clips."),
    as_json: bool = typer.Option(False, "--json", help="JSON in place of the table."),
) -> None:
    """Measure a model on clips of combinations that its training never showed, among all phrases of the playground."""
    from ..tasks.playground import evaluate as measure
    from ..xclip import XClip

    note(f"{benchmark}: {num_clips} clips in {clips}, seed {seed}")
    with warnings_as_notes():
        result = measure(XClip.from_pretrained(model), clips, num_clips=num_clips, seed=seed)
    if as_json:
        print(json.dumps({"model": model, "seed": seed, **result.as_dict()}))
        return
    print(f"{result.num_clips} clips, {result.num_phrases} phrases; percent right:")
    for name in ("top1", "shape", "colour", "action"):
        print(f"  {name:14} {getattr(result, name):5.1f}")
    print("by action:       phrase  action")
    for name, whole in result.top1_by_action.items():
        print(f"  {name:14} {whole:7.1f} {result.action_by_action[name]:7.1f}")
