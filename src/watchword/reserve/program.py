"""What all programs around a MERLOT Reserve have in common: its parameters in groups, its held-out examples, and how it is saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import default_collate

from .. import processes
from ..errors import InputError
from .model import Reserve
from .names import released_name, released_shape

__all__ = ["ReserveProgram", "count_parameters", "decays", "parameter_groups"]

SMALL = 4096  # numbers; what has no more stays free in finetuning


class ReserveProgram:
    """A model that is trained on ``dataset`` and measured on ``held_out``, or not if that is None. Both map (epoch, index) to an example
    and have a length. ``finetuning`` tells which parameters decay.
    """

    finetuning = True

    def __init__(self, model: Reserve, dataset: Any, *, held_out: Any) -> None:
        self.model, self.dataset, self.held_out = model, dataset, held_out

    def freeze(self, *parts: str) -> None:
        """What has one of these in its name does not learn: no loss reaches it, for which processes that work together would wait."""
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(not any(part in name for part in parts))

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(
            self.model,
            learning_rate=optimizer.learning_rate,
            weight_decay=optimizer.weight_decay,
            finetuning=self.finetuning,
            muon_learning_rate=optimizer.muon_learning_rate,
        )

    def trained_parameters(self) -> str:
        return count_parameters(self.model)

    def checkpoint_activations(self) -> None:
        self.model.checkpoint_activations()

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values if values.is_floating_point() else values.long() for name, values in batch.items()}

    def held_out_batches(self, size: int) -> Iterator[tuple[range, dict[str, Tensor]]]:
        """This process's share of the held-out examples, some at a time: their places, and one batch on the model's device.

        Raises InputError if there is none at all.
        """
        if not len(self.held_out):
            raise InputError("no example is held out to measure on")
        own, device = processes.share(len(self.held_out)), self.model.contrastive_scales.device
        for start in range(0, len(own), size):
            places = own[start : start + size]
            batch = default_collate([self.held_out[0, place] for place in places])
            yield places, self.prepare({name: values.to(device) for name, values in batch.items()})

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        model = Reserve(self.model.config)
        model.load_state_dict(weights)
        model.eval().save_pretrained(folder)


def count_parameters(model: nn.Module) -> str:
    """In words, how many parameters learn, of a model."""
    return f"training {sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad) / 1e6:.2f} million parameters"


def decays(shape: Sequence[int], *, finetuning: bool = False) -> bool:
    """Whether weight decay applies to a parameter of this shape *as released*: to all of more than one axis, and so to the biases of
    queries, keys and values, which have an axis for the heads; in finetuning only where there are more than 4096 numbers.
    """
    return len(shape) > 1 and (not finetuning or prod(shape) > SMALL)


def parameter_groups(
    model: Reserve,
    *,
    learning_rate: float,
    weight_decay: float = 0.1,
    finetuning: bool = False,
    muon_learning_rate: float | None = None,
) -> list[dict[str, Any]]:
    """The optimizer's groups of what learns: those that decay, and those that do not; with ``muon_learning_rate`` the matrices inside the
    blocks are a group for Muon.
    """
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {(True, False): [], (False, False): [], (True, True): []}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        path = released_name(name)
        shape = released_shape(path, parameter.shape, model.config.head_size, model.config.audio_patch)
        decaying = decays(shape, finetuning=finetuning)
        muon = muon_learning_rate is not None and decaying and ".layers." in name and parameter.ndim == 2
        groups[decaying, muon].append(parameter)
    return [
        {
            "params": parameters,
            "lr": muon_learning_rate if muon else learning_rate,
            "weight_decay": weight_decay if decaying else 0.0,
            **({"muon": True} if muon else {}),
        }
        for (decaying, muon), parameters in groups.items()
        if parameters
    ]
