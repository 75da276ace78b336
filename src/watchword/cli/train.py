"""``watchword train``: run a recipe, or go on with a run that was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from ..errors import ConfigError
from .notes import note, warnings_as_notes

__all__ = ["train"]


def train(
    recipe: Path = typer.Argument(..., help="A recipe, such as recipes/playground_xclip.yaml."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the run; a run that was stopped there goes on."),
    changes: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as training.seed=1. Repeatable."
    ),
    device: str = typer.Option("auto", "--device", help="cpu, cuda, cuda:1, mps; auto takes a GPU if there is one."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bar."),
) -> None:
    """Train a model as a recipe says. The finished model is in OUT/model, the curves in OUT/metrics.jsonl and OUT/tensorboard.

    Killed at any moment, the same command goes on from the last saved step and ends with the same weights. Under torchrun its processes
    share each batch.
    """
    with warnings_as_notes():
        from ..training import is_first, load_recipe, run
        from ..xclip.tagging import find_device

        chosen = load_recipe(recipe, {"training.device": str(find_device(device)), **dict(_parse(change) for change in changes)})
        results = run(chosen, out, progress=not quiet, report=note)
    if is_first():
        note(f"the model is in {out / 'model'}: watchword tag CLIP --labels ... --model {out / 'model'}")
        print(json.dumps(results))


def _parse(change: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = change.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {change!r}: write KEY=VALUE, such as training.seed=1")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {change!r}: the value is not YAML") from error
