"""Reading state dicts from files without running anything that is in them, and filling a model from them all or not at all."""

from __future__ import annotations

import hashlib
import pickle
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ..errors import CheckpointError

__all__ = ["fill", "hash_state", "read_metadata", "read_state", "require_match"]

NESTINGS = ("model", "state_dict", "model_state_dict")
WRAPPER_PREFIXES = ("module.", "_orig_mod.")
MAX_NAMES_IN_LINE = 4


# Official files hold their settings as a ``yacs`` object, a dict with attributes. Reading it as an ordered dict runs nothing of yacs.
_PLAIN_SETTINGS: list[Any] = [(OrderedDict, "yacs.config.CfgNode")]


class Shaped(Protocol):
    """A tensor, or what will become one."""

    @property
    def shape(self) -> tuple[int, ...]: ...


def read_state(path: Path, *, torchscript: bool = False) -> dict[str, Tensor]:
    """The state dict of a ``.safetensors`` file or a PyTorch file, in plain names and float32.

    PyTorch files are read with ``weights_only``. Nestings (``model``, ``state_dict``) are opened and the prefixes that wrappers
    leave (``module.``, ``_orig_mod.``) are cut. Half types are converted exactly; every tensor is contiguous and stands alone,
    also where the file ties several or holds views.

    Args:
        torchscript: accept TorchScript archives too, the form of OpenAI's CLIP files.

    Raises CheckpointError that names the file: it is missing, damaged, holds objects other than tensors and plain values, or no
    state dict.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file of weights")
    state = _unwrapped(_raw_state(path, torchscript), path)
    return {name: _alone(tensor) for name, tensor in state.items()}


def hash_state(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of the names and the bytes of a state dict, whatever order and device it comes in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_metadata(path: Path) -> dict[str, str]:
    """The text entries in the header of a ``.safetensors`` file; none for other files."""
    if path.suffix != ".safetensors":
        return {}
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({_first_line(error)})") from error


def fill(model: nn.Module, state: Mapping[str, Tensor], source: str) -> None:
    """Give the model these weights. If any name or shape differs, raise CheckpointError and leave the model as it was."""
    require_match({name: tensor.shape for name, tensor in model.state_dict().items()}, state, source)
    model.load_state_dict(state)


def require_match(expected: Mapping[str, torch.Size], state: Mapping[str, Shaped], source: str) -> None:
    """Raise CheckpointError unless the names and shapes are exactly the expected ones.

    The message counts and names what differs; the whole table, one row a tensor, is the error's note and its ``table``.
    """
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    misshapen = [name for name in expected if name in state and state[name].shape != expected[name]]
    if not (missing or unexpected or misshapen):
        return
    shapes = {
        **{name: f"{name} {_size(state[name].shape)} instead of {_size(expected[name])}" for name in misshapen},
        **dict.fromkeys([*missing, *unexpected]),
    }
    problems = "; ".join(
        f"{len(names)} {problem}: {_listed([shapes[name] or name for name in names])}"
        for problem, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", misshapen))
        if names
    )
    error = CheckpointError(f"{source} does not fit the model, nothing was loaded: {problems}")
    rows = [
        *(("missing", name, _size(expected[name]), "-") for name in missing),
        *(("unexpected", name, "-", _size(state[name].shape)) for name in unexpected),
        *(("shape", name, _size(expected[name]), _size(state[name].shape)) for name in misshapen),
    ]
    error.add_note(_table([("problem", "tensor", "model", "file"), *rows]))
    raise error


def _raw_state(path: Path, torchscript: bool) -> Any:
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: cannot be read as safetensors ({_first_line(error)})") from error
    try:
        if _is_torchscript(path):
            return _torchscript_state(path, torchscript)
        with torch.serialization.safe_globals(_PLAIN_SETTINGS):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"holds a {foreign[1]}, which is no weight and could run code" if foreign else "is damaged or holds foreign objects"
        raise CheckpointError(f"{path}: not opened, since it {reason}; export its state dict as .safetensors") from error
    except (RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path}: cannot be read as a PyTorch file of weights ({_first_line(error)})") from error


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _torchscript_state(path: Path, accepted: bool) -> dict[str, Tensor]:
    if not accepted:
        raise CheckpointError(f"{path}: is a TorchScript archive; if it is an image-text CLIP model, load it as clip:{path}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # deprecated, and still the only reader of OpenAI's files
        state: dict[str, Tensor] = torch.jit.load(str(path), map_location="cpu").state_dict()  # type: ignore[no-untyped-call]
    return state


def _unwrapped(content: Any, path: Path) -> dict[str, Tensor]:
    while isinstance(content, Mapping) and not all(isinstance(value, Tensor) for value in content.values()):
        key = next((key for key in NESTINGS if isinstance(content.get(key), Mapping)), None)
        if key is None:
            break
        content = content[key]
    if not isinstance(content, Mapping) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        found = f"keys {_listed([str(key) for key in content])}" if isinstance(content, Mapping) else type(content).__name__
        raise CheckpointError(f"{path}: holds no state dict, neither by itself nor under {', '.join(NESTINGS)}, but {found}")
    state = {str(name): tensor for name, tensor in content.items()}
    while prefix := next((prefix for prefix in WRAPPER_PREFIXES if all(name.startswith(prefix) for name in state)), None):
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    return state


def _alone(tensor: Tensor) -> Tensor:
    dtype = torch.float32 if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)


def _size(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMES_IN_LINE
    return ", ".join(names[:MAX_NAMES_IN_LINE]) + (f" and {more} more" if more > 0 else "") if names else "none"


def _table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def _first_line(error: BaseException) -> str:
    lines: Iterator[str] = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)
