"""Fitting a group of masked rows into its length: first the ends go, then whole rows at random, never a blank.

Sequences are int64 (tokens, 3): id, audio pointer (the row), text pointer; padding is 0, -1, -1.
Source: merlot-reserve-data spec section 12; defect D9.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..text.reserve import AUDIOSPAN, MASK, MASKAUDIO, PADDING
from .draws import Draws
from .webtext import gumbel

__all__ = ["fit_end", "fit_group"]

_ROW_SCORE = 1e5
_BLANK_SCORE = np.float32(1e7)

Ints = npt.NDArray[np.int64]


def fit_end(tokens: Ints, length: int) -> Ints:
    """A sequence cut at its end, or padded, to `length`."""
    padding = np.array([[PADDING, -1, -1]], np.int64)
    return np.concatenate([tokens[:length], padding.repeat(max(length - len(tokens), 0), axis=0)])


def fit_group(tokens: Ints, length: int, num_rows: int, draws: Draws, *, split_rows: bool = False) -> Ints:
    """A group of rows padded to `length`, or shortened to it: words before the first and behind the last blank go first, then rows by lot.

    Masks are never dropped, nor a part of the six positions of a row's sound, so the result may be shorter before it is padded.
    num_rows: rows of the record.
    split_rows: as released, single positions of sound and MASKAUDIO can be dropped (defect D9); the sound behind is then read wrongly.
    """
    if len(tokens) <= length:
        return fit_end(tokens, length)
    units = np.arange(len(tokens)) if split_rows else _units(tokens)
    left, right = _spare_ends(tokens, len(tokens) - length, units)
    tokens, units = tokens[left : len(tokens) - right], units[left : len(tokens) - right]
    row_scores = draws.uniform("segment_score", num_rows, -_ROW_SCORE, _ROW_SCORE)
    noise = gumbel(draws.uniform("gumbel_u", len(tokens)))
    if len(tokens) > length:
        blank = tokens[:, 0] == MASK if split_rows else np.isin(tokens[:, 0], (MASK, MASKAUDIO))
        scores = np.where(blank, _BLANK_SCORE, np.float32(0)) + row_scores[tokens[:, 1]] + noise
        tokens = tokens[_best(scores, units - units[0], length)]
    return fit_end(tokens, length)


def _units(tokens: Ints) -> Ints:
    """(tokens,) the same number for the positions of one row's sound, another for each other token."""
    sound = tokens[:, 0] == AUDIOSPAN
    joined = sound[1:] & sound[:-1] & (tokens[1:, 1] == tokens[:-1, 1])
    return np.concatenate([[0], np.cumsum(~joined)])


def _spare_ends(tokens: Ints, excess: int, units: Ints) -> tuple[int, int]:
    """How many tokens to cut at the left and at the right, about as many at each."""
    size = len(tokens)
    special = np.flatnonzero(np.isin(tokens[:, 0], (MASK, MASKAUDIO, AUDIOSPAN)))
    blanks = np.flatnonzero(np.isin(tokens[:, 0], (MASK, MASKAUDIO)))
    lhs = int(special[0]) if len(special) else size
    rhs = size - 1 - int(blanks[-1]) if len(blanks) else size
    left = min(excess // 2, lhs)
    right = min(excess - left, rhs)
    if right:  # to where a unit begins
        right = size - int(np.searchsorted(units, units[size - right]))
    return min(max(excess - right, 0), lhs), right


def _best(scores: npt.NDArray[np.float32], units: Ints, length: int) -> Ints:
    """Numbers of the tokens of the best units that fit, in order. A unit's score is its first token's."""
    sizes = np.bincount(units)
    firsts = np.searchsorted(units, np.arange(len(sizes)))
    kept = np.zeros(len(sizes), bool)
    room = length
    for unit in np.argsort(-scores[firsts], kind="stable"):
        if sizes[unit] <= room:
            kept[unit] = True
            room -= sizes[unit]
    return np.flatnonzero(kept[units])
