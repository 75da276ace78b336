"""Weights in and out: our own folders and the authors' files. Nothing is downloaded from the authors' addresses, which are dead."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import CheckpointError, DownloadError, InputError
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
from .config import ReserveConfig
from .model import Reserve
from .released import ReleasedFile, load_released, read_released, save_released

__all__ = ["RELEASED_NAMES", "ReleasedFile", "load", "read_released", "save", "save_released"]

MODEL_TYPE = "watchword-reserve"
RELEASED_NAMES = (
    *(f"ckpts/{name}" for name in ("base", "base_resadapt", "large", "large_resadapt")),
    *(f"{task}_ckpts/{task}_finetune_{size}" for task in ("vcr", "tvqa") for size in ("base", "large")),
)
_DEAD_BUCKET = "merlotreserve"

# These say nothing about how the numbers in the file are to be used, so they may be edited beside it. No weight depends on the grid.
FREE_FIELDS = {"weights", "grid"}


def load(
    source: str | Path,
    *,
    grid: tuple[int, int] | None = None,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    offline: bool = False,
    token: str | bool | None = None,
) -> Reserve:
    """A MERLOT Reserve model with weights, in evaluation mode and float32 on the CPU.

    ``source`` is, in this order of trying:

    * a folder that ``save_pretrained`` wrote, or one in which the authors' training left ``ckpt_<step>`` files (the last is taken);
    * a file: ``.safetensors`` of ours, or else the authors' format, whatever its name;
    * a repository of the Hugging Face Hub that holds such a folder, downloaded once, and never with ``offline`` or HF_HUB_OFFLINE=1.

    Args:
        grid: patches of a frame, (rows, columns). No weight depends on it. The authors' files do not tell it; see ``ReleasedFile.config``.
        revision, cache_dir, token: of the Hub.

    Raises:
        CheckpointError: a file that cannot be read safely or does not fit; one table of what is missing, extra or misshapen is the
            error's note.
        DownloadError: the weights are not on this machine and cannot be had, as is the case of all that the authors released.
        InputError: nothing is called ``source``.
    """
    name, path = str(source), Path(source)
    if path.is_dir():
        model = _load_folder(path, grid)
    elif path.exists() or (isinstance(source, Path) and name not in RELEASED_NAMES):
        model = _load_file(path, grid)
    else:
        _refuse_dead_address(name)
        if not is_repository_id(name):
            raise InputError(f"no folder or file of MERLOT Reserve weights is at {name!r}")
        hub: dict[str, Any] = dict(revision=revision, cache_dir=cache_dir, offline=offline, token=token)
        config_file, weights_file = fetch(name, [(CONFIG_FILE,), (WEIGHTS_FILE,)], **hub)
        model = _load_pair(config_file, weights_file)
    if grid is not None:
        model = _with_grid(model, grid)
    return model.eval()


def save(model: Reserve, folder: str | Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` into the folder, each beside its place and then renamed.

    The configuration stands in both files, so that a later edit of one is noticed.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    values = model.config.as_dict()
    write_weights(folder, model.state_dict(), {METADATA_KEY: json.dumps(values)})
    write_json(folder / CONFIG_FILE, {"model_type": MODEL_TYPE, **values})


def _load_folder(folder: Path, grid: tuple[int, int] | None) -> Reserve:
    if (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file():
        return _load_pair(folder / CONFIG_FILE, folder / WEIGHTS_FILE)
    steps = {int(match[1]): path for path in folder.iterdir() if (match := re.fullmatch(r"ckpt_(\d{1,12})", path.name))}
    if not steps:
        raise CheckpointError(f"{folder} needs {CONFIG_FILE} and {WEIGHTS_FILE}, or the authors' ckpt_<step>, but has neither")
    return load_released(steps[max(steps)], grid=grid)


def _load_file(path: Path, grid: tuple[int, int] | None) -> Reserve:
    if path.suffix != ".safetensors":
        return load_released(path, grid=grid)
    recorded = read_metadata(path).get(METADATA_KEY)
    if recorded is None:
        raise CheckpointError(f"{path} does not say what configuration its weights have: give the folder with its {CONFIG_FILE}")
    return _filled(ReserveConfig.from_dict(json.loads(recorded)), read_state(path), str(path))


def _load_pair(config_file: Path, weights_file: Path) -> Reserve:
    values = read_json(config_file)
    kind = values.pop("model_type", None)
    if kind != MODEL_TYPE:
        raise CheckpointError(f"{config_file}: model_type is {kind!r}, but must be {MODEL_TYPE!r}")
    config = ReserveConfig.from_dict(values)
    require_recorded(config, weights_file, FREE_FIELDS)
    return _filled(config, read_state(weights_file), str(weights_file.parent))


def _filled(config: ReserveConfig, state: dict[str, Tensor], source: str) -> Reserve:
    with WithoutRandomNumbers():
        model = Reserve(config)
    require_match({name: tensor.shape for name, tensor in model.state_dict().items()}, state, source)
    model.load_state_dict(state, assign=True)
    return model


def _with_grid(model: Reserve, grid: tuple[int, int]) -> Reserve:
    config = replace(model.config, grid=grid)
    if config == model.config:
        return model
    return _filled(config, model.state_dict(), config.weights)


def _refuse_dead_address(name: str) -> None:
    """DownloadError for what once could be had from the authors."""
    released = (*RELEASED_NAMES, *(path.partition("/")[2] for path in RELEASED_NAMES))
    if name.strip("/") in released or (_DEAD_BUCKET in name and "//" in name):
        raise DownloadError(
            f"{name}: the released MERLOT Reserve weights can no longer be downloaded; if you still have the file, give its path, else "
            "train a model of your own or give the folder of one"
        )
