"""Web text with stretches of it masked: the sequence that keeps Reserve's language from being only what people say in videos.

Source: merlot-reserve-data spec section 13.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..text.reserve import END, MASK, RESETCTX, START
from .draws import Draws

__all__ = ["LENGTH_WEIGHTS", "RELEASED_180M_LENGTH_WEIGHTS", "gumbel", "mask_web_text"]

LENGTH_WEIGHTS = (
    0.03233136, 0.05236081, 0.08763368, 0.11757072, 0.13737426, 0.13717706, 0.12541218, 0.10262764, 0.0771088, 0.05364242, 0.0342899,
    0.0203823, 0.01177542, 0.00664939, 0.00366406,
)  # fmt: skip
"""How likely a piece of 1, 2 .. 15 tokens is: as long as the spans of words in videos (YT-Temporal-1B)."""

RELEASED_180M_LENGTH_WEIGHTS = (
    0.0210583, 0.03984984, 0.06506665, 0.09467365, 0.12138153, 0.13305461, 0.12973022, 0.11296043, 0.09024, 0.06730134, 0.04789645,
    0.03232633, 0.02123288, 0.01397406, 0.00925371,
)  # fmt: skip
"""The same for YT-Temporal-180M."""

_KEPT_SHARE = 0.85  # of the masked tokens, as the release estimates how much text becomes how long a sequence
_INVALID_WEIGHT = 0.2
_NOT_IN_TEXT = tuple(token for token in range(RESETCTX + 1) if token not in (START, END))
_TINY = np.float32(np.finfo(np.float32).tiny)

Ints = npt.NDArray[np.int64]


def gumbel(uniform: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Gumbel noise from uniform numbers; 0 counts as the smallest number above it."""
    noise: npt.NDArray[np.float32] = -np.log(-np.log(np.maximum(uniform, _TINY)))
    return noise


def mask_web_text(
    text: Sequence[int] | Ints,
    valid: npt.NDArray[np.bool_],
    draws: Draws,
    *,
    length: int,
    num_masks: int,
    first_pointer: int,
    weights: Sequence[float] = LENGTH_WEIGHTS,
) -> tuple[Ints, list[Ints]]:
    """A stretch of `text` cut into pieces, of which some are masked: (tokens (n, 3), spans), n near `length`, neither cut nor padded.

    text: token ids.  valid: (ids,) which may stay in a span, see `ReserveTokenizer.span_valid`; pieces of such alone are masked more often.
    Columns of tokens: id, number of the piece, and on masks `first_pointer` + number of the span; else -1.
    spans: the valid ids of each masked piece, in order; there are fewer than `num_masks` if there are fewer pieces.

    Raises InputError for ids that `valid` does not have, or special ones but START and END.
    """
    ids = np.asarray(text, np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < len(valid):
        raise InputError(f"web text has token ids from {ids.min()} to {ids.max()}; they must be from 0 to {len(valid) - 1}")
    if np.isin(ids, _NOT_IN_TEXT).any():
        raise InputError("web text has padding or mask tokens in it; encode documents with special=False")
    mean = float(np.dot(weights, np.arange(1, len(weights) + 1)))
    budget = min(length + int((_KEPT_SHARE * mean - 1) * num_masks), len(ids))
    ends = np.cumsum(draws.weighted("webtext_span_lengths", budget, weights))
    ends = ends[ends <= budget]
    total = int(ends[-1]) if len(ends) else 0
    offset = draws.below("webtext_offset", max(len(ids) - total, 1))
    pieces = np.split(ids[offset : offset + total], ends[:-1]) if len(ends) else []
    masked = _chosen(pieces, valid, draws, num_masks)
    return _sequence(ids, pieces, masked, offset, length, first_pointer), [pieces[i][valid[pieces[i]]] for i in masked]


def _chosen(pieces: list[Ints], valid: npt.NDArray[np.bool_], draws: Draws, num_masks: int) -> list[int]:
    """Numbers of the pieces to mask, in order."""
    good = np.array([bool(valid[piece].all()) for piece in pieces], bool)
    scores = np.log(np.where(good, 1, _INVALID_WEIGHT)).astype(np.float32)
    scores = scores + gumbel(draws.uniform("webtext_gumbel_uniform", len(pieces)))
    return sorted(np.argsort(-scores, kind="stable")[:num_masks].tolist())


def _sequence(ids: Ints, pieces: list[Ints], masked: list[int], offset: int, length: int, first_pointer: int) -> Ints:
    pointers = {piece: first_pointer + rank for rank, piece in enumerate(masked)}
    rows = []
    for number, piece in enumerate(pieces):
        if number in pointers:
            rows.append((MASK, number, pointers[number]))
        else:
            rows += [(int(token), number, -1) for token in piece]
    missing = max(length - len(rows), 0)
    end = offset + sum(len(piece) for piece in pieces)
    before = ids[max(offset - missing // 2, 0) : offset]
    behind = ids[end : end + (missing + 1) // 2]
    rows = [(int(token), 0, -1) for token in before] + rows + [(int(token), len(pieces), -1) for token in behind]
    return np.array(rows, np.int64).reshape(-1, 3)
