"""From a recipe of X-CLIP to what is trained: the data, the model as it begins, and the program around both."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..datasets.playground import PlaygroundClips, PlaygroundStills
from ..datasets.protocols import ProtocolVideos
from ..datasets.splits import Protocol
from ..datasets.videos import VideoClips
from ..errors import ConfigError
from ..playground import PHRASES
from ..xclip import clip_start, expand
from ..xclip.class_heads import make_head
from ..xclip.config import XClipConfig
from ..xclip.expanded import ExpandedXClip
from ..xclip.initialisation import begin_small, sinusoid
from ..xclip.inputs import to_tensor
from ..xclip.mixing import Mixing
from ..xclip.model import XClip
from ..xclip.recipe import ImageTextProgram, SupervisedProgram, expand_to_video, load_class_head
from ..xclip.views import Views
from .loop import Program
from .schema import ClipsData, ImageTextRecipe, Recipe, SupervisedRecipe, VideosData

__all__ = ["check_evaluated", "evaluate", "image_text", "measured_on", "supervised"]

# What a start says of these is not taken over: it may have been made for images, where they are nothing.
VIDEO_FIELDS = {
    "num_frames",
    "message",
    "mit_layers",
    "mit_heads",
    "prompt_layers",
    "prompt_heads",
    "prompt_alpha",
    "class_names",
    "weights",
}


def image_text(recipe: ImageTextRecipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on."""
    config = _config(recipe)
    stills, held_out = (
        PlaygroundStills(count, size=config.image_size, seed=seed, cache_folder=beside / "cache")
        for count, seed in ((recipe.data.num_stills, recipe.data.seed), (512, recipe.data.seed + 1))
    )
    model = XClip(config)
    if recipe.beginning is not None:
        values = recipe.beginning.model_dump()
        frames = torch.as_tensor(np.array(stills.frames[: values.pop("num_frames")]))
        begin_small(model, to_tensor(frames, config.preprocessing), **values)
    record = Protocol.of(f"playground stills, seed {recipe.data.seed + 1}", held_out.captions, [], subset=True)
    return ImageTextProgram(model, stills, held_out=held_out), {**record.as_dict(), "videos_sha256": None}


