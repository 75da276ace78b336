"""Segments and texts to the tensors that Reserve reads.

Source: merlot-reserve-data spec section 15.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..text.reserve import AUDIOSPAN, MASK, MASK_TEXT, PADDING, ReserveTokenizer, default_tokenizer
from .images import Grid, fit, patches, turn_tall
from .segmentation import WINDOW_SEGMENTS
from .segments import Segment
from .spectrogram import SUBSEGMENTS

__all__ = [
    "AUDIO_TOKENS", "SEQUENCE_LENGTH", "Content", "ReserveInputs", "TokenSequence",
    "mask_query", "preprocess", "query_ids", "sound_of", "text_of", "token_sequence",
]  # fmt: skip

AUDIO_TOKENS = 6
"""Positions in the joint sequence that the sound of one subsegment takes."""

SEQUENCE_LENGTH = 160
"""Tokens of a joint sequence beside the frames', as the released weights take them."""
NO_SUBSEGMENT = -1

Content = str | Sequence[int] | None
"""What stands for a segment in the joint sequence: text, token ids, or None for its sound."""

_MASK_MARK = re.compile(rf"\s*(?:<mask>|{re.escape(MASK_TEXT)})", re.IGNORECASE)


def mask_query(text: str) -> str:
    """A question with its blanks, written `<mask>`, as the model knows them: no space before a blank, which would be a token of its own.

    Raises InputError if there is no blank.
    """
    query, count = _MASK_MARK.subn(MASK_TEXT, text.strip())
    if not count:
        raise InputError(f"{text!r}: no blank in it; write <mask> where an answer goes")
    return query


def query_ids(text: str, tokenizer: ReserveTokenizer | None = None) -> list[int]:
    """Token ids of a question with its blanks, written `<mask>`. But for these, nothing in it is special.

    Raises InputError if there is no blank.
    """
    tokenizer = tokenizer or default_tokenizer()
    first, *rest = (tokenizer.encode(piece, special=False) for piece in mask_query(text).split(MASK_TEXT))
    return [*first, *(token for piece in rest for token in (MASK, *piece))]


def text_of(segment: Segment, tokenizer: ReserveTokenizer | None = None) -> list[int]:
    """The words of a segment as content. What reads like a special token in them is ordinary text."""
    return (tokenizer or default_tokenizer()).encode(segment.text, special=False)


def sound_of(segment: Segment) -> Content:
    """The sound of a segment as content; no text where the file has no sound."""
    return None if segment.has_sound.any() else []


class _Piece(NamedTuple):
    """Tokens that stay together, the subsegment that they belong to, and whether they are of the question."""

    tokens: tuple[int, ...]
    subsegment: int
    asked: bool = False


@dataclass(frozen=True)
class TokenSequence:
    """tokens, subsegments: int64 (length,); padding is 0 and -1.  num_cut: tokens that did not fit.

    The subsegment of a token is three times its segment, for sound plus 0, 1 or 2.
    """

    tokens: Tensor
    subsegments: Tensor
    num_cut: int


def token_sequence(
    contents: Sequence[Content],
    tokenizer: ReserveTokenizer | None = None,
    *,
    has_sound: Sequence[Sequence[bool]] | None = None,
    before: Mapping[int, Sequence[int]] | None = None,
    length: int = SEQUENCE_LENGTH,
    released: bool = False,
) -> TokenSequence:
    """The joint sequence of a window: for each segment its text, or six positions for the sound of each of its three subsegments.

    has_sound: (segments, 3); subsegments without sound take no positions. Default: all have some.
    before: by segment, token ids that stand before its content: a question.

    If it is longer than `length`, what lies farthest from the question, or without one from the blanks, is left out, sound by whole
    subsegments; without a blank the end is.
    released: the end is cut off, blanks or not, as in the release.

    Raises InputError for more than eight segments, a content of another kind, or blanks too far apart to fit.
    """
    tokenizer = tokenizer or default_tokenizer()
    if not 1 <= len(contents) <= WINDOW_SEGMENTS:
        raise InputError(f"{len(contents)} segments; the model sees 1 to {WINDOW_SEGMENTS} at once: use windows")
    pieces: list[_Piece] = []
    for number, content in enumerate(contents):
        heard = (True,) * SUBSEGMENTS if has_sound is None else has_sound[number]
        pieces += [piece._replace(asked=True) for piece in _pieces(number, (before or {}).get(number, ()), tokenizer, heard)]
        pieces += _pieces(number, content, tokenizer, heard)
    total = sum(len(piece.tokens) for piece in pieces)
    if not released:
        pieces = _fitting(pieces, length)
    flat = [(token, piece.subsegment) for piece in pieces for token in piece.tokens][:length]
    rows = torch.tensor([*flat, *[(PADDING, NO_SUBSEGMENT)] * (length - len(flat))], dtype=torch.int64).reshape(length, 2)
    return TokenSequence(rows[:, 0].clone(), rows[:, 1].clone(), total - len(flat))


