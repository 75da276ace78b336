"""What one step of MERLOT Reserve's pretraining does, and how it is measured (spec sections 4 and 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import processes
from .joint import PAD
from .model import Reserve
from .pretraining import SOURCES, Pairs, PretrainingConfig, PretrainingDraws, pretraining_loss, pretraining_pairs
from .program import ReserveProgram

__all__ = ["EXAMPLES_AT_ONCE", "PretrainingProgram"]

EXAMPLES_AT_ONCE = 16  # when measuring


class PretrainingProgram(ReserveProgram):
    """Pretraining on examples of records, see ``reserve.examples``; ``held_out`` are others of the kind, or None."""

    name = "pretraining"
    finetuning = False

    def __init__(self, model: Reserve, dataset: Any, *, config: PretrainingConfig, held_out: Any = None) -> None:
        super().__init__(model, dataset, held_out=held_out)
        self.config = config

    @property
    def metrics(self) -> list[str]:
        sounds = ["sound"] if self.model.audio_encoder is not None and self.config.sounds_found else []
        kinds = [] if self.held_out is None else ["frame", *sounds, *(f"span_{source}" for source in SOURCES)]
        return [f"held_out_{kind}_top1" for kind in kinds]

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return pretraining_loss(pretraining_pairs(self.model, batch, self.config, PretrainingDraws.of(batch)), self.config)

    def evaluate(self) -> dict[str, Any]:
        """Over all the held-out examples together, in percent: how many frames are found by their words or sound, masked clips of sound
        by what is around them, and masked words, these by the kind of sequence.

        The candidates are all frames, all sounds, and all masked words of the examples; equal words are equally right.
        """
        if self.held_out is None:
            return {}
        own = [self._found(places, batch) for places, batch in self.held_out_batches(EXAMPLES_AT_ONCE)]
        gathered = [chunk for found in processes.gather(own) for chunk in found]
        results: dict[str, Any] = {"num_held_out": len(self.held_out)}
        for kind in gathered[0] if gathered else ():
            parts = [chunk[kind] for chunk in gathered]
            queries, wanted, sources, answers, names = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
            right = (names[(queries @ answers.T).argmax(dim=1)] == wanted).all(dim=1).float()
            groups = {f"span_{source}": right[sources == i] for i, source in enumerate(SOURCES)} if kind == "span" else {kind: right}
            results |= {f"held_out_{name}_top1": 100 * float(rights.mean()) for name, rights in groups.items() if len(rights)}
        return results

    def _found(self, places: range, batch: dict[str, Tensor]) -> dict[str, tuple[Tensor, ...]]:
        """Of some held-out examples, for each kind: vectors (n, width), the names (n, k) of what they are to find, what kind of sequence
        they are from (n,), and the candidates (m, width) with their names (m, k). On the CPU."""
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


def _numbered(pairs: Pairs, first: int) -> tuple[Tensor, ...]:
    """Pairs in which every answer is another's: its name is a number from ``first`` on."""
    answers = pairs.y if pairs.extra is None else torch.cat([pairs.y, pairs.extra])
    names = torch.arange(first, first + len(answers), device=answers.device)[:, None]
    return pairs.x, names[: len(pairs.x)], names.new_zeros(len(pairs.x)), answers, names
