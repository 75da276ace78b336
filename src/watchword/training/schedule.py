"""The learning rate as a function of the step."""

from __future__ import annotations

import math

__all__ = ["warmup_cosine"]


def warmup_cosine(step: int, *, num_steps: int, warmup_steps: int, final_fraction: float) -> float:
    """The factor on the base rate at ``step`` (0-based): linear warm-up, then a cosine that reaches ``final_fraction`` at the end."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    done = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return final_fraction + (1 - final_fraction) * (1 + math.cos(math.pi * min(1.0, done))) / 2
