"""Adam whose moments take two bytes a number each, as MERLOT Reserve was trained with (its spec, sections 5 and 8.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from .. import processes

__all__ = ["Bfloat16Adam", "decode_square", "encode_square"]

FINER = 1 + 2**-9  # what a negative sign multiplies the stored cube with: half a step of bfloat16
SMALLEST = torch.finfo(torch.float32).tiny


class Bfloat16Adam(torch.optim.Optimizer):
    """Adam with decoupled weight decay; first moments in bfloat16, second ones as ``encode_square`` codes them.

    Unlike AdamW it corrects no bias unless told to. NaN in a gradient is taken as 0. A step with an infinite gradient on any process is
    left out on all, where the authors' code puts the largest number there is in its place.

    Attributes:
        nan_gradients, skipped_steps: how many numbers and steps these were, on this process since it began.

    Args:
        params: parameters or groups of them, as of any optimizer of torch.
        correct_bias: make up for the moments' beginning at 0, as Adam does.
        pull_to_start: decay towards the parameters as the optimizer first saw them, rounded to bfloat16, instead of towards 0, as the
            authors' finetuning does.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-6,
        weight_decay: float = 0.1,
        correct_bias: bool = False,
        pull_to_start: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**defaults, "correct_bias": correct_bias, "pull_to_start": pull_to_start})
        self.nan_gradients = 0
        self.skipped_steps = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; ``closure`` as of torch's optimizers."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = [own for group in self.param_groups for p in group["params"] if p.grad is not None for own in (_local(p.grad),)]
        if not gradients:
            return loss
        counted = torch.stack([torch.stack([own.isnan().sum(), own.isinf().sum()]) for own in gradients]).sum(dim=0)
        self.nan_gradients += int(counted[0])
        if float(processes.total({"infinite": counted[1]})["infinite"]) > 0:
            self.skipped_steps += 1
            return loss
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As of torch's optimizers, which makes all state of the parameters' type: back to bfloat16, which is exact."""
        super().load_state_dict(state_dict)
        for state in self.state.values():
            for name in state.keys() & {"exp_avg", "exp_avg_sq", "start"}:
                state[name] = state[name].to(torch.bfloat16)

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
            state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.bfloat16)
            if group["pull_to_start"] and group["weight_decay"]:
                state["start"] = parameter.to(torch.bfloat16)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        gradient = torch.where(parameter.grad.isnan(), 0, parameter.grad.float())  # type: ignore[union-attr]
        mean = gradient * (1 - beta1) + state["exp_avg"].float() * beta1
        square = gradient.square() * (1 - beta2) + decode_square(state["exp_avg_sq"]) * beta2
        state["exp_avg"].copy_(mean)
        state["exp_avg_sq"].copy_(encode_square(square))
        if group["correct_bias"]:
            mean, square = mean / (1 - beta1 ** int(state["step"])), square / (1 - beta2 ** int(state["step"]))
        update = mean / (square.sqrt() + group["eps"])
        if group["weight_decay"]:
            if group["pull_to_start"]:
                update -= group["weight_decay"] * state["start"].float()
            update += group["weight_decay"] * parameter
        parameter -= group["lr"] * update


def encode_square(square: Tensor) -> Tensor:
    """Numbers of at least 0, float32, as the bfloat16 of their cubes, whose sign tells in which half of a step the cube lies.

    Cubes that float32 has no full precision for (of numbers below about 2.3e-13) become 0, as in the release.
    """
    cube = _flushed(square * square * square)
    coarse = cube.to(torch.bfloat16).float()
    below, above = _flushed((coarse - cube).abs()), _flushed((coarse * FINER - cube).abs())
    return torch.where(below < above, coarse, -coarse).to(torch.bfloat16)


def decode_square(coded: Tensor) -> Tensor:
    """The inverse of ``encode_square``, to 0.14 % of the number, in float32."""
    cube = coded.float()
    cube = torch.where(cube >= 0, cube, -cube * FINER)
    root = cube.pow(1 / 3)
    # The power is off by the rounding of a third; one step of Newton's method makes up for it.
    return torch.where(cube > 0, root - (root - cube / (root * root)) / 3, 0)


def _flushed(x: Tensor) -> Tensor:
    return torch.where(x < SMALLEST, 0, x)


def _local(tensor: Tensor) -> Tensor:
    """This process's part of what may be spread over processes."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
