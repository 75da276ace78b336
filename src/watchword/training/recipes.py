"""Recipes: one YAML file a training run, checked against the models here before anything starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..datasets.playground import PlaygroundClips, PlaygroundStills
from ..datasets.videos import VideoClips, read_annotations
from ..errors import ConfigError
from ..playground import PHRASES
from ..xclip.config import XClipConfig
from ..xclip.initialisation import begin_small, sinusoid
from ..xclip.inputs import to_tensor
from ..xclip.mixing import Mixing
from ..xclip.model import XClip
from ..xclip.recipe import ImageTextProgram, SupervisedProgram, expand_to_video
from .loop import Program, train
from .settings import TrainingSettings

__all__ = ["Recipe", "load_recipe", "run"]


class _Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


class VideosData(_Checked):
    """Video files: CSV lists with the columns ``path`` and ``label``, paths relative to the list. The classes are the training list's."""

    kind: Literal["videos"]
    annotations: Path
    held_out: Path


class Beginning(_Checked):
    """How a small model begins, see ``watchword.xclip.initialisation.begin_small``."""

    position_std: float = Field(default=0.25, gt=0)
    whitening: float = Field(default=0.1, gt=0)
    token_std: float = Field(default=0.1, gt=0)
    logit_scale: float = Field(default=20.0, gt=0, le=100)
    num_frames: int = Field(default=4000, gt=0)


class ImageTextRecipe(_Checked):
    """Contrastive image-text pretraining. ``name`` is what the weights are called; without ``beginning`` they begin as CLIP's do."""

    program: Literal["image_text"]
    name: str = Field(min_length=1)
    model: dict[str, Any]
    beginning: Beginning | None = None
    data: StillsData
    training: TrainingSettings


class MixingSettings(_Checked):
    """Mixup and cutmix; the defaults are the paper's."""

    mixup_alpha: float = Field(default=0.8, gt=0)
    cutmix_alpha: float = Field(default=1.0, gt=0)
    cutmix_probability: float = Field(default=0.5, ge=0, le=1)


class SupervisedRecipe(_Checked):
    """Supervised X-CLIP.

    ``start`` is the folder of an image-text model whose sizes ``model`` repeats, or none for random weights. ``train_text`` trains
    the text encoder too, which the paper's own runs keep frozen. ``position_std`` makes the positions of the frames in time sinusoids of
    that scale in place of noise of 0.02, and ``logit_scale`` replaces the start's: a small model hears the order sooner.
    """

    program: Literal["supervised"]
    name: str = Field(min_length=1)
    model: dict[str, Any]
    start: Path | None = None
    position_std: float | None = Field(default=None, gt=0)
    logit_scale: float | None = Field(default=None, gt=0, le=100)
    train_text: bool = False
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    mixing: MixingSettings | None = None
    data: ClipsData | VideosData = Field(discriminator="kind")
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
    except OSError as error:
        raise ConfigError(f"{path}: no such recipe ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file") from error
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


def run(
    recipe: ImageTextRecipe | SupervisedRecipe,
    folder: str | Path,
    *,
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train as the recipe says, in ``folder``, resuming what is there; rendered data is kept beside it, for other runs to use.

    ``report`` is told what will be trained. Returns the final evaluation; the model is in ``folder/model``.
    """
    folder = Path(folder)
    torch.manual_seed(recipe.training.seed)
    report("preparing the data")
    program = _image_text(recipe, folder.parent) if isinstance(recipe, ImageTextRecipe) else _supervised(recipe, folder.parent)
    program.parameter_groups(recipe.training.optimizer)  # decides what is frozen
    counts = [sum(p.numel() for p in program.model.parameters() if p.requires_grad or not trained) / 1e6 for trained in (True, False)]
    report(
        f"{program.name}: training {counts[0]:.2f} of {counts[1]:.2f} million parameters on {len(program.dataset)} samples, "
        f"{recipe.training.num_steps} steps of {recipe.training.batch_size}"
    )
    return train(program, recipe.training, folder, progress=progress)


def _config(recipe: ImageTextRecipe | SupervisedRecipe, class_names: Sequence[str] = ()) -> XClipConfig:
    values = {"image_size": 224, **recipe.model}
    size = values["image_size"]
    values.setdefault("preprocessing", {"crop_size": size, "short_side": size, "interpolation": "antialiased_bilinear"})
    return XClipConfig.from_dict({**values, "weights": recipe.name, "class_names": tuple(class_names)})


def _image_text(recipe: ImageTextRecipe, beside: Path) -> Program:
    config = _config(recipe)
    stills, held_out = (
        PlaygroundStills(count, size=config.image_size, seed=seed, cache=beside / "cache")
        for count, seed in ((recipe.data.num_stills, recipe.data.seed), (512, recipe.data.seed + 1))
    )
    model = XClip(config)
    if recipe.beginning is not None:
        values = recipe.beginning.model_dump()
        frames = torch.as_tensor(np.array(stills.frames[: values.pop("num_frames")]))
        begin_small(model, to_tensor(frames, config.preprocessing), **values)
    return ImageTextProgram(model, stills, held_out=held_out)


def _supervised(recipe: SupervisedRecipe, beside: Path) -> Program:
    data: Any = recipe.data
    if isinstance(data, VideosData):
        lists = [read_annotations(data.annotations), read_annotations(data.held_out)]
        config = _config(recipe, sorted({label for _, label in lists[0]}))
        samples: list[Any] = [
            VideoClips(videos, config.class_names, config, training=training, seed=recipe.training.seed)
            for videos, training in zip(lists, (True, False), strict=True)
        ]
    else:
        config = _config(recipe, PHRASES)
        samples = [
            PlaygroundClips(count, num_frames=config.num_frames, size=config.image_size, seed=seed, split=split, cache=beside / "cache")
            for count, seed, split in ((data.num_clips, data.seed, "train"), (data.num_held_out, data.seed + 1, "unseen"))
        ]
    model = XClip(config) if recipe.start is None else expand_to_video(XClip.from_pretrained(recipe.start), config)
    with torch.no_grad():
        if recipe.position_std is not None and model.mit is not None:
            places = sinusoid(config.num_frames, config.embed_dim)
            model.mit.positional_embedding[0] = places * (recipe.position_std / places.std())
        if recipe.logit_scale is not None:
            model.logit_scale.fill_(math.log(recipe.logit_scale))
    return SupervisedProgram(
        model,
        samples[0],
        class_names=config.class_names,
        train_text=recipe.train_text,
        label_smoothing=recipe.label_smoothing,
        mixing=Mixing(**recipe.mixing.model_dump()) if recipe.mixing else None,
        held_out=samples[1],
    )
