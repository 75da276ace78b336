"""Many processes: torchrun's group is joined here, and a program's model is wrapped by DDP or FSDP2 from outside.

Both act around the forward pass of a module, but a program calls several functions of its model (``encode_video``, ``encode_text``,
``score``) and reads parameters between them. So what is wrapped is a module around the model whose forward pass calls a function, the
program's loss: gradients are reduced once a step however often a part was used, parameters are there wherever the loss looks, and
neither models nor programs know of any of it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from .. import processes
from ..errors import ConfigError, WatchwordError
from ..launched import is_launched
from .checkpoint import load_state, save_state
from .optimizers import Optimizers

__all__ = ["Layout", "compile_blocks", "in_turn", "joined"]

T = TypeVar("T")
# A process that dies is noticed by torchrun at once. This is for one that waits while another prepares the data.
_PATIENCE = timedelta(hours=6)


@contextmanager
def joined(device: str) -> Iterator[str]:
    """Join torchrun's processes (gloo for the CPU, NCCL for GPUs) and give this one's device: the GPU of its number on the machine.

    Without torchrun, with one process or in a group that was joined before, nothing is done. Raises ConfigError if the processes
    outnumber the GPUs, and WatchwordError, saying how to go on, if another process ends before this one.
    """
    if not is_launched() or os.environ["WORLD_SIZE"] == "1" or dist.is_initialized():
        yield device
        return
    device = _own_device(torch.device(device))
    dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl", timeout=_PATIENCE)
    try:
        yield device
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        raise WatchwordError(
            f"process {processes.rank()} lost another process of this run, which torchrun names below; "
            "the same command goes on from the last saved step"
        ) from error
    dist.destroy_process_group()  # not after an error: it would wait for processes that are gone


def _own_device(device: torch.device) -> str:
    if device.type == "cpu":
        return "cpu"
    number, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type != "cuda" or device.index not in (None, number):
        raise ConfigError(f"several processes run on cpu or on cuda, where each takes the GPU of its number, but the device is {device}")
    if number >= there:
        raise ConfigError(f"this machine has {there} GPUs, fewer than processes: start torchrun with --nproc-per-node {there}")
    torch.cuda.set_device(number)
    return f"cuda:{number}"


@contextmanager
def in_turn() -> Iterator[None]:
    """Do something, such as preparing files, first on one process, then on one of each other machine, then on the rest."""
    turn = 0 if processes.rank() == 0 else 1 if os.environ.get("LOCAL_RANK") == "0" else 2
    for _ in range(turn):
        processes.gather(None)
    yield
    for _ in range(turn, 2):
        processes.gather(None)


class _Calling(nn.Module):
    """Calls functions about a model in its forward pass, see the module's docstring."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)


def compile_blocks(model: nn.Module) -> None:
    """Have torch.compile make kernels for every repeated block, which are compiled once for all of a kind."""
    for block in _blocks(model):
        block.compile(dynamic=True)


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            yield from module


