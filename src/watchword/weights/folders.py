"""A folder of weights: ``config.json`` and ``model.safetensors``, which holds the configuration too, so that an edit of one is noticed."""

from __future__ import annotations

import errno
import json
import warnings
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..errors import CheckpointError
from ..files import replacing, write_text
from .states import read_metadata

__all__ = [
    "CONFIG_FILE",
    "METADATA_KEY",
    "WEIGHTS_FILE",
    "WithoutRandomNumbers",
    "read_json",
    "require_recorded",
    "write_json",
    "write_weights",
]

METADATA_KEY = "watchword_config"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
# What drawing weights at random consists of, the scaling of what was drawn included. PyTorch shows a mode some of its own functions that
# draw, and then not what they do inside.
DRAWS = (
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
    torch.Tensor.erfinv_,
    torch.Tensor.mul_,
    torch.nn.init.kaiming_uniform_,
    torch.nn.init.normal_,
    torch.nn.init.uniform_,
)


class Config(Protocol):
    """A model's configuration."""

    def as_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self: ...


class WithoutRandomNumbers(TorchFunctionMode):
    """Leaves memory as it is where a model would draw its weights, which takes seconds at full size and is for nothing here.

    The meta device would do too, but makes PyTorch import its compiler, which takes longer than loading a model of base size.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return (torch.empty if func is torch.randn else func)(*args, **kwargs)


def require_recorded(config: Config, file: Path, free_fields: Set[str]) -> None:
    """CheckpointError unless the configuration is the one recorded in the weights' file, ``free_fields`` apart; a warning if none is."""
    recorded = read_metadata(file).get(METADATA_KEY)
    if recorded is None:
        warnings.warn(f"{file} does not say what configuration its weights were saved with, so config.json is taken on trust", stacklevel=4)
        return
    saved, stated = type(config).from_dict(json.loads(recorded)).as_dict(), config.as_dict()
    for field in saved:
        if field not in free_fields and saved[field] != stated[field]:
            raise CheckpointError(
                f"{file.parent}: config.json says {field} is {stated[field]!r}, but the weights were saved with {saved[field]!r}; "
                "restore config.json"
            )


def write_weights(folder: Path, state: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write the state dict as ``model.safetensors`` with these entries in its header; OSError if that is not possible."""
    tensors = {name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in state.items()}
    with replacing(folder / WEIGHTS_FILE) as beside:
        try:
            save_file(tensors, beside, metadata={"format": "pt", **metadata})
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error), str(folder)) from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an indented JSON object, whole or not at all."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    write_text(path, text)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object of a file; CheckpointError if it holds none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: must hold one JSON object")
    return values
