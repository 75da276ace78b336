"""What one step of MERLOT Reserve's pretraining does, how it is measured, and which parameters decay (spec sections 4, 5 and 8.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from .. import processes
from .joint import PAD
from .model import Reserve
from .names import released_name, released_shape
from .pretraining import SOURCES, Pairs, PretrainingConfig, PretrainingDraws, pretraining_loss, pretraining_pairs

__all__ = ["PretrainingProgram", "count_parameters", "decays", "parameter_groups"]

SMALL = 4096  # numbers; what has no more stays free in finetuning
_EXAMPLES_AT_ONCE = 16  # when measuring


class PretrainingProgram:
    """Pretraining on examples of records, see ``reserve.examples``; ``held_out`` are others of the kind, or None.

    ``dataset`` and ``held_out`` map (epoch, index) to an example and have a length.
    """

    name = "pretraining"

    def __init__(self, model: Reserve, dataset: Any, *, config: PretrainingConfig, held_out: Any = None) -> None:
        self.model, self.dataset, self.config, self.held_out = model, dataset, config, held_out

    @property
    def metrics(self) -> list[str]:
        sounds = ["sound"] if self.model.audio_encoder is not None and self.config.sounds_found else []
        kinds = [] if self.held_out is None else ["frame", *sounds, *(f"span_{source}" for source in SOURCES)]
        return [f"held_out_{kind}_top1" for kind in kinds]

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(
            self.model,
            learning_rate=optimizer.learning_rate,
            weight_decay=optimizer.weight_decay,
            muon_learning_rate=optimizer.muon_learning_rate,
        )

    def trained_parameters(self) -> str:
        return count_parameters(self.model)

    def checkpoint_activations(self) -> None:
        self.model.checkpoint_activations()

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: values if values.is_floating_point() else values.long() for name, values in batch.items()}

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return pretraining_loss(pretraining_pairs(self.model, batch, self.config, PretrainingDraws.of(batch)), self.config)

    def evaluate(self) -> dict[str, Any]:
        """Over all the held-out examples together, in percent: how many frames are found by their words or sound, masked clips of sound
        by what is around them, and masked words, these by the kind of sequence.

        The candidates are all frames, all sounds, and all masked words of the examples; equal words are equally right.
        """
        if self.held_out is None:
            return {}
        gathered = [chunk for found in processes.gather([self._found(chunk) for chunk in self.chunks()]) for chunk in found]
        results: dict[str, Any] = {"num_held_out": len(self.held_out)}
        for kind in gathered[0] if gathered else ():
            parts = [chunk[kind] for chunk in gathered]
            queries, wanted, sources, answers, names = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
            right = (names[(queries @ answers.T).argmax(dim=1)] == wanted).all(dim=1).float()
            groups = {f"span_{source}": right[sources == i] for i, source in enumerate(SOURCES)} if kind == "span" else {kind: right}
            results |= {f"held_out_{name}_top1": 100 * float(rights.mean()) for name, rights in groups.items() if len(rights)}
        return results

    def chunks(self) -> list[range]:
        """This process's share of the held-out examples, some at a time."""
        own = processes.share(len(self.held_out))
        return [own[start : start + _EXAMPLES_AT_ONCE] for start in range(0, len(own), _EXAMPLES_AT_ONCE)]

    def held_out_batch(self, places: range) -> dict[str, Tensor]:
        """Some of the held-out examples as one batch on the model's device."""
        batch = default_collate([self.held_out[0, place] for place in places])
        return self.prepare({name: values.to(self.model.contrastive_scales.device) for name, values in batch.items()})

    def _found(self, places: range) -> dict[str, tuple[Tensor, ...]]:
        """Of some held-out examples, for each kind: vectors (n, width), the names (n, k) of what they are to find, what kind of sequence
        they are from (n,), and the candidates (m, width) with their names (m, k). On the CPU."""
        batch = self.held_out_batch(places)
        pairs = pretraining_pairs(self.model, batch, replace(self.config, spans_of_whole_batch=False), PretrainingDraws.of(batch))
        found = {
            kind: _numbered(own, places.start << 32) for kind, own in (("frame", pairs.frames), ("sound", pairs.sounds)) if own is not None
        }
        assert pairs.spans.sources is not None
        spans = batch["text_spans"].flatten(0, 1)[pairs.chosen]
        kept = (pairs.spans.sources >= 0) & (spans != PAD).any(dim=1)
        x, y, spans, sources = (tensor[kept] for tensor in (pairs.spans.x, pairs.spans.y, spans, pairs.spans.sources))
        found["span"] = (x, spans, sources, y, spans)
        return {kind: tuple(tensor.cpu() for tensor in tensors) for kind, tensors in found.items()}

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        model = Reserve(self.model.config)
        model.load_state_dict(weights)
        model.eval().save_pretrained(folder)


def _numbered(pairs: Pairs, first: int) -> tuple[Tensor, ...]:
    """Pairs in which every answer is another's: its name is a number from ``first`` on."""
    answers = pairs.y if pairs.extra is None else torch.cat([pairs.y, pairs.extra])
    names = torch.arange(first, first + len(answers), device=answers.device)[:, None]
    return pairs.x, names[: len(pairs.x)], names.new_zeros(len(pairs.x)), answers, names


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
