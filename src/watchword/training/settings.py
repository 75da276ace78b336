"""What a training run is told, checked before it starts: unknown keys and values out of range are errors that name the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["OptimizerSettings", "TrainingSettings"]


class OptimizerSettings(BaseModel):
    """The optimizer and its schedule. Defaults other than the rates are the X-CLIP paper's (spec section 10.1).

    ``kind``: AdamW, or ``bfloat16_adam``, Adam as MERLOT Reserve was trained, see ``Bfloat16Adam``; ``correct_bias`` and ``pull_to_start``
    go with it and make it the optimizer of the finetunings.
    ``new_parts_factor`` multiplies the rate of parts that no image-text checkpoint has. ``muon_learning_rate`` trains the matrices
    inside the blocks by Muon, at this rate and this factor (docs/decisions.md says why). With ``schedule`` cosine the rate rises linearly
    over ``warmup_steps`` (or ``warmup_epochs``), then falls along a cosine to ``final_fraction`` of itself at the last step; ``released``
    does it as X-CLIP's authors' code does, see ``schedule.released_rate``, and ``from_zero`` as MERLOT Reserve's does, whose first step is
    at 0, see ``schedule.rising_from_zero``; ``linear``, of the finetunings, then falls straight to 0 unless ``final_fraction`` is given.
    ``decay_logit_scale`` lets the weight decay pull the scale of the
    scores to one where the text learns, as released; without, only matrices decay.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind: Literal["adamw", "bfloat16_adam"] = "adamw"
    learning_rate: float = Field(gt=0)
    new_parts_factor: float = Field(default=10.0, gt=0)
    muon_learning_rate: float | None = Field(default=None, gt=0)
    weight_decay: float = Field(default=0.001, ge=0)
    correct_bias: bool = False
    pull_to_start: bool = False
    decay_logit_scale: bool = True
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = Field(default=1e-8, gt=0)
    schedule: Literal["cosine", "released", "from_zero", "linear"] = "cosine"
    warmup_steps: int = Field(default=0, ge=0)
    warmup_epochs: float = Field(default=0, ge=0)
    final_fraction: float = Field(default=0.01, ge=0, le=1)
    clip_gradient_norm: float | None = Field(default=None, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _straight_to_zero(cls, values: Any) -> Any:
        linear = isinstance(values, dict) and values.get("schedule") == "linear"
        return {"final_fraction": 0.0, **values} if linear else values

    @model_validator(mode="after")
    def _one_optimizer(self) -> Self:
        for name in ("correct_bias", "pull_to_start"):
            if getattr(self, name) and self.kind != "bfloat16_adam":
                raise ValueError(f"{name} goes with kind bfloat16_adam")
        if self.kind != "adamw" and self.muon_learning_rate is not None:
            raise ValueError("muon_learning_rate goes with kind adamw")
        return self


class TrainingSettings(BaseModel):
    """One run of the loop, of ``num_steps`` steps or as many as make ``num_epochs`` passes over the data.

    ``batch_size`` counts samples of one step, which are computed in ``accumulation`` parts one after another to save memory; the
    gradient is that of the whole batch, for losses that are means over samples (a contrastive loss is not). ``checkpoint_every`` steps
    the run can be resumed from; a run that is killed repeats at most so many. ``precision``: the type matrix products are computed in
    (autocast); weights stay float32, and with float16 the loss is scaled so that small gradients survive (a step whose gradients
    overflow is left out). ``checkpoint_activations`` computes activations anew for the gradients instead of keeping them: the same
    gradients with less memory and more time. ``compile`` has torch.compile make kernels for the blocks of the model, which takes minutes at
    the start. ``parallel``: how torchrun's processes share the work, see ``watchword.training.parallel``;
    the batch is that of all of them together. ``keep_best`` names a number of the evaluation, of which more is better, such as
    ``held_out_top1``: the model at whose evaluation it was highest is kept in ``best/``. Chosen on the videos it was measured on, that
    number flatters it. ``moments_from``: the ``state.pt`` of another run of the same model, whose weights and moments this one begins with,
    as adaptation of MERLOT Reserve to other resolutions does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(default=0, ge=0)
    num_steps: int = Field(default=0, ge=0)
    num_epochs: float = Field(default=0, ge=0)
    batch_size: int = Field(gt=0)
    accumulation: int = Field(default=1, gt=0)
    optimizer: OptimizerSettings
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    checkpoint_activations: bool = False
    compile: bool = False
    checkpoint_every: int = Field(default=200, gt=0)
    evaluate_every: int | None = Field(default=None, gt=0)
    keep_best: str | None = None
    moments_from: Path | None = None
    log_every: int = Field(default=10, gt=0)
    num_workers: int = Field(default=0, ge=0)
    device: str = "cpu"
    parallel: Literal["ddp", "fsdp"] = "ddp"

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if (self.num_steps > 0) == (self.num_epochs > 0):
            raise ValueError("write num_steps or num_epochs, one of them")
        if self.optimizer.warmup_steps and self.optimizer.warmup_epochs:
            raise ValueError("write warmup_steps or warmup_epochs, one of them")
        if self.keep_best is not None and self.evaluate_every is None:
            raise ValueError("keep_best needs evaluate_every: without it there is one evaluation, of the last model")
        if self.moments_from is not None and self.optimizer.pull_to_start:
            raise ValueError("moments_from would bring along another run's optimizer, which has no start to pull to: leave one of them out")
        return self

    def for_samples(self, num_samples: int) -> TrainingSettings:
        """These settings with epochs of so many samples counted out in steps."""
        steps_per_epoch = num_samples / self.batch_size
        steps = self.num_steps or max(1, round(self.num_epochs * steps_per_epoch))
        whole = int if self.optimizer.schedule == "linear" else round  # the finetunings' is cut off (Reserve spec, section 8.1)
        warmup = self.optimizer.warmup_steps or whole(self.optimizer.warmup_epochs * steps_per_epoch)
        optimizer = self.optimizer.model_copy(update={"warmup_steps": warmup, "warmup_epochs": 0})
        return self.model_copy(update={"num_steps": steps, "num_epochs": 0, "optimizer": optimizer})
