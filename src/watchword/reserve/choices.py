"""Finetuning MERLOT Reserve on multiple choice about a frame: each choice is a sequence of words that ends in a blank, which is scored.

The audio encoder, the span encoder and ``head`` are left out, and ``proj``, one number a choice, is new (model spec section 8.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import default_collate

from .. import processes
from ..errors import InputError
from ..text.reserve import MASK, ReserveTokenizer
from .model import Reserve
from .recipe import count_parameters, parameter_groups

__all__ = ["ChoiceProgram", "choice_tokens", "for_choices"]

_EXAMPLES_AT_ONCE = 32


def choice_tokens(question: str, choices: Sequence[str], tokenizer: ReserveTokenizer, length: int) -> npt.NDArray[np.int64]:
    """(choices, length) token ids: the question, "answer: ", a choice, cut to leave room for the blank behind them; padded with 0."""
    found = np.zeros((len(choices), length), np.int64)
    for row, choice in zip(found, choices, strict=True):
        ids = [*tokenizer.encode(f"{question} answer: {choice}", special=False)[: length - 1], MASK]
        row[: len(ids)] = ids
    return found


def for_choices(model: Reserve, name: str, *, parts: tuple[str, ...] = ("proj",)) -> Reserve:
    """A model of these parts that scores choices and has what such a one can take over from ``model``; called ``name``."""
    made = Reserve(replace(model.config, parts=parts, weights=name))
    known = model.state_dict()
    made.load_state_dict({key: known.get(key, value) for key, value in made.state_dict().items()})
    return made


class ChoiceProgram:
    """Each of the B examples: ``images`` (patches, patch numbers) of one frame, ``tokens`` (choices, L) as of ``choice_tokens``, and the
    right one's number, ``label``. ``held_out`` is another data set of the kind.
    """

    name = "choices"

    def __init__(self, model: Reserve, dataset: Any, *, held_out: Any) -> None:
        model.part("proj", "score no choices")
        self.model, self.dataset, self.held_out = model, dataset, held_out

    @property
    def metrics(self) -> list[str]:
        return ["held_out_top1"]

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        rates = {"learning_rate": optimizer.learning_rate, "muon_learning_rate": optimizer.muon_learning_rate}
        return parameter_groups(self.model, weight_decay=optimizer.weight_decay, finetuning=True, **rates)

    def trained_parameters(self) -> str:
        return count_parameters(self.model)

    def checkpoint_activations(self) -> None:
        self.model.checkpoint_activations()

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return batch

    def scores(self, batch: dict[str, Tensor]) -> Tensor:
        """(B, choices), to be compared by softmax. The frame is encoded once for all its choices."""
        tokens = batch["tokens"].flatten(0, 1)
        frames = self.model.encode_frames(batch["images"]).pooled
        repeated = frames.repeat_interleave(len(tokens) // len(frames), dim=0)[:, None]
        inputs = self.model.joint_input(tokens, segments=torch.zeros_like(tokens), frames=repeated)
        return self.model.score_choices(inputs, tokens).view(len(frames), -1)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        scores = self.scores(batch).float()
        right = scores.detach().argmax(dim=1) == batch["label"]
        return F.cross_entropy(scores, batch["label"]), {"top1": 100 * right.float().mean()}

    def evaluate(self) -> dict[str, Any]:
        """Of the held-out examples, in percent, how many have their right choice scored highest."""
        if not len(self.held_out):
            raise InputError("no example is held out to measure on")
        own, device = processes.share(len(self.held_out)), self.model.token_encoder.weight.device
        num_right = 0
        for start in range(0, len(own), _EXAMPLES_AT_ONCE):
            batch = default_collate([self.held_out[0, index] for index in own[start : start + _EXAMPLES_AT_ONCE]])
            batch = {name: values.to(device) for name, values in batch.items()}
            num_right += int((self.scores(batch).argmax(dim=1) == batch["label"]).sum())
        return {"held_out_top1": 100 * sum(processes.gather(num_right)) / len(self.held_out), "num_held_out": len(self.held_out)}

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        model = Reserve(self.model.config)
        model.load_state_dict(weights)
        model.eval().save_pretrained(folder)
