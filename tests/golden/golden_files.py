"""Where the golden files are, known while tests are collected, so that every file of a form becomes a test."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN_ROOT = Path(os.environ.get("WATCHWORD_GOLDEN") or Path(__file__).resolve().parents[3] / "shared" / "golden")
