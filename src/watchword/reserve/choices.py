"""Finetuning MERLOT Reserve on multiple choice about a frame: each choice is a sequence of words that ends in a blank, which is scored.

The audio encoder, the span encoder and ``head`` are left out, and ``proj``, one number a choice, is new (model spec section 8.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from .. import processes
from ..text.reserve import MASK, PADDING, ReserveTokenizer
from .model import Reserve
from .program import ReserveProgram

__all__ = ["ChoiceProgram", "blanks_behind", "choice_scores", "choice_tokens", "for_choices", "used_length"]

_EXAMPLES_AT_ONCE = 32
_LENGTH_STEP = 16


def choice_tokens(question: str, choices: Sequence[str], tokenizer: ReserveTokenizer, length: int) -> npt.NDArray[np.int64]:
    """(choices, length) token ids: the question, "answer: ", a choice, cut to leave room for the blank behind them; padded with 0."""
    return blanks_behind([tokenizer.encode(f"{question} answer: {choice}", special=False) for choice in choices], length)


def blanks_behind(rows: Sequence[Sequence[int]], length: int) -> npt.NDArray[np.int64]:
    """(rows, length): token ids, cut to leave room for the blank behind them; padded with 0."""
    found = np.zeros((len(rows), length), np.int64)
    for row, ids in zip(found, rows, strict=True):
        whole = [*ids[: length - 1], MASK]
        row[: len(whole)] = whole
    return found


def used_length(tokens: Tensor) -> int:
    """How much of sequences (..., L), padded with 0, has to be computed: no position depends on how much padding follows."""
    used = int((tokens != PADDING).sum(dim=-1).max())
    return -(-used // _LENGTH_STEP) * _LENGTH_STEP


def choice_scores(model: Reserve, images: Tensor, tokens: Tensor) -> Tensor:
    """(B, sets, choices), to be compared by softmax over the choices.

    Args:
        images: (B, patches, patch numbers), one frame an example. It is encoded once for all sequences about it.
        tokens: (B, sets, choices, L) as of ``blanks_behind``.
    """
    tokens = tokens[..., : used_length(tokens)]
    rows = tokens.flatten(0, 2)
    frames = model.encode_frames(images).pooled
    repeated = frames.repeat_interleave(len(rows) // len(frames), dim=0)[:, None]
    inputs = model.joint_input(rows, segments=torch.zeros_like(rows), frames=repeated)
    return model.score_choices(inputs, rows).view(tokens.shape[:3])


def for_choices(model: Reserve, name: str, *, parts: tuple[str, ...] = ("proj",)) -> Reserve:
    """A model of these parts that scores choices and has what such a one can take over from ``model``; called ``name``."""
    made = Reserve(replace(model.config, parts=parts, weights=name))
    known = model.state_dict()
    made.load_state_dict({key: known.get(key, value) for key, value in made.state_dict().items()})
    return made


class ChoiceProgram(ReserveProgram):
    """Each of the B examples: ``images`` (patches, patch numbers) of one frame, ``tokens`` (sets, choices, L) as of ``blanks_behind``, and
    the right one's number in each set, ``label`` (sets,). ``held_out`` is another data set of the kind, with the names of the ``sets``.
    """

    name = "choices"

    def __init__(self, model: Reserve, dataset: Any, *, held_out: Any) -> None:
        model.part("proj", "score no choices")
        super().__init__(model, dataset, held_out=held_out)
        self.freeze("cls_proj", "contrastive_scales")

    @property
    def metrics(self) -> list[str]:
        sets = self.held_out.sets
        return ["held_out_top1", *(f"held_out_{name}_top1" for name in sets if len(sets) > 1)]

    def scores(self, batch: dict[str, Tensor]) -> Tensor:
        """(B, sets, choices), see ``choice_scores``."""
        return choice_scores(self.model, batch["images"], batch["tokens"])

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The mean over examples and sets."""
        scores = self.scores(batch).float()
        right = scores.detach().argmax(dim=-1) == batch["label"]
        return F.cross_entropy(scores.flatten(0, 1), batch["label"].flatten()), {"top1": 100 * right.float().mean()}

    def evaluate(self) -> dict[str, Any]:
        """Of the held-out examples, in percent, how many have their right choice scored highest, in all their sets and in each."""
        found = [torch.empty(0, len(self.held_out.sets), dtype=torch.bool)]
        for _, batch in self.held_out_batches(_EXAMPLES_AT_ONCE):
            found.append((self.scores(batch).argmax(dim=-1) == batch["label"]).cpu())
        right = torch.cat(processes.gather(torch.cat(found)))
        shares = [right.all(dim=1).double().mean(), *right.double().mean(dim=0)]
        percents = {name: 100 * float(share) for name, share in zip(self.metrics, shares, strict=False)}
        return {**percents, "num_held_out": len(self.held_out)}
