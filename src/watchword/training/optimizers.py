"""The optimizers of a run, taken as one: one kind for every group, or Muon for the groups that say so and AdamW for the rest."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from .bfloat16_adam import Bfloat16Adam
from .settings import OptimizerSettings

__all__ = ["Optimizers"]


class Optimizers:
    """Takes parameter groups as torch's optimizers do; those with ``"muon": True`` hold matrices only and are given to Muon.

    Muon (Jordan et al. 2024, in torch) makes each matrix's update orthogonal; scaled as in Moonlight (arXiv 2502.16982), so that its
    rates compare with AdamW's.
    """

    def __init__(self, groups: list[dict[str, Any]], settings: OptimizerSettings) -> None:
        groups = [dict(group) for group in groups]
        muon = [group for group in groups if group.pop("muon", False)]
        rest = [group for group in groups if not any(group is other for other in muon)]
        finetuning: dict[str, Any] = {"correct_bias": settings.correct_bias, "pull_to_start": settings.pull_to_start}
        kind = partial(Bfloat16Adam, **finetuning) if settings.kind == "bfloat16_adam" else partial(torch.optim.AdamW, foreach=True)
        self.optimizers: list[torch.optim.Optimizer] = [kind(rest, lr=settings.learning_rate, betas=settings.betas, eps=settings.eps)]
        if muon:
            self.optimizers.append(torch.optim.Muon(muon, adjust_lr_fn="match_rms_adamw"))  # each group has its own rate and decay

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    @property
    def counts(self) -> dict[str, int]:
        """Of optimizers that count them, what was wrong with gradients since this process began."""
        counting = [optimizer for optimizer in self.optimizers if isinstance(optimizer, Bfloat16Adam)]
        return {name: getattr(optimizer, name) for optimizer in counting for name in ("nan_gradients", "skipped_steps")}

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
