"""What a training run is told, checked before it starts: unknown keys and values out of range are errors that name the key."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["OptimizerSettings", "TrainingSettings"]


class OptimizerSettings(BaseModel):
    """AdamW and its schedule. Defaults other than the rates are the X-CLIP paper's (spec section 10.1).

    ``new_parts_factor`` multiplies the rate of parts that no image-text checkpoint has. ``muon_learning_rate`` trains the matrices
    inside the blocks by Muon, at this rate and this factor (docs/decisions.md says why). With ``schedule`` cosine the rate rises linearly
    over ``warmup_steps``, then falls along a cosine to ``final_fraction`` of itself at the last step; ``released`` does it as the authors'
    code does, see ``schedule.released_rate``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    learning_rate: float = Field(gt=0)
    new_parts_factor: float = Field(default=10.0, gt=0)
    muon_learning_rate: float | None = Field(default=None, gt=0)
    weight_decay: float = Field(default=0.001, ge=0)
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(default=1e-8, gt=0)
    schedule: Literal["cosine", "released"] = "cosine"
    warmup_steps: int = Field(default=0, ge=0)
    final_fraction: float = Field(default=0.01, ge=0, le=1)
    clip_gradient_norm: float | None = Field(default=None, gt=0)


class TrainingSettings(BaseModel):
    """One run of the loop.

    ``batch_size`` counts samples of one step, which are computed in ``accumulation`` parts one after another to save memory; the
    gradient is that of the whole batch, for losses that are means over samples (a contrastive loss is not). ``checkpoint_every`` steps
    the run can be resumed from; a run that is killed repeats at most so many. ``precision``: the type matrix products are computed in
    (autocast); weights stay float32.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(default=0, ge=0)
    num_steps: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    accumulation: int = Field(default=1, gt=0)
    optimizer: OptimizerSettings
    precision: Literal["float32", "bfloat16"] = "float32"
    checkpoint_every: int = Field(default=200, gt=0)
    evaluate_every: int | None = Field(default=None, gt=0)
    log_every: int = Field(default=10, gt=0)
    num_workers: int = Field(default=0, ge=0)
    device: str = "cpu"
