"""The files of $WATCHWORD_MEDIA with what their expected.json says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def files_with_facts(media_root: Path) -> list[tuple[Path, dict[str, Any]]]:
    """The files of the folders hard and clips, as far as these are there."""
    found = []
    for folder in (media_root / "hard", media_root / "clips"):
        listing = folder / "expected.json"
        files = json.loads(listing.read_text(encoding="utf-8"))["files"] if listing.is_file() else {}
        found += [(folder / name, facts) for name, facts in files.items()]
    if not found:
        pytest.skip(f"no expected.json in the folders hard and clips of {media_root}")
    return found
