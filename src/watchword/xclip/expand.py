"""From the name of an open_clip model to a video model: ``open_clip:NAME`` or ``open_clip:NAME/TAG`` (open_clip's own names).

Preprocessing, tokenizer, activation and pooling are those the image-text weights were trained with.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from ..errors import InputError
from ..weights.downloads import fetch
from ..weights.folders import WithoutRandomNumbers
from ..weights.states import fill, read_state
from .clip_start import EXTRA_ENTRIES, files_on_hub
from .config import Preprocessing
from .expandable import EXPANDABLE
from .expanded import ExpandedXClip, expanded_config, fetch_tokenizer
from .open_clip_towers import build_image_text

__all__ = ["PREFIX", "load", "random_model"]

PREFIX = "open_clip:"


def load(
    source: str, *, num_frames: int = 8, random_weights: bool = False, seed: int = 0, hub: Mapping[str, Any] = MappingProxyType({})
) -> ExpandedXClip:
    """The expanded model, in evaluation mode; at first, its video vector is the mean of the image model's frame vectors.

    Args:
        source: ``open_clip:NAME``, whose weights are those listed by ``watchword models`` or else open_clip's first;
            ``open_clip:NAME/TAG``; or ``open_clip:NAME/PATH`` with a file of weights of this model.
        random_weights: draw the image-text model from ``seed``; then nothing is downloaded.
        seed: of what is drawn.
        hub: arguments for ``downloads.fetch``.

    Raises:
        InputError: no such model or tag, or a model that cannot be expanded.
        DownloadError, CheckpointError: the weights or the tokenizer cannot be had or do not fit.
    """
    name, tag, architecture, known = _stated(source, random_weights)
    tokenizer, path = None, None
    if not random_weights:
        if repository := architecture["text_cfg"].get("hf_tokenizer_name"):
            tokenizer = fetch_tokenizer(repository, **hub)  # before the weights: it is small, and without it they are of no use
        path = _weights_file(tag, known, source, hub)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with nullcontext() if path is None else WithoutRandomNumbers():
            image_text = build_image_text(architecture)
        if path is not None:
            _fill(image_text, path, source)
        config = expanded_config(
            image_text,
            architecture,
            num_frames=num_frames,
            preprocessing=_preprocessing(known, image_text.visual.image_size[0], source),
            weights="random" if path is None else f"{PREFIX}{name}/{tag}, video parts untrained",
        )
        model = ExpandedXClip(config, image_text)
    model.tokenizer_folder = tokenizer
    return model.eval()


def random_model(architecture: dict[str, Any], *, num_frames: int = 8) -> ExpandedXClip:
    """The expansion of an entry of open_clip's ``model_configs``, or one like it, with weights drawn at random.

    Raises InputError if it cannot be expanded.
    """
    image_text = build_image_text(architecture)
    side = image_text.visual.image_size[0]
    preprocessing = Preprocessing(crop_size=side, short_side=side, interpolation="pillow_bicubic")
    return ExpandedXClip(expanded_config(image_text, architecture, num_frames=num_frames, preprocessing=preprocessing), image_text)


def _stated(source: str, random_weights: bool) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Name, tag (or path), architecture and open_clip's entry for the weights."""
    import open_clip  # seconds to import, and only this source needs it

    if not source.startswith(PREFIX):
        raise InputError(f"{source!r} is no model of open_clip: write {PREFIX}NAME or {PREFIX}NAME/TAG, as watchword models lists them")
    name, _, tag = source.removeprefix(PREFIX).partition("/")
    if name not in open_clip.list_models():
        near = ", ".join(PREFIX + other for other in get_close_matches(name, open_clip.list_models(), n=3, cutoff=0.3))
        hint = f"; near it: {near}" if near else ""
        raise InputError(f"open_clip has no model {name!r}{hint}; watchword models lists those that are known")
    tags = open_clip.list_pretrained_tags_by_model(name)
    preferred = [row.tag for row in EXPANDABLE if row.model == name and row.tag] + tags
    if not tag and not preferred and not random_weights:
        raise InputError(f"open_clip lists no weights for {name}: give a file, {PREFIX}{name}/PATH, or ask for random weights")
    tag = tag or next(iter(preferred), "")
    known = open_clip.get_pretrained_cfg(name, tag)
    if not known:
        if tag and not Path(tag).is_file():
            raise InputError(f"{tag!r} is neither a file nor weights that open_clip lists for {name}: {', '.join(tags) or 'it lists none'}")
        known = {**open_clip.get_pretrained_cfg(name, next(iter(preferred), "")), "quick_gelu": False}
    architecture = open_clip.get_model_config(name)
    # open_clip itself only warns where weights were trained with another activation than the model's configuration says.
    if known.get("quick_gelu"):
        architecture["quick_gelu"] = True
    return name, tag, architecture, known


def _preprocessing(known: Mapping[str, Any], image_size: int, source: str) -> Preprocessing:
    from open_clip.transform import PreprocessCfg

    stated = PreprocessCfg(**{key: known[key] for key in ("mean", "std", "interpolation", "resize_mode") if key in known})
    if stated.resize_mode not in ("shortest", "squash"):
        raise InputError(f"{source} wants frames resized by {stated.resize_mode!r}, which is not supported")
    return Preprocessing(
        crop_size=image_size,
        short_side=image_size,
        mean=stated.mean,  # type: ignore[arg-type]  # three numbers
        std=stated.std,  # type: ignore[arg-type]
        interpolation="pillow_bilinear" if stated.interpolation == "bilinear" else "pillow_bicubic",
        squash=stated.resize_mode == "squash",
    )


def _weights_file(tag: str, known: Mapping[str, Any], source: str, hub: Mapping[str, Any]) -> Path:
    if Path(tag).is_file():
        return Path(tag)
    repository, files = files_on_hub(known, source)
    return fetch(repository, [files], **hub)[0]


def _fill(image_text: Any, path: Path, source: str) -> None:
    """Give open_clip's model the weights of a file, in whichever of open_clip's forms they are."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict

    state = {name: tensor for name, tensor in read_state(path, torchscript=True).items() if name.split(".")[-1] not in EXTRA_ENTRIES}
    state = convert_to_custom_text_state_dict(convert_state_dict(image_text, state))
    for name in {"logit_scale", "logit_bias"} & state.keys():
        state[name] = state[name].reshape(getattr(image_text, name).shape)  # a scalar in some files, one number in a row in others
    fill(image_text, state, source)
