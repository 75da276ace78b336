"""Which of torchrun's processes this is, told without importing torch."""

from __future__ import annotations

import os

__all__ = ["is_first", "is_launched"]


def is_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_first() -> bool:
    """Whether this process is the one that speaks and writes files: the first of torchrun's, or the only one."""
    return not is_launched() or os.environ["RANK"] == "0"
