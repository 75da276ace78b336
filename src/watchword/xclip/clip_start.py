"""X-CLIP's untrained start: an image-text CLIP model, with the video parts drawn at random (spec sections 8 and 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from ..errors import DownloadError, InputError
from ..weights.downloads import fetch
from ..weights.states import read_state, require_match
from .model import XClip, is_new_part
from .state_files import config_of_state

__all__ = ["EXTRA_ENTRIES", "PREFIX", "files_on_hub", "load"]

PREFIX = "clip:"
EXTRA_ENTRIES = ("input_resolution", "context_length", "vocab_size", "attn_mask")  # numbers and masks in exported files, no weights


def load(source: str, *, num_frames: int, activation: str | None, seed: int, hub: dict[str, Any]) -> XClip:
    """Build X-CLIP around ``clip:model/tag`` (open_clip's names) or ``clip:path``; see ``checkpoints.load``.

    ``config.weights`` says that the video parts are untrained, and their seed.
    """
    path, activation = _located(source.removeprefix(PREFIX), activation, hub)
    state = {name: tensor for name, tensor in read_state(path, torchscript=True).items() if name not in EXTRA_ENTRIES}
    config = replace(
        config_of_state(state, source, activation=activation),
        num_frames=num_frames,
        message="on",
        mit_layers=1,
        prompt_layers=2,
        weights=f"{source}, video parts untrained (seed {seed})",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = XClip(config)
    own = model.state_dict()
    require_match({name: tensor.shape for name, tensor in own.items() if not is_new_part(name)}, state, source)
    model.load_state_dict(state, strict=False)
    return model.eval()


def _located(name: str, activation: str | None, hub: dict[str, Any]) -> tuple[Path, str]:
    """The file of the image-text weights, and their activation."""
    if Path(name).is_file():
        return Path(name), activation or "quick_gelu"
    import open_clip  # seconds to import, and only this source needs it

    model, _, tag = name.partition("/")
    known = open_clip.get_pretrained_cfg(model, tag)
    if not known:
        names = [f"{PREFIX}{model}/{tag}" for model, tag in open_clip.list_pretrained()]
        near = ", ".join(get_close_matches(PREFIX + name, names, n=3, cutoff=0.3))
        raise InputError(f"{PREFIX}{name} is neither a file nor a model/tag of open_clip; near it: {near or names[0]}")
    stated = "quick_gelu" if known.get("quick_gelu") or open_clip.get_model_config(model).get("quick_gelu") else "gelu"
    if activation not in (None, stated):
        raise InputError(f"{PREFIX}{name} was trained with {stated}, not {activation}")
    repository, files = files_on_hub(known, PREFIX + name)
    return fetch(repository, [files], **hub)[0], stated


def files_on_hub(known: Mapping[str, Any], source: str) -> tuple[str, tuple[str, str]]:
    """The repository of an entry of open_clip's pretrained list, and the possible names of its file, the best first.

    Raises DownloadError if the entry is not on the Hub.
    """
    repository, _, file = known["hf_hub"].rpartition("/")
    if not repository:
        prefix, _, name = source.partition(":")
        raise DownloadError(f"open_clip knows {name} only at {known['url']}: download it and give {prefix}: and its path")
    file = file or "open_clip_pytorch_model.bin"
    safe = "open_clip_model.safetensors" if file == "open_clip_pytorch_model.bin" else str(Path(file).with_suffix(".safetensors"))
    return repository, (safe, file)
