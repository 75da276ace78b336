"""Where the shared fixture folders are. Tests that need them skip with the reason when they are absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared_folder(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or SHARED / name)


GOLDEN_ROOT = shared_folder("WATCHWORD_GOLDEN", "golden")
MEDIA_ROOT = shared_folder("WATCHWORD_MEDIA", "media")


def _existing(folder: Path, variable: str) -> Path:
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: set ${variable} to the folder of fixtures")
    return folder


@pytest.fixture(scope="session")
def golden_root() -> Path:
    return _existing(GOLDEN_ROOT, "WATCHWORD_GOLDEN")


@pytest.fixture(scope="session")
def media_root() -> Path:
    return _existing(MEDIA_ROOT, "WATCHWORD_MEDIA")
