"""Weights in and out: our own folders, Hugging Face's, the authors' files, and CLIP as the untrained start (spec section 9)."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import CheckpointError, ConfigError, InputError
from ..files import copy_files, filling
from ..weights.downloads import fetch, is_repository_id
from ..weights.folders import (
    CONFIG_FILE,
    METADATA_KEY,
    WEIGHTS_FILE,
    WithoutRandomNumbers,
    read_json,
    require_recorded,
    write_json,
    write_weights,
)
from ..weights.states import read_metadata, read_state, require_match
from . import clip_start, expand, huggingface, registry
from .config import XClipConfig
from .expanded import ExpandedConfig, ExpandedXClip, model_of
from .model import XClip
from .state_files import config_of_state

__all__ = ["config_from", "load", "save", "save_huggingface"]

OLD_WEIGHTS_FILE = "pytorch_model.bin"
PREPROCESSOR_FILE = "preprocessor_config.json"
TOKENIZER_FOLDER = "tokenizer"
BUNDLED = Path(__file__).parent / "bundled"

# These say nothing about how the numbers in the file are to be used, so they may be edited beside it.
FREE_FIELDS = {"class_names", "weights", "drop_path", "prompt_alpha"}


def load(
    source: str | Path,
    *,
    num_frames: int | None = None,
    temporal_interpolation: bool = False,
    huggingface_heads: bool = False,
    activation: str | None = None,
    random_weights: bool = False,
    seed: int = 0,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool = False,
    token: str | bool | None = None,
) -> XClip:
    """An X-CLIP model with weights, in evaluation mode and float32 on the CPU.

    ``source`` is, in this order of trying:

    * a folder: ours (``save_pretrained``) or Hugging Face's;
    * a file: ``.safetensors``, or the authors' ``.pth``, bare or nested, read with ``weights_only``;
    * ``clip:`` and an open_clip model (``clip:ViT-B-16/openai``) or a file of CLIP weights: the untrained start, whose video parts are
      drawn from ``seed``;
    * ``open_clip:`` and an open_clip model (``open_clip:ViT-B-16-SigLIP2``, or with a tag, ``open_clip:ViT-B-32/openai``): the model
      expanded, see ``watchword.xclip.expand``;
    * a name of the registry (``xclip_base_patch32.k400_8f``, an official file name, ``playground``);
    * a repository of the Hugging Face Hub, downloaded once, and never with ``offline`` or HF_HUB_OFFLINE=1.

    Args:
        num_frames: frames of a clip. Weights made for another number are an error, unless ``temporal_interpolation`` asks for their
            temporal positions to be interpolated. For ``clip:`` and ``open_clip:`` it is free (default 8).
        huggingface_heads: read a Hugging Face repository's MIT and prompt generator with the head counts in its config.json. The
            published conversions of the large models say 8 there, but their weights were trained with 12 (the default reading).
        activation: of files that do not say it (``.pth``, CLIP files): ``quick_gelu`` (default) or ``gelu``.
        random_weights: of ``open_clip:``, draw the image-text model from ``seed`` in place of reading its weights.
        revision, cache_dir, token: of the Hub.

    Raises:
        CheckpointError: a file that cannot be read safely or does not fit; one table of what is missing, extra or misshapen is the
            error's note.
        DownloadError: the weights are not on this machine and cannot be had.
        InputError: nothing is called ``source``.
    """
    name, path = str(source), Path(source)
    hub: dict[str, Any] = dict(revision=revision, cache_dir=cache_dir, offline=offline, token=token)
    if name.startswith(expand.PREFIX):
        if activation is not None:
            raise InputError(f"{name} states its activation: for QuickGELU take a model whose name ends in -quickgelu")
        return expand.load(name, num_frames=num_frames or 8, random_weights=random_weights, seed=seed, hub=hub)
    if random_weights:
        raise InputError(f"random weights are for {expand.PREFIX} names, not for {name}")
    if name.startswith(clip_start.PREFIX):
        return clip_start.load(name, num_frames=num_frames or 8, activation=activation, seed=seed, hub=hub)
    if path.is_dir():
        model = _load_folder(path, huggingface_heads)
    elif path.exists() or isinstance(source, Path) or (path.suffix in (".pth", ".pt", ".bin", ".safetensors") and path.name != name):
        model = _load_file(path, activation)
        activation = None
    else:
        model = _load_named(name, huggingface_heads, hub)
    if activation is not None:
        raise InputError(f"{source} states its activation ({model.config.activation}), so none can be given")
    if num_frames is not None and num_frames != model.config.num_frames:
        _change_num_frames(model, num_frames, temporal_interpolation, name)
    return model.eval()


def save(model: XClip, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` into the folder, each beside its place and then renamed.

    The configuration (activation, preprocessing, class names, ...) stands in both files, so that a later edit of one is noticed.
    """
    folder = Path(folder)
    values = model.config.as_dict()
    with filling(folder, (WEIGHTS_FILE, CONFIG_FILE)):
        write_weights(folder, model.state_dict(), {METADATA_KEY: json.dumps(values)})
        if isinstance(model, ExpandedXClip) and model.tokenizer_folder is not None:
            copy_files(model.tokenizer_folder, folder / TOKENIZER_FOLDER)
        write_json(folder / CONFIG_FILE, {"model_type": model.config.model_type, **values})


