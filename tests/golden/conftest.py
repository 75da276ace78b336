"""What every golden test needs: the fixtures' own generators of weights and inputs, read from the fixture folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def seeded_weights(golden_root: Path) -> ModuleType:
    return module_at(golden_root / "seeded_weights.py")


@pytest.fixture(scope="session")
def xclip_inputs(golden_root: Path) -> ModuleType:
    return module_at(golden_root / "xclip" / "seeded_inputs.py")
