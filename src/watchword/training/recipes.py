"""Recipes: one YAML file a training run, checked against the models here before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..datasets.playground import PlaygroundClips, PlaygroundStills
from ..errors import ConfigError
from ..playground import PHRASES
from ..xclip.config import Preprocessing, XClipConfig
from ..xclip.model import XClip
from ..xclip.recipe import ImageTextProgram, SupervisedProgram, expand_to_video
from .loop import Program, train
from .settings import TrainingSettings

__all__ = ["Recipe", "load_recipe", "run"]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StillsData(_Checked):
    """Captioned stills of the playground."""

    kind: Literal["playground_stills"]
    num_stills: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)


class ClipsData(_Checked):
    """Clips of the playground in the combinations of the training split; evaluated on the unseen ones."""

    kind: Literal["playground_clips"]
    num_clips: int = Field(gt=0)
    num_held_out: int = Field(gt=0)
    seed: int = Field(default=0, ge=0)


class ImageTextRecipe(_Checked):
    """Contrastive image-text pretraining."""

    program: Literal["image_text"]
    model: dict[str, Any]
    data: StillsData
    training: TrainingSettings


class SupervisedRecipe(_Checked):
    """Supervised X-CLIP. ``start`` is the folder of an image-text model, or none for random weights."""

    program: Literal["supervised"]
    model: dict[str, Any]
    start: Path | None = None
    train_text: bool = False
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    data: ClipsData
    training: TrainingSettings


Recipe = Annotated[ImageTextRecipe | SupervisedRecipe, Field(discriminator="program")]


class _File(_Checked):
    recipe: Recipe


def load_recipe(path: str | Path, changes: dict[str, Any] | None = None) -> ImageTextRecipe | SupervisedRecipe:
    """Read a recipe; ``changes`` maps dotted keys to values, such as ``{"training.seed": 1}``.

    Raises ConfigError, naming the key, for a file that is not YAML, an unknown key or a value out of range.
    """
    try:
        values = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such recipe") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a recipe is a mapping of keys to values")
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


def run(recipe: ImageTextRecipe | SupervisedRecipe, folder: str | Path, *, progress: bool = True) -> dict[str, Any]:
    """Train as the recipe says, in ``folder`` (resuming what is there); rendered data is kept beside it, for other runs to use."""
    folder = Path(folder)
    torch.manual_seed(recipe.training.seed)
    program = _program(recipe, folder.parent / "cache")
    return train(program, recipe.training, folder, progress=progress)


def _program(recipe: ImageTextRecipe | SupervisedRecipe, cache: Path) -> Program:
    values = dict(recipe.model)
    size = values.get("image_size", 224)
    preprocessing = values.pop("preprocessing", None) or Preprocessing(
        crop_size=size, short_side=size, interpolation="antialiased_bilinear"
    )
    config = XClipConfig.from_dict({**values, "preprocessing": preprocessing})
    if isinstance(recipe, ImageTextRecipe):
        stills = PlaygroundStills(recipe.data.num_stills, size=size, seed=recipe.data.seed, cache=cache)
        held_out = PlaygroundStills(512, size=size, seed=recipe.data.seed + 1, cache=cache)
        return ImageTextProgram(XClip(config), stills, captions=stills.captions, held_out=held_out)
    clips, held_out_clips = (
        PlaygroundClips(count, num_frames=config.num_frames, size=size, seed=recipe.data.seed + offset, split=split, cache=cache)
        for count, offset, split in ((recipe.data.num_clips, 0, "train"), (recipe.data.num_held_out, 1, "unseen"))
    )
    model = XClip(config) if recipe.start is None else expand_to_video(XClip.from_pretrained(recipe.start), config)
    return SupervisedProgram(
        model, clips, class_names=PHRASES, train_text=recipe.train_text, label_smoothing=recipe.label_smoothing, held_out=held_out_clips
    )
