"""Where and how precisely a model computes, and how many cores there are."""

from __future__ import annotations

import os
import warnings
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import torch

from .errors import InputError
from .layers import with_weights_in

__all__ = ["PRECISIONS", "Precision", "autocast", "find_device", "num_cores", "usable_precision", "with_precision"]

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
M = TypeVar("M", bound=torch.nn.Module)
Precision = Literal["float32", "bfloat16", "float16"]


def find_device(name: str) -> torch.device:
    """The torch device of this name; ``auto`` is a GPU if there is one. InputError if this machine has no such device."""
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"no device {name!r} on this machine ({str(error).splitlines()[0].split('. ')[0]}): use cpu or auto") from error
    return device


def usable_precision(precision: Precision, device: torch.device) -> Precision:
    """The precision to compute in: float16 on a CPU becomes float32 with a warning. InputError for an unknown one."""
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
    if precision == "float16" and device.type == "cpu":
        warnings.warn("float16 is not for CPUs: computing in float32", UserWarning, stacklevel=3)
        return "float32"
    return precision


def with_precision(model: M, precision: Precision) -> M:
    """The model, or a copy of it with its weights as they are now in the lower precision: what ``autocast`` goes with."""
    return model if precision == "float32" else with_weights_in(model, PRECISIONS[precision])


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[Any]:
    """Within it models on the device compute in the precision."""
    return torch.autocast(device.type, PRECISIONS[precision], enabled=precision != "float32")


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