def supervised(recipe: SupervisedRecipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on."""
    data = recipe.data
    training: Any
    held_out: dict[str, Any]
    start = _start(recipe)
    if isinstance(data, VideosData):
        lists = data.lists()
        config = _config(recipe, lists[0].class_names, start)
        training, test = (
            VideoClips(listed.videos, config.class_names, config, training=learns, seed=recipe.training.seed, augment=recipe.augment)
            for listed, learns in zip(lists, (True, False), strict=True)
        )
        held_out = {"held_out": test}
        record = measured_on(lists[1])
    else:
        config = _config(recipe, PHRASES, start)
        training = PlaygroundClips(
            data.num_clips, shots=data.shots, seed=data.seed, split="train", augment=recipe.augment, **_sizes(config, beside / "cache")
        )
        held_out = _held_out(data, config, beside / "cache")
        called = f"playground/unseen, {data.num_held_out} clips rendered by seed {data.seed + 1}"
        record = {**Protocol.of(called, PHRASES, [], subset=True).as_dict(), "videos_sha256": None}
    others = {name: evaluation.lists() for name, evaluation in recipe.evaluations.items()}
    if others:
        record["evaluations"] = {name: [measured_on(one) for one in each] for name, each in others.items()}
    model = XClip(config) if start is None else expand_to_video(start, config)
    with torch.no_grad():
        if recipe.position_std is not None and model.mit is not None:
            places = sinusoid(config.num_frames, config.embed_dim)
            model.mit.positional_embedding[0] = places * (recipe.position_std / places.std())
        if recipe.logit_scale is not None:
            model.logit_scale.fill_(math.log(recipe.logit_scale))
    program = SupervisedProgram(
        model,
        training,
        class_names=config.class_names,
        trained=recipe.trained,
        label_smoothing=recipe.label_smoothing,
        mixing=Mixing(**recipe.mixing.model_dump()) if recipe.mixing else None,
        held_out=held_out,
        head=_head(recipe, model)(model.config.class_names),
        evaluations={
            name: [(VideoClips(one.videos, one.class_names, config, training=False, seed=0), one.class_names) for one in each]
            for name, each in others.items()
        },
        head_for=_head(recipe, model),
    )
    return program, record


def evaluate(recipe: Recipe, folder: str | Path, views: Views) -> dict[str, Any]:
    """Evaluate the finished run in ``folder`` once more, each held-out clip of its recipe in several views, drawn at random as by the
    released multi-view test: the same clips, and the first view is the one of ``run``.

    Raises ConfigError for other recipes than supervised ones on the playground, whose pictures are square: three crops would be one.
    """
    folder = Path(folder)
    check_evaluated(recipe, views)
    assert isinstance(recipe, SupervisedRecipe) and isinstance(recipe.data, ClipsData)
    if not (folder / "model").exists():
        raise ConfigError(f"{folder} holds no finished run to evaluate; train it first")
    model = XClip.from_pretrained(folder / "model")
    program = SupervisedProgram(
        model,
        (),
        class_names=model.config.class_names,
        trained=recipe.trained,
        label_smoothing=0.0,
        mixing=None,
        held_out=_held_out(recipe.data, model.config, folder.parent / "cache", num_views=views.num_clips),
        head=_head(recipe, model)(model.config.class_names),
    )
    load_class_head(program.head, folder / "model")
    model.to(recipe.training.device).eval()
    with torch.inference_mode():
        return program.evaluate(num_views=views.num_clips)


def check_evaluated(recipe: Recipe, views: Views) -> None:
    """ConfigError where ``evaluate`` would raise it, whatever has been trained."""
    if not isinstance(recipe, SupervisedRecipe) or not isinstance(recipe.data, ClipsData):
        raise ConfigError(
            "only supervised recipes on the playground are evaluated again; for videos: watchword evaluate MODEL LIST --views"
        )
    if views.num_crops != 1:
        raise ConfigError(f"views {views}: the playground's pictures are square, so that all crops are one; write {views.num_clips}x1")


def _config(recipe: ImageTextRecipe | SupervisedRecipe, class_names: Sequence[str] = (), start: XClip | None = None) -> XClipConfig:
    if isinstance(start, ExpandedXClip):
        return _expanded_config(recipe, class_names, start)
    known = {} if start is None else {name: value for name, value in start.config.as_dict().items() if name not in VIDEO_FIELDS}
    values = {"image_size": 224, **known, **recipe.model}
    size = values["image_size"]
    if values.get("preprocessing", {}).get("crop_size") != size:
        values["preprocessing"] = {"crop_size": size, "short_side": size, "interpolation": "antialiased_bilinear"}
    return XClipConfig.from_dict({**values, "weights": recipe.name, "class_names": tuple(class_names)})


def _expanded_config(recipe: ImageTextRecipe | SupervisedRecipe, class_names: Sequence[str], start: ExpandedXClip) -> XClipConfig:
    changes = {key: value for key, value in recipe.model.items() if key != "architecture"}
    if own := changes.keys() - VIDEO_FIELDS:
        raise ConfigError(f"model.{min(own)} is the image-text model's own affair; an expanded model can change {', '.join(VIDEO_FIELDS)}")
    return start.config.from_dict({**start.config.as_dict(), **changes, "weights": recipe.name, "class_names": tuple(class_names)})


def _held_out(data: ClipsData, config: XClipConfig, cache: Path, *, num_views: int = 1) -> dict[str, Any]:
    sizes = _sizes(config, cache)
    return {
        "held_out": PlaygroundClips(data.num_held_out, seed=data.seed + 1, split="unseen", num_views=num_views, **sizes),
        "seen": PlaygroundClips(data.num_held_out, seed=data.seed + 2, split="train", num_views=num_views, **sizes),
    }


def _sizes(config: XClipConfig, cache: Path) -> dict[str, Any]:
    return {"num_frames": config.num_frames, "size": config.image_size, "cache_folder": cache}


def _head(recipe: SupervisedRecipe, model: XClip) -> Callable[[Sequence[str]], nn.Module]:
    """Of class names, the head that the recipe wants."""
    return partial(
        make_head,
        recipe.head,
        model,
        text_learns=recipe.trained in ("all", "text"),
        templates=recipe.templates,
        num_vectors=recipe.num_context_vectors,
    )


def measured_on(listed: ProtocolVideos) -> dict[str, Any]:
    """What a run's record says of the videos that it is measured on."""
    digest = listed.annotations_sha256
    return Protocol.of(listed.protocol, listed.class_names, listed.videos, subset=True, annotations_sha256=digest).as_dict()


def _start(recipe: SupervisedRecipe) -> XClip | None:
    num_frames = recipe.model.get("num_frames", 8)
    if recipe.start is None:
        architecture = recipe.model.get("architecture")
        return None if architecture is None else expand.random_model(architecture, num_frames=num_frames)
    frames = {"num_frames": num_frames} if recipe.start.startswith((clip_start.PREFIX, expand.PREFIX)) else {}
    return XClip.from_pretrained(recipe.start, **frames)