def save_huggingface(model: XClip, folder: str | Path) -> None:
    """Write the folder that ``transformers.XCLIPModel.from_pretrained`` reads, preprocessing included.

    Raises InputError for an expanded model, which transformers has no class for.
    """
    folder = Path(folder)
    if isinstance(model, ExpandedXClip):
        raise InputError("an expanded model cannot be written for transformers, which has X-CLIP around CLIP only")
    values = huggingface.config_to_huggingface(model.config)
    with filling(folder, (WEIGHTS_FILE, PREPROCESSOR_FILE, CONFIG_FILE)):
        write_weights(folder, huggingface.state_to_huggingface(model.state_dict()), {})
        write_json(folder / PREPROCESSOR_FILE, huggingface.preprocessing_to_huggingface(model.config.preprocessing))
        write_json(folder / CONFIG_FILE, values)


def _load_named(name: str, huggingface_heads: bool, hub: dict[str, Any]) -> XClip:
    try:
        row = registry.find(name)
    except InputError as error:
        if not is_repository_id(name):
            raise InputError(f"no folder or file is at {name!r}, and {error}") from None
        row = None
    if row is not None and row.bundled:
        return _load_folder(BUNDLED / row.name, False)
    repository = row.huggingface_id if row is not None else name
    paths = fetch(repository, [(CONFIG_FILE,), (WEIGHTS_FILE, OLD_WEIGHTS_FILE)], optional=(PREPROCESSOR_FILE,), **hub)
    return _load_parts({path.name: path for path in paths}, repository, huggingface_heads, row.name if row is not None else repository)


def _load_folder(folder: Path, huggingface_heads: bool) -> XClip:
    names = (CONFIG_FILE, WEIGHTS_FILE, OLD_WEIGHTS_FILE, PREPROCESSOR_FILE)
    return _load_parts({name: folder / name for name in names if (folder / name).is_file()}, str(folder), huggingface_heads, folder.name)


def _load_parts(files: Mapping[str, Path], source: str, huggingface_heads: bool, weights: str) -> XClip:
    file = files.get(WEIGHTS_FILE) or files.get(OLD_WEIGHTS_FILE)
    if CONFIG_FILE not in files or file is None:
        raise CheckpointError(f"{source} needs {CONFIG_FILE} and {WEIGHTS_FILE}, but has {', '.join(files) or 'neither'}")
    values = read_json(files[CONFIG_FILE])
    kind = values.pop("model_type", None)
    if kind in (XClipConfig.model_type, ExpandedConfig.model_type):
        config = config_from(values)
        require_recorded(config, file, FREE_FIELDS)
        model = _model(config, read_state(file), source)
        if isinstance(model, ExpandedXClip) and (file.parent / TOKENIZER_FOLDER).is_dir():
            model.tokenizer_folder = file.parent / TOKENIZER_FOLDER
        return model
    if kind != huggingface.MODEL_TYPE:
        known = ", ".join((XClipConfig.model_type, ExpandedConfig.model_type, huggingface.MODEL_TYPE))
        raise CheckpointError(f"{files[CONFIG_FILE]}: model_type is {kind!r}, but must be one of {known}")
    preprocessing = None
    if PREPROCESSOR_FILE in files:
        image_size = huggingface.section(values, "vision_config").get("image_size", 224)
        preprocessing = huggingface.preprocessing_from_huggingface(read_json(files[PREPROCESSOR_FILE]), image_size)
    config = huggingface.config_from_huggingface(values, preprocessing, their_heads=huggingface_heads)
    return _model(replace(config, weights=weights), huggingface.without_buffers(read_state(file)), source, renamed=True)


def _load_file(path: Path, activation: str | None) -> XClip:
    state = read_state(path)
    recorded = read_metadata(path).get(METADATA_KEY)
    if recorded is not None:
        if activation is not None:
            raise InputError(f"{path} states its activation, so none can be given")
        return _model(config_from(json.loads(recorded)), state, str(path))
    config = config_of_state(state, str(path), activation=activation or "quick_gelu")
    official = [row.name for row in registry.RELEASED.values() if row.official_file == path.name]
    return _model(replace(config, weights=official[0] if official else path.name), state, str(path))


def _model(config: XClipConfig, state: dict[str, Tensor], source: str, *, renamed: bool = False) -> XClip:
    with WithoutRandomNumbers():
        model = model_of(config)
    if renamed:
        official = model.state_dict()
        require_match(huggingface.huggingface_shapes(official), state, source)
        state = huggingface.state_from_huggingface(state, list(official))
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    require_match({name: tensor.shape for name, tensor in model.state_dict().items()}, state, source)
    model.load_state_dict(state, assign=True)
    return model


def config_from(values: Mapping[str, Any]) -> XClipConfig:
    """The configuration of a saved folder, ``model_type`` left out."""
    return (ExpandedConfig if "architecture" in values else XClipConfig).from_dict(values)


def _change_num_frames(model: XClip, num_frames: int, interpolate: bool, source: str) -> None:
    made_for = model.config.num_frames
    if model.mit is None:
        model.set_num_frames(num_frames)
        return
    if not interpolate:
        raise ConfigError(
            f"{source} was made for clips of {made_for} frames, not {num_frames}: take weights for {num_frames}, or ask for its temporal "
            "positions to be interpolated (temporal_interpolation=True)"
        )
    warnings.warn(f"the temporal positions of {source} were interpolated from {made_for} to {num_frames} frames, untrained", stacklevel=3)
    positions = model.mit.positional_embedding.detach().transpose(1, 2)
    resized = F.interpolate(positions, size=num_frames, mode="linear", align_corners=False)
    model.mit.positional_embedding = torch.nn.Parameter(resized.transpose(1, 2).contiguous())
    model.set_num_frames(num_frames)