def _pieces(number: int, content: Content, tokenizer: ReserveTokenizer, has_sound: Sequence[bool]) -> list[_Piece]:
    first = number * SUBSEGMENTS
    if content is None:
        return [_Piece((AUDIOSPAN,) * AUDIO_TOKENS, first + j) for j in range(SUBSEGMENTS) if has_sound[j]]
    ids = tokenizer.encode(content) if isinstance(content, str) else list(content)
    if not all(isinstance(token, int | np.integer) and 0 <= token < len(tokenizer) for token in ids):
        raise InputError(f"segment {number}: token ids must be whole numbers from 0 to {len(tokenizer) - 1}")
    return [_Piece((int(token),), first) for token in ids]


def _fitting(pieces: list[_Piece], length: int) -> list[_Piece]:
    """As many of the pieces around the question as fit, or if all of it does not, around the blanks."""
    sizes = [len(piece.tokens) for piece in pieces]
    kept = [i for i, piece in enumerate(pieces) if piece.asked]
    if not kept or sum(sizes[kept[0] : kept[-1] + 1]) > length:
        kept = [i for i, piece in enumerate(pieces) if piece.tokens == (MASK,)]
    first, last = (kept[0], kept[-1]) if kept else (0, 0)
    if kept and (between := sum(sizes[first : last + 1])) > length:
        raise InputError(f"{between} tokens from the first blank to the last, but {length} fit; shorten the text between")
    low, high = 0, len(pieces)
    left, right, total = sum(sizes[:first]), sum(sizes[last + 1 :]), sum(sizes)
    while total > length:
        if left > right:
            left, total, low = left - sizes[low], total - sizes[low], low + 1
        else:
            high -= 1
            right, total = right - sizes[high], total - sizes[high]
    return pieces[low:high]


@dataclass(frozen=True)
class ReserveInputs:
    """One window of a video as the model reads it.

    images: float32 (segments, patches, 768) from 0 to 1.
    audio_clips: float32 (3 x segments, 60, 65); zeros where no token refers to it.
    tokens, subsegments: int64 (length,), see `TokenSequence`.
    """

    images: Tensor
    audio_clips: Tensor
    tokens: Tensor
    subsegments: Tensor


def preprocess(
    segments: Sequence[Segment],
    contents: Sequence[Content],
    *,
    grid: Grid,
    tokenizer: ReserveTokenizer | None = None,
    length: int = SEQUENCE_LENGTH,
    turn: bool = False,
    released: bool = False,
) -> ReserveInputs:
    """A window of at most eight segments, and what stands for each of them in the joint sequence, as tensors.

    contents: one for each segment: a text (with `<|MASK|>` for a blank, see `mask_query`), token ids (see `text_of`), or None for sound.
    grid: (rows, columns) of patches of the model: (12, 20), (18, 32) or (24, 24) in the released ones.
    turn: lay frames much higher than wide on their side, as the released models saw them in training but not in answering (D15).
    released: subsegments without sound are given as silence instead of being masked, and an overlong sequence loses its end.

    Warns (UserWarning) if something did not fit. Raises InputError as `token_sequence` does, or if the numbers differ.
    """
    if len(segments) != len(contents):
        raise InputError(f"{len(segments)} segments, but {len(contents)} contents; give one for each")
    has_sound = [[True] * SUBSEGMENTS if released else segment.has_sound.tolist() for segment in segments]
    sequence = token_sequence(contents, tokenizer, has_sound=has_sound, length=length, released=released)
    if sequence.num_cut:
        warnings.warn(f"{sequence.num_cut} tokens do not fit into {length} and are left out; ask with less text", UserWarning, stacklevel=2)
    frames = [turn_tall(segment.frame) if turn else segment.frame for segment in segments]
    images = torch.stack([patches(fit(frame, grid).pixels) for frame in frames])
    audio = torch.stack([segment.spectrogram for segment in segments]).flatten(0, 1)
    heard = [content is None and heard for content, row in zip(contents, has_sound, strict=True) for heard in row]
    audio = torch.where(torch.tensor(heard)[:, None, None], audio, torch.zeros(()))
    return ReserveInputs(images, audio, sequence.tokens, sequence.subsegments)
