"""Labels as the model sees them: encoded once, kept for as long as the weights stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ..errors import LabelError
from .model import VideoFeatures, XClip

__all__ = [
    "BACKGROUND", "background_labels", "clean_labels", "encode_labels", "evaluating", "match_against", "own_classes", "score_labels",
]  # fmt: skip

CHUNK_SIZE = 128  # labels encoded at a time, in alphabetical order: those that begin alike together
SCORE_CHUNK_SIZE = 1024  # labels scored at a time
MAX_CACHED = 100_000

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


def clean_labels(labels: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Labels with single spaces, each once, and a notice about those that were merged with an earlier one, or "".

    The text encoder does not see case or repeated spaces, so labels that differ in nothing else are the same label.

    Raises:
        LabelError: the list is empty or one string, or a label is no string or empty; the message names the position.
    """
    if isinstance(labels, str):
        raise LabelError(f"labels are one string, {labels!r}: give a list of strings")
    kept: dict[str, tuple[int, str]] = {}
    merged = []
    for position, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            raise LabelError(f"label {position} is {type(label).__name__}, but must be a string")
        text = " ".join(label.split())
        if not text:
            raise LabelError(f"label {position} of {len(labels)} is empty: remove it")
        first, _ = kept.setdefault(text.lower(), (position, text))
        if first != position:
            merged.append(f"label {position} ({text!r}) is label {first}")
    if not kept:
        raise LabelError("the list of labels is empty: give at least one label")
    more = f", and {len(merged) - 3} more" if len(merged) > 3 else ""
    notice = f"labels given twice were merged: {', '.join(merged[:3])}{more}" if merged else ""
    return tuple(text for _, text in kept.values()), notice


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


def encode_labels(model: XClip, labels: Sequence[str], *, truncate: bool = False) -> Tensor:
    """Text features (K, E) of the labels on the model's device, each text encoded once for the weights as they are now.

    The features are kept beside the model until a text weight changes, by training or in place, or until they are asked for in
    another precision. ``truncate`` cuts labels of more than ``context_length - 2`` tokens instead of refusing them.

    Raises:
        LabelError: a label is too long and ``truncate`` is off.
    """
    cached = _cached_features(model)
    if len(cached) > MAX_CACHED:
        cached.clear()
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


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model in evaluation mode within the block; afterwards every part is in the mode it was in before."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


Fingerprint = tuple[object, ...]
Features = dict[tuple[str, bool], Tensor]  # by text, and whether it might be cut
_FEATURES: WeakKeyDictionary[XClip, tuple[Fingerprint, Features]] = WeakKeyDictionary()


def _cached_features(model: XClip) -> Features:
    fingerprint = _fingerprint(model)
    known = _FEATURES.get(model)
    if known is None or known[0] != fingerprint:
        known = _FEATURES[model] = (fingerprint, {})
    return known[1]


def _fingerprint(model: XClip) -> Fingerprint:
    """Changes with any text weight. The sums see what the version counters do not: writes through ``.data`` or shared memory."""
    weights = model.text_parameters()
    precision = torch.get_autocast_dtype(weights[0].device.type) if torch.is_autocast_enabled(weights[0].device.type) else None
    versions = tuple((weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights)
    with torch.no_grad():
        sums = torch.stack([_bits(weight).sum(dtype=torch.int64) for weight in weights]).tolist()
    return precision, versions, tuple(sums)


def _bits(weight: Tensor) -> Tensor:
    """The weight's bytes as whole numbers, of eight bytes where they divide evenly: those are summed without a wider copy."""
    weight = weight.detach()
    size, per_number = weight.element_size(), 8 // weight.element_size()
    if weight.is_contiguous() and weight.storage_offset() % per_number == 0 and weight.numel() % per_number == 0:
        return weight.flatten().view(torch.int64)
    return weight.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size])
