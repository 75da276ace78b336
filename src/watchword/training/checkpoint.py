"""The state a run resumes from: written beside and renamed into place, so that a kill at any moment leaves a whole one."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from ..errors import CheckpointError
from ..files import replacing

__all__ = ["load_state", "save_state"]


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, strings, lists, dictionaries) so that ``path`` is always whole or absent."""
    with replacing(path) as beside:
        torch.save(state, beside)


def load_state(path: Path) -> dict[str, Any] | None:
    """What ``save_state`` wrote, None if there is nothing. Nothing is unpickled beyond tensors and plain values."""
    if not path.exists():
        return None
    try:
        if not zipfile.is_zipfile(path):  # torch reports what is no archive in many ways
            raise EOFError("the file is cut short or something else")
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path}: not a training state ({str(error).splitlines()[0]}); delete it to start anew") from error
    return state
