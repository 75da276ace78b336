"""The learning rate as a function of the step."""

from __future__ import annotations

import math
from typing import Any, Literal

from .settings import TrainingSettings

__all__ = ["learning_rate", "released_rate", "rising_from_zero", "warmup_cosine"]


def learning_rate(step: int, base: float, settings: TrainingSettings, num_samples: int) -> float:
    """The rate at ``step`` (0-based) of parameters whose highest is ``base``; an epoch is of ``num_samples``."""
    optimizer, accumulation = settings.optimizer, settings.accumulation
    sizes: dict[str, Any] = {
        "num_steps": settings.num_steps,
        "warmup_steps": optimizer.warmup_steps,
        "final_fraction": optimizer.final_fraction,
    }
    if optimizer.schedule == "cosine":
        return base * warmup_cosine(step, **sizes)
    if optimizer.schedule != "released":
        return base * rising_from_zero(step, **sizes, decay="linear" if optimizer.schedule == "linear" else "cosine")
    return released_rate(
        step,
        base=base,
        floor=optimizer.final_fraction * optimizer.learning_rate,
        num_iterations=settings.num_steps * accumulation,
        warmup_iterations=optimizer.warmup_steps * accumulation,
        iterations_per_epoch=max(accumulation, num_samples * accumulation // settings.batch_size),
        accumulation=accumulation,
    )


def warmup_cosine(step: int, *, num_steps: int, warmup_steps: int, final_fraction: float) -> float:
    """The factor on the base rate at ``step`` (0-based): linear warm-up, then a cosine that reaches ``final_fraction`` at the end."""
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    done = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return final_fraction + (1 - final_fraction) * (1 + math.cos(math.pi * min(1.0, done))) / 2


def released_rate(
    step: int,
    *,
    base: float,
    floor: float,
    num_iterations: int,
    warmup_iterations: int,
    iterations_per_epoch: int,
    accumulation: int = 1,
) -> float:
    """The rate that the released X-CLIP code uses at an optimizer step (spec section 10.5, quirks 4 to 7).

    It counts micro-batches ("iterations"), is one update late, so that the first two steps without accumulation run at 0, does not
    take the warm-up off the cosine, and ends at one ``floor`` for all groups. An epoch's last incomplete accumulation is dropped.
    """
    if step == 0:
        return 0.0
    epoch, place = divmod(step - 1, iterations_per_epoch // accumulation)
    done = epoch * iterations_per_epoch + (place + 1) * accumulation - 1
    if done < warmup_iterations:
        return base * done / warmup_iterations
    return floor + (base - floor) * (1 + math.cos(math.pi * min(1.0, done / num_iterations))) / 2


def rising_from_zero(
    step: int, *, num_steps: int, warmup_steps: int, final_fraction: float = 0.0, decay: Literal["cosine", "linear"] = "cosine"
) -> float:
    """The factor on the base rate at ``step`` (0-based) as MERLOT Reserve was trained (its spec, sections 5 and 8.1).

    The first step is at 0 where there is a warm-up; the end is reached one step after the last. ``linear`` is of the finetunings.
    """
    if step < warmup_steps:
        return step / warmup_steps
    done = min((step - warmup_steps) / (num_steps - warmup_steps + 1), 1.0)
    left = 1 - done if decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return final_fraction + (1 - final_fraction) * left
