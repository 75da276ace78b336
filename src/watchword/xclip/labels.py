"""Labels as the model sees them: encoded once, kept for as long as the weights stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import LabelError
from ..weights.evaluating import evaluating, kept_features
from .model import VideoFeatures, XClip

__all__ = ["BACKGROUND", "background_labels", "encode_labels", "match_against", "own_classes", "score_labels"]

CHUNK_SIZE = 128  # labels encoded at a time, in alphabetical order: those that begin alike together
SCORE_CHUNK_SIZE = 1024  # labels scored at a time

BACKGROUND = (
    "nothing is happening",
    "an empty room",
    "a landscape",
    "a street with cars",
    "a crowd of people",
    "a person talking to the camera",
    "a person standing still",
    "a person sitting at a table",
    "people walking",
    "a close-up of a hand",
    "an animal",
    "a plant",
    "a building",
    "an object on a table",
    "text on a screen",
    "a blank screen",
)
"""Plain scenes that a label must beat to count as a match, for weights that name no classes of their own."""


def background_labels(model: XClip) -> tuple[str, ...]:
    """What a label is measured against: the classes that the weights were trained to tell apart, or else ``BACKGROUND``."""
    return model.config.class_names if len(model.config.class_names) > 1 else BACKGROUND


def own_classes(model: XClip) -> tuple[str, ...]:
    """The classes that the weights were trained to tell apart, which serve as labels if none are given.

    Raises LabelError if the weights name none.
    """
    if not model.config.class_names:
        raise LabelError(f"give labels: the weights {model.config.weights!r} name no classes of their own")
    return model.config.class_names


def match_against(model: XClip) -> str:
    """What a match is measured against, in words; "" where each label is scored by itself."""
    if model.logit_bias is not None:
        return ""
    return "the classes of the weights" if len(model.config.class_names) > 1 else "plain scenes"


def encode_labels(model: XClip, labels: Sequence[str], *, truncate: bool = False, keep: bool = True) -> Tensor:
    """Text features (K, E) of the labels on the model's device, each text encoded once for the weights as they are now.

    The features are kept beside the model until a text weight changes, by training or in place, or until they are asked for in
    another precision; not without ``keep``, for texts that come once and are many. ``truncate`` cuts labels of more than
    ``context_length - 2`` tokens instead of refusing them.

    Raises:
        LabelError: a label is too long and ``truncate`` is off.
    """
    cached = kept_features(model, model.text_parameters()) if keep else {}
    missing = [label for label in dict.fromkeys(labels) if (label, truncate) not in cached]
    if missing:
        ids = model.tokenize(missing, truncate=truncate)
        alphabetical = sorted(range(len(missing)), key=ids.tolist().__getitem__)
        device = model.logit_scale.device
        with torch.no_grad(), evaluating(model):
            for start in range(0, len(missing), CHUNK_SIZE):
                chunk = alphabetical[start : start + CHUNK_SIZE]
                features = model.encode_alike(ids[chunk].to(device))
                cached.update(zip(((missing[index], truncate) for index in chunk), features, strict=True))
    return torch.stack([cached[label, truncate] for label in labels])


def score_labels(model: XClip, features: VideoFeatures, text: Tensor) -> Tensor:
    """Logits float32 (B, K) of text features (K, E), however many: the labels are scored in chunks, which changes nothing."""
    return torch.cat([model.score(features, chunk) for chunk in torch.split(text, SCORE_CHUNK_SIZE)], dim=-1).float()
