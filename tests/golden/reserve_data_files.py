"""The fixtures of the folder reserve_data, recognised by what they hold and not by their names, so that other folders of the form work."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shared_folders import GOLDEN_ROOT

FOLDER = GOLDEN_ROOT / "reserve_data"


@cache
def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def arrays_with(*names: str) -> list[Path]:
    """The .npz files that hold arrays of these names."""
    found = []
    for path in sorted(FOLDER.rglob("*.npz")):
        with zipfile.ZipFile(path) as file:
            if {f"{name}.npy" for name in names} <= set(file.namelist()):
                found.append(path)
    return found


def arrays_beginning(prefix: str) -> list[Path]:
    """The .npz files that hold arrays whose names begin so."""
    found = []
    for path in sorted(FOLDER.glob("*.npz")):
        with zipfile.ZipFile(path) as file:
            if any(name.startswith(prefix) for name in file.namelist()):
                found.append(path)
    return found


def objects_with(*keys: str) -> list[Path]:
    """The .json files that hold an object with these keys."""
    return [path for path in sorted(FOLDER.glob("*.json")) if isinstance(read_json(path), dict) and set(keys) <= set(read_json(path))]


def lists_with(*keys: str) -> list[Path]:
    """The .json files that hold a list of objects with these keys."""
    return [
        path
        for path in sorted(FOLDER.glob("*.json"))
        if isinstance(read_json(path), list) and read_json(path) and set(keys) <= set(read_json(path)[0])
    ]


def each(paths: list[Path], kind: str) -> Callable[[Any], Any]:
    """Parametrise a test by files. It is skipped with a reason if the folder has none of the kind."""
    if not paths:
        return pytest.mark.parametrize(
            "path", [pytest.param(None, marks=pytest.mark.skip(reason=f"no {kind} in {FOLDER}: set $WATCHWORD_GOLDEN"))]
        )
    return pytest.mark.parametrize("path", paths, ids=[path.stem for path in paths])
