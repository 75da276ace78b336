"""Weights in and out: our own folders and the authors' files. Nothing is downloaded from the authors' addresses, which are dead."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import CheckpointError, DownloadError, InputError
from ..files import filling, write_text
from ..text.reserve import ReserveTokenizer, default_tokenizer
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
from .card import Origin, model_card
from .config import ReserveConfig
from .model import Reserve
from .released import ReleasedFile, load_released, read_released, save_released

__all__ = [
    "BUNDLED", "RELEASED_NAMES", "Origin", "ReleasedFile", "holds_reserve", "is_bundled", "load", "own_tokenizer", "read_released",
    "released_file", "save", "save_released",
]  # fmt: skip

MODEL_TYPE = "watchword-reserve"
BUNDLED, BUNDLED_NAME = Path(__file__).parent / "bundled", "playground"
RELEASED_NAMES = (
    *(f"ckpts/{name}" for name in ("base", "base_resadapt", "large", "large_resadapt")),
    *(f"{task}_ckpts/{task}_finetune_{size}" for task in ("vcr", "tvqa") for size in ("base", "large")),
)
TOKENIZER_FILE = "tokenizer.json"
CARD_FILE = "README.md"
_DEAD_BUCKET = "merlotreserve"
_RELEASED_START = re.compile(rb"[\x81-\x8f](\xa4step|\xa6params|\xa9opt_state)")  # a map whose first key is one of theirs

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
    * ``playground``, the small model that comes with the package;
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
    elif is_bundled(name):
        model = _load_folder(BUNDLED / name, grid)
    else:
        _refuse_dead_address(name)
        if not is_repository_id(name):
            raise InputError(f"no folder or file of MERLOT Reserve weights is at {name!r}; `playground` comes with the package")
        hub: dict[str, Any] = dict(revision=revision, cache_dir=cache_dir, offline=offline, token=token)
        config_file, weights_file = fetch(name, [(CONFIG_FILE,), (WEIGHTS_FILE,)], **hub)
        model = _load_pair(config_file, weights_file)
    if grid is not None:
        model = _with_grid(model, grid)
    return model.eval()


def is_bundled(name: str) -> bool:
    """Whether weights of this name come with the package."""
    return name == BUNDLED_NAME


def save(model: Reserve, folder: str | Path, *, origin: Origin | None = None, tokenizer: ReserveTokenizer | None = None) -> None:
    """Write ``config.json``, ``model.safetensors``, ``tokenizer.json`` and a card, ``README.md``, into the folder, each beside its place
    and then renamed. A card that is there stays.

    The configuration stands in both of the first two, so that a later edit of one is noticed.

    Args:
        origin: the authors' file that the weights were converted from, for the card.
        tokenizer: None takes the released one, if it has as many tokens as the model; otherwise none is written.
    """
    folder = Path(folder)
    values = model.config.as_dict()
    if tokenizer is None and len(default_tokenizer()) == model.config.vocab_size:
        tokenizer = default_tokenizer()
    with filling(folder, (WEIGHTS_FILE, TOKENIZER_FILE, CARD_FILE, CONFIG_FILE)):
        write_weights(folder, model.state_dict(), {METADATA_KEY: json.dumps(values)})
        if tokenizer is not None:
            write_text(folder / TOKENIZER_FILE, tokenizer.json)
        if not (folder / CARD_FILE).exists():
            num_parameters = sum(parameter.numel() for parameter in model.parameters())
            write_text(folder / CARD_FILE, model_card(model.config, num_parameters, origin, trained=model.is_trained))
        write_json(folder / CONFIG_FILE, {"model_type": MODEL_TYPE, **values})


def own_tokenizer(folder: str | Path) -> ReserveTokenizer | None:
    """The tokenizer that lies beside weights, None if none does. Raises CheckpointError for a file that is no vocabulary."""
    path = Path(folder) / TOKENIZER_FILE
    return ReserveTokenizer(path) if path.is_file() else None


def holds_reserve(source: str | Path) -> bool:
    """Whether a file or folder holds MERLOT Reserve weights of ours or of the authors, by its content; True for their dead addresses."""
    path = Path(source)
    try:
        if (path / CONFIG_FILE).is_file():
            return bool(read_json(path / CONFIG_FILE).get("model_type") == MODEL_TYPE)
        if path.is_file() and path.suffix == ".safetensors":
            return '"joint_layers"' in read_metadata(path).get(METADATA_KEY, "")
        if (released := released_file(path)) is None:
            return not path.exists() and _is_dead_address(str(source))
        with released.open("rb") as file:
            return _RELEASED_START.match(file.read(16)) is not None
    except OSError:  # a name that is too long, a file that may not be read: for whoever loads it to say
        return False


def _load_folder(folder: Path, grid: tuple[int, int] | None) -> Reserve:
    if (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file():
        return _load_pair(folder / CONFIG_FILE, folder / WEIGHTS_FILE)
    steps = _steps(folder)
    if not steps:
        raise CheckpointError(f"{folder} needs {CONFIG_FILE} and {WEIGHTS_FILE}, or the authors' ckpt_<step>, but has neither")
    return load_released(steps[max(steps)], grid=grid)


def released_file(source: str | Path) -> Path | None:
    """The authors' file that ``load`` reads for this source: itself, or of a folder the last ``ckpt_<step>``; None for what is ours."""
    path = Path(source)
    if path.is_file():
        return None if path.suffix == ".safetensors" else path
    if not path.is_dir() or (path / CONFIG_FILE).is_file():
        return None
    steps = _steps(path)
    return steps[max(steps)] if steps else None


def _steps(folder: Path) -> dict[int, Path]:
    return {int(match[1]): path for path in folder.iterdir() if (match := re.fullmatch(r"ckpt_(\d{1,12})", path.name))}


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
    if _is_dead_address(name):
        raise DownloadError(
            f"{name}: the released MERLOT Reserve weights can no longer be downloaded; if you still have the file, give its path, else "
            "train a model of your own or give the folder of one"
        )


def _is_dead_address(name: str) -> bool:
    released = (*RELEASED_NAMES, *(path.partition("/")[2] for path in RELEASED_NAMES))
    return name.strip("/") in released or (_DEAD_BUCKET in name and "//" in name)
