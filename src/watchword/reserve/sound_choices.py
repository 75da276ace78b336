"""Finetuning MERLOT Reserve on multiple choice about a stretch of video: each choice is scored with the sound and with the subtitles.

Kept are audio, vision and joint encoder; ``proj``, one number a choice, is new. Source: model spec section 8.3, data spec section 17.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import default_collate

from .. import processes
from ..errors import InputError
from ..text.reserve import AUDIOSPAN, MASK, START, ReserveTokenizer
from .choices import ChoiceProgram, used_length
from .inputs import AUDIO_TOKENS
from .model import Reserve
from .spectrogram import SUBSEGMENTS

__all__ = ["PARTS", "SEQUENCE_LENGTH", "VERSIONS", "SoundChoiceProgram", "choice_sequences", "query_tokens", "score_versions"]

PARTS = ("audio_encoder", "proj")
VERSIONS = ("sound", "subtitles")
"""What beside the frames a choice is scored with, in the order of the sequences."""

SEQUENCE_LENGTH = 256
_EXAMPLES_AT_ONCE = 4  # each is ten sequences of over a thousand tokens in the joint encoder


def query_tokens(located: str, question: str, tokenizer: ReserveTokenizer) -> list[int]:
    """Where in the stretch the question's moment lies, such as "40 to 59", START, and the question."""
    return [*tokenizer.encode(located), START, *tokenizer.encode(question, special=False)]


def choice_sequences(
    query: Sequence[int], choices: Sequence[str], texts: Sequence[str], tokenizer: ReserveTokenizer, *, length: int = SEQUENCE_LENGTH
) -> npt.NDArray[np.int64]:
    """(2, choices, length, 2) of token id and segment: ``VERSIONS`` of each choice, padded with 0.

    A choice with its query and the blank behind it is segment 0. Behind it stand, from segment 1 on, for each window of the stretch the
    places of its sound, or what is said in it. texts: of the windows; what does not fit is cut off.
    """
    sound = [(AUDIOSPAN, segment) for segment in range(1, len(texts) + 1) for _ in range(SUBSEGMENTS * AUDIO_TOKENS)]
    said = [(token, segment) for segment, text in enumerate(texts, start=1) for token in tokenizer.encode(text, special=False)]
    found = np.zeros((len(VERSIONS), len(choices), length, 2), np.int64)
    for place, choice in enumerate(choices):
        head = [*query, *tokenizer.encode("answer: "), *tokenizer.encode(choice, special=False)]
        start = [(token, 0) for token in [*head[: length - 1], MASK]]
        for version, behind in enumerate((sound, said)):
            rows = [*start, *behind][:length]
            found[version, place, : len(rows)] = rows
    return found


def score_versions(model: Reserve, images: Tensor, audio_clips: Tensor, sequences: Tensor) -> Tensor:
    """Scores (B, versions, choices), to be compared by softmax over the choices.

    Frames and sounds are encoded once for all choices and versions.

    Args:
        images: (B, windows, patches, patch numbers), as of ``Reserve.encode_frames``; the n-th window is segment n, counted from 1.
        audio_clips: (B, windows, 3, audio_frames, audio_features), as of ``Reserve.encode_sounds``.
        sequences: (B, versions, choices, L, 2), as of ``choice_sequences``.

    Raises InputError if the weights have no audio encoder or were not finetuned.
    """
    each = sequences.shape[1] * sequences.shape[2]
    sequences = sequences[..., : used_length(sequences[..., 0]), :]
    tokens, segments = sequences.flatten(0, 2).unbind(-1)
    frames = model.encode_frames(images.flatten(0, 1)).pooled
    sounds = model.encode_sounds(audio_clips.flatten(0, 2)).pooled
    num_sounds, per_sound = len(sounds) // len(images), sounds.shape[1]
    inputs = model.joint_input(
        tokens,
        segments=segments,
        frames=frames.view(*images.shape[:2], *frames.shape[1:]).repeat_interleave(each, dim=0),
        sounds=sounds.view(-1, num_sounds, *sounds.shape[1:]).repeat_interleave(each, dim=0),
        pointers=((tokens == AUDIOSPAN).cumsum(1) - 1) // per_sound % num_sounds,
        first_frame_segment=1,
    )
    return model.score_choices(inputs, tokens).view(sequences.shape[:3])


class SoundChoiceProgram(ChoiceProgram):
    """Each of the B examples: ``images``, ``audio_clips``, ``sequences`` as of ``score_versions``, and the right one, ``label``."""

    name = "sound_choices"

    def __init__(self, model: Reserve, dataset: Any, *, held_out: Any) -> None:
        model.part("audio_encoder", "take no sound")
        super().__init__(model, dataset, held_out=held_out)

    @property
    def metrics(self) -> list[str]:
        return ["held_out_top1", *(f"held_out_{version}_top1" for version in VERSIONS)]

    def scores(self, batch: dict[str, Tensor]) -> Tensor:
        """(B, versions, choices), see ``score_versions``."""
        return score_versions(self.model, batch["images"], batch["audio_clips"], batch["sequences"])

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of the versions' mean cross entropies."""
        of_versions = self.scores(batch).float().unbind(1)
        losses = [F.cross_entropy(scores, batch["label"]) for scores in of_versions]
        right = [(scores.detach().argmax(dim=1) == batch["label"]).float().mean() for scores in of_versions]
        shares = {f"{version}_top1": 100 * share for version, share in zip(VERSIONS, right, strict=True)}
        return torch.stack(losses).sum(), shares

    def evaluate(self) -> dict[str, Any]:
        """Of the held-out examples, in percent, how many have their right choice scored highest: by the mean of the versions'
        probabilities, and by each version."""
        if not len(self.held_out):
            raise InputError("no example is held out to measure on")
        own, device = processes.share(len(self.held_out)), self.model.token_encoder.weight.device
        num_right = torch.zeros(1 + len(VERSIONS), dtype=torch.int64)
        for start in range(0, len(own), _EXAMPLES_AT_ONCE):
            batch = default_collate([self.held_out[0, index] for index in own[start : start + _EXAMPLES_AT_ONCE]])
            batch = {name: values.to(device) for name, values in batch.items()}
            probabilities = self.scores(batch).float().softmax(dim=-1)
            answers = torch.cat([probabilities.mean(dim=1, keepdim=True), probabilities], dim=1).argmax(dim=-1)
            num_right += (answers == batch["label"][:, None]).sum(dim=0).cpu()
        totals = torch.stack(processes.gather(num_right)).sum(dim=0).tolist()
        shares = {name: 100 * total / len(self.held_out) for name, total in zip(self.metrics, totals, strict=True)}
        return {**shares, "num_held_out": len(self.held_out)}
