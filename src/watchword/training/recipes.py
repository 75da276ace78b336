"""Recipes: one YAML file a training run, checked against the models here before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import torch
import yaml
from pydantic import Field, ValidationError

from ..datasets.annotations import write_annotations
from ..errors import ConfigError
from ..launched import is_first
from .claims import claim
from .finetuning_programs import choices, classes
from .loop import Program, train
from .parallel import in_turn, joined
from .reserve_programs import pretraining
from .schema import Checked, ClassesRecipe, ImageTextRecipe, PretrainingRecipe, Recipe, SupervisedRecipe, VideosData
from .tiny import shrink
from .xclip_programs import check_evaluated, evaluate, image_text, supervised

__all__ = ["Recipe", "check_evaluated", "evaluate", "load_recipe", "run"]


class _File(Checked):
    recipe: Annotated[Recipe, Field(discriminator="program")]


def load_recipe(path: str | Path, changes: dict[str, Any] | None = None, *, tiny: bool = False) -> Recipe:
    """Read a recipe; ``changes`` maps dotted keys to values, such as ``{"training.seed": 1}``.

    A recipe with ``base: other.yaml`` is that one, found from its own folder, with its own keys laid over it. ``tiny`` shrinks the recipe
    to a minute's run on the playground, see ``tiny.shrink``.

    Raises ConfigError, naming the key, for a file that is not YAML, an unknown key or a value out of range.
    """
    values = _read(Path(path), ())
    if tiny:
        values = shrink(values)
    for key, value in (changes or {}).items():
        *parents, last = key.split(".")
        place = values
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{path}: {key} cannot be set, {parent} is not a mapping")
        place[last] = value
    try:
        return _File(recipe=values).recipe  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][2:]) or "program"
        raise ConfigError(f"{path}: {key}: {first['msg']}") from error


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: no such recipe ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of keys to values")
    if (base := values.pop("base", None)) is None:
        return values
    if path.resolve() in above or not isinstance(base, str):
        raise ConfigError(f"{path}: base names another recipe, which is not based on this one")
    return _laid_over(_read(path.parent / base, (*above, path.resolve())), values)


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {key: _laid_over(below[key], above[key]) for key in above if isinstance(below.get(key), dict) and isinstance(above[key], dict)}
    return {**below, **above, **both}


def run(
    recipe: Recipe,
    folder: str | Path,
    *,
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train as the recipe says, in ``folder``, resuming what is there; rendered data is kept beside it, for other runs to use.

    Of a K-shot draw ``folder/shots.csv`` has the videos, relative to the root. ``report`` is told what will be trained. Returns the
    final evaluation; the model is in ``folder/model``. Under torchrun the processes work together, and all return the evaluation.
    """
    folder = Path(folder)
    with joined(recipe.training.device) as device:
        report = report if is_first() else lambda line: None
        torch.manual_seed(recipe.training.seed)
        report("preparing the data")
        with in_turn():
            program, record = _program(recipe, folder.parent)
        if is_first():
            _claim(recipe, folder)
            data = recipe.data
            if isinstance(data, VideosData) and data.shots is not None:
                write_annotations(folder / "shots.csv", program.dataset.annotations, root=data.base)
        settings = recipe.training.for_samples(len(program.dataset)).model_copy(update={"device": device})
        program.parameter_groups(settings.optimizer)  # decides what is frozen
        report(
            f"{program.name}: {program.trained_parameters()} on {len(program.dataset)} samples, "
            f"{settings.num_steps} steps of {settings.batch_size}"
        )
        return train(program, settings, folder, progress=progress, record={"weights": recipe.name, "views": "1x1", **record})


def _program(recipe: Recipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on."""
    if isinstance(recipe, ImageTextRecipe):
        return image_text(recipe, beside)
    if isinstance(recipe, SupervisedRecipe):
        return supervised(recipe, beside)
    if isinstance(recipe, ClassesRecipe):
        return classes(recipe, beside)
    return pretraining(recipe, beside) if isinstance(recipe, PretrainingRecipe) else choices(recipe, beside)


def _claim(recipe: Recipe, folder: Path) -> None:
    """Write what is trained on what; the loop does so with the settings of the training. Keys from before there were any have defaults."""

    def is_this(values: dict[str, Any]) -> bool:
        return type(recipe).model_validate({**values, "training": recipe.training}) == recipe

    claim(folder / "recipe.json", recipe.model_dump(mode="json", exclude={"training"}), is_this, "another recipe")