class Layout:
    """A program's model as it lies on the processes: whole on the only one, whole on each (DDP) or in shards (FSDP2).

    Make it before the optimizer, of a model that is on its device, and give the optimizer ``parameter_groups``: sharding replaces
    parameters. Gradients are means over the processes.

    Attributes:
        parameter_groups: those that were given, of the parameters that are trained now.
    """

    def __init__(self, model: nn.Module, parameter_groups: list[dict[str, Any]], *, kind: str, device: str) -> None:
        self.model = model
        self.module: nn.Module = _Calling(model)
        self.scalars: list[str] = []
        names = {parameter: name for name, parameter in model.named_parameters()}
        if processes.count() > 1 and kind == "ddp":
            self.module = DistributedDataParallel(self.module, gradient_as_bucket_view=True)
        elif processes.count() > 1:
            self._shard(device)
        now = dict(model.named_parameters())
        self.parameter_groups = [{**group, "params": [now[names[old]] for old in group["params"]]} for group in parameter_groups]

    def _shard(self, device: str) -> None:
        """FSDP2 of every repeated block and of the rest, as the first process has them."""
        for tensor in self.model.state_dict().values():
            dist.broadcast(tensor, 0)
        self.scalars = [name for name, parameter in self.model.named_parameters() if parameter.ndim == 0]
        for name in self.scalars:  # FSDP2 shards the first dimension, so they need one; saved states have them as they were
            place, _, leaf = name.rpartition(".")
            old = self.model.get_parameter(name)
            setattr(self.model.get_submodule(place), leaf, nn.Parameter(old.detach().view(1), requires_grad=old.requires_grad))
        # It warns of modules whose outputs are views, as in-place operations on these would harm; there are none on a block's output.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(torch.device(device).type, (processes.count(),))
        for block in reversed(list(_blocks(self.model))):  # inner ones first
            fully_shard(block, mesh=mesh)
        fully_shard(self.module, mesh=mesh)

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """``function(*arguments)``, whose result's backward pass reduces the gradients over the processes."""
        result: T = self.module(function, *arguments)
        return result

    def reducing(self, wanted: bool) -> AbstractContextManager[None]:
        """For a forward and backward pass; unless ``wanted``, its gradients may wait to be reduced with those of the next one."""
        return nullcontext() if wanted or not isinstance(self.module, DistributedDataParallel) else self.module.no_sync()

    def evaluate(self, function: Callable[[], T]) -> T:
        """``function()`` in evaluation mode without gradients, with the model whole on every process.

        So each process may compute as much or as little as it likes, whatever the others do.
        """
        self.model.eval()
        sharded = [module for module in self.module.modules() if isinstance(module, FSDPModule)]
        if not sharded:
            with torch.inference_mode():
                return function()

        def whole() -> T:
            for module in sharded:
                module.unshard()
            with torch.inference_mode():
                return function()

        for module in sharded:
            module.set_reshard_after_forward(False, recurse=False)
        try:
            with torch.no_grad():
                return self(whole)
        finally:
            for module in sharded:
                module.reshard()
                module.set_reshard_after_forward(module is not self.module, recurse=False)

    def weights(self) -> dict[str, Tensor]:
        """The model's whole state dict on the CPU, on the first process; empty on others. All processes call this."""
        weights: dict[str, Any] = get_model_state_dict(self.model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        self._reshape_scalars((), weights, {})
        return weights

    def save(self, path: Path, optimizer: Optimizers, rest: dict[str, Any]) -> None:
        """Write a state that any layout loads, with ``rest``. All processes call this, the first one writes."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights, moments = get_state_dict(self.model, optimizer.optimizers, options=options)
        if processes.rank() == 0:
            self._reshape_scalars((), weights, moments)
            save_state(path, {**rest, "model": weights, "optimizer": moments})

    def load(self, path: Path, optimizer: Optimizers) -> dict[str, Any] | None:
        """Take on the state at ``path``, if there is one, and give its ``rest``. All processes call this, the first one reads."""
        state = (load_state(path) if processes.rank() == 0 else None) or {}
        weights, moments = state.pop("model", {}), state.pop("optimizer", {})
        rest = processes.gather(state)[0]
        if not rest:
            return None
        self._reshape_scalars((1,), weights, moments)
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=processes.count() > 1)
        set_model_state_dict(self.model, weights, options=options)
        set_optimizer_state_dict(self.model, optimizer.optimizers, moments, options=options)
        return rest

    def _reshape_scalars(self, shape: tuple[int, ...], weights: dict[str, Any], moments: dict[str, Any]) -> None:
        for name in self.scalars:
            for tensors in (weights, moments.get("state", {}).get(name, {})):
                for key in tensors.keys() & {name, "exp_avg", "exp_avg_sq", "start"}:
                    tensors[key] = tensors[key].view(shape)
