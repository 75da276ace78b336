"""Where the shared fixture folders are, known while tests are collected, so that every file of a form becomes a test."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
GOLDEN_ROOT = Path(os.environ.get("WATCHWORD_GOLDEN") or SHARED / "golden")
MEDIA_ROOT = Path(os.environ.get("WATCHWORD_MEDIA") or SHARED / "media")
