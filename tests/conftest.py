"""Where the shared fixture folders are. Tests that need them skip with the reason when they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared_folders import GOLDEN_ROOT, MEDIA_ROOT


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
