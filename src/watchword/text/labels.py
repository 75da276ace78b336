"""Labels, options: short texts that a user lists, of which the model finds the one that fits."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LabelError

__all__ = ["clean_labels"]


def clean_labels(labels: Sequence[str], *, noun: str = "label") -> tuple[tuple[str, ...], str]:
    """Labels with single spaces, each once, and a notice about those that were merged with an earlier one, or "".

    Text encoders do not see case or repeated spaces, so labels that differ in nothing else are the same label. ``noun``: what a label is
    called in messages.

    Raises:
        LabelError: the list is empty or one string, or a label is no string or empty; the message names the position.
    """
    if isinstance(labels, str):
        raise LabelError(f"{noun}s are one string, {labels!r}: give a list of strings")
    kept: dict[str, tuple[int, str]] = {}
    merged = []
    for position, label in enumerate(labels, start=1):
        if not isinstance(label, str):
            raise LabelError(f"{noun} {position} is {type(label).__name__}, but must be a string")
        text = " ".join(label.split())
        if not text:
            raise LabelError(f"{noun} {position} of {len(labels)} is empty: remove it")
        first, _ = kept.setdefault(text.lower(), (position, text))
        if first != position:
            merged.append(f"{noun} {position} ({text!r}) is {noun} {first}")
    if not kept:
        raise LabelError(f"the list of {noun}s is empty: give at least one {noun}")
    more = f", and {len(merged) - 3} more" if len(merged) > 3 else ""
    notice = f"{noun}s given twice were merged: {', '.join(merged[:3])}{more}" if merged else ""
    return tuple(text for _, text in kept.values()), notice
