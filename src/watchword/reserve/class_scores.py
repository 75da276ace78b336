"""Finetuning MERLOT Reserve to tell named classes of videos apart, Kinetics-600's above all (paper section 4.3; model spec section 8.4).

A blank stands behind the sound of a clip, or alone. Its vector, through ``head``, is compared with one of each class, and these begin as
the span encoder's vectors of the class names: so before any training the model answers as it would fill in the blank. The scale of the
scores is that of spans in pretraining, learned on. The authors have not released this finetuning; where the paper is silent it is ours:
the blank's vector is of unit length, as in pretraining, while those of the classes, a linear map without bias, learn freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import processes
from ..errors import InputError, LabelError
from .labelled_clips import places_of
from .model import Reserve
from .options import encode_options, read_options
from .pretraining import MAX_LOG_SCALE
from .program import ReserveProgram
from .vectors import unit_normalize

__all__ = ["ClassProgram", "class_scores", "for_classes"]

_EXAMPLES_AT_ONCE = 8
_OF_SPANS = 2  # among the contrastive scales


def for_classes(model: Reserve, class_names: Sequence[str], name: str, *, sound: bool) -> Reserve:
    """A model that tells these classes apart, whose other parts are those of ``model`` as far as it needs them; called ``name``.

    Raises:
        LabelError: fewer than two classes, or two that cannot be told apart.
        InputError: ``model`` lacks a part: the span encoder, ``head``, or with ``sound`` the audio encoder.
    """
    options = read_options(class_names)
    if len(options.texts) != len(class_names):
        raise LabelError(f"two classes with one name cannot be told apart: {'; '.join(options.notices)}")
    parts = ("audio_encoder", "head") if sound else ("head",)
    for part in parts:
        model.part(part, "cannot be finetuned on classes" + (" with sound" if part == "audio_encoder" else ""))
    made = Reserve(replace(model.config, parts=parts, class_names=options.texts, weights=name)).to(model.token_encoder.weight.device)
    known = {**model.state_dict(), "classes.weight": encode_options(model, options.ids)}
    made.load_state_dict({key: known[key] for key in made.state_dict()})
    return made.train(model.training)


def class_scores(model: Reserve, clips: dict[str, Tensor]) -> Tensor:
    """(B, classes), to be compared by softmax.

    ``clips``: ``images`` (B, 4, patches, patch numbers), ``audio_clips`` (B, 6, audio frames, audio features) and ``tokens`` (B, L), as of
    ``LabelledClip``; where L is 1 the sound is not read.

    Raises InputError if the weights were not made for classes, or the tokens speak of sound and there is no audio encoder.
    """
    if model.classes is None:
        raise InputError(f"the weights {model.config.weights!r} name no classes: finetune them on some")
    tokens, sounds = clips["tokens"], None
    subsegments, segments = (places.expand_as(tokens) for places in places_of(tokens.shape[1], tokens.device))
    if tokens.shape[1] > 1:
        heard = model.encode_sounds(clips["audio_clips"].flatten(0, 1)).pooled
        sounds = heard.reshape(*clips["audio_clips"].shape[:2], *heard.shape[1:])
    seen = model.encode_frames(clips["images"].flatten(0, 1)).pooled
    frames = seen.reshape(*clips["images"].shape[:2], *seen.shape[1:])
    inputs = model.joint_input(tokens, segments=segments, frames=frames, sounds=sounds, pointers=subsegments)
    joint = model.join(inputs)
    assert joint.projected is not None
    blank = unit_normalize(joint.projected[:, tokens.shape[1] - 1])
    scale = model.contrastive_scales[_OF_SPANS].clamp(max=MAX_LOG_SCALE).exp()
    scores: Tensor = scale * model.classes(blank)
    return scores


class ClassProgram(ReserveProgram):
    """Each of the B examples is a ``LabelledClip`` by names and ``label``, the number of its class. ``held_out`` is another data set of the
    kind.
    """

    name = "classes"

    def __init__(self, model: Reserve, dataset: Any, *, held_out: Any) -> None:
        super().__init__(model, dataset, held_out=held_out)
        self.freeze("cls_proj")  # of frames and sounds by themselves, which are not compared here

    @property
    def places(self) -> list[int]:
        """k of the top-k accuracies: 1, and 5 where there are so many classes."""
        return [1, 5] if len(self.model.config.class_names) >= 5 else [1]

    @property
    def metrics(self) -> list[str]:
        return [f"held_out_top{k}" for k in self.places]

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        scores = class_scores(self.model, batch).float()
        right = scores.detach().argmax(dim=1) == batch["label"]
        return F.cross_entropy(scores, batch["label"]), {"top1": 100 * right.float().mean()}

    def evaluate(self) -> dict[str, Any]:
        """Of the held-out clips, in percent, how many have their class among the best."""
        num_right = torch.zeros(len(self.places), dtype=torch.long)
        for _, batch in self.held_out_batches(_EXAMPLES_AT_ONCE):
            best = class_scores(self.model, batch).topk(self.places[-1], dim=1).indices == batch["label"][:, None]
            num_right += torch.stack([best[:, :k].any(dim=1).sum() for k in self.places]).cpu()
        shares = 100 * torch.stack(processes.gather(num_right)).sum(dim=0) / len(self.held_out)
        return {**dict(zip(self.metrics, shares.tolist(), strict=True)), "num_held_out": len(self.held_out)}
