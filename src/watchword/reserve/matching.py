"""The matching sequence: a record's words or sound, with a place before each segment whose hidden state is matched to its frame.

Source: merlot-reserve-data spec section 13; defect D12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..text.reserve import AUDIOSPAN, END, LTOVPOOL, START, ReserveTokenizer
from .inputs import AUDIO_TOKENS
from .rows import SegmentWords
from .spectrogram import SUBSEGMENTS
from .truncation import fit_end

__all__ = ["POSITIONS_OF_SOUND", "fair_shares", "matching_sequence"]

POSITIONS_OF_SOUND = 1 + SUBSEGMENTS * AUDIO_TOKENS
"""Positions that a segment takes by its sound."""

Ints = npt.NDArray[np.int64]


def matching_sequence(
    segments: Sequence[SegmentWords],
    uses_audio: bool,
    tokenizer: ReserveTokenizer,
    *,
    length: int,
    text_length: int,
    released: bool = False,
) -> Ints:
    """int64 (length, 3): metadata as far as `text_length` allows, then for each segment LTOVPOOL and its sound or its words.

    A segment without sound has its words instead. Text too long is shortened segment by segment, so that each keeps its LTOVPOOL; the
    metadata of all the record's videos stand in front, each with a fair share of the room.
    released: the first video's metadata alone, and what does not fit is cut off at the end, LTOVPOOLs too (defect D12).
    """
    bodies = [_body(number, segment, uses_audio and segment.has_sound) for number, segment in enumerate(segments)]
    if not released:
        lengths = [len(body) for body in bodies]
        heard = [uses_audio and segment.has_sound for segment in segments]
        room = length - len(bodies) - sum(size - 1 for size, sound in zip(lengths, heard, strict=True) if sound)
        shares = fair_shares([0 if sound else size - 1 for size, sound in zip(lengths, heard, strict=True)], room)
        bodies = [body if sound else body[: 1 + share] for body, share, sound in zip(bodies, shares, heard, strict=True)]
    room = max(text_length - sum(len(body) for body in bodies), 0)
    metadata = [_metadata(segment, tokenizer) for segment in (segments[:1] if released else _first_of_videos(segments))]
    shares = fair_shares([len(ids) for ids in metadata], room)
    ids = [token for video, share in zip(metadata, shares, strict=True) for token in video[:share]]
    front = np.full((len(ids), 3), -1, np.int64)
    front[:, 0] = ids
    return fit_end(np.concatenate([front, *bodies]), length)


def fair_shares(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each length to keep so that their sum is at most `room`: short ones stay whole, long ones are cut to about the same."""
    shares = [0] * len(lengths)
    for rank, number in enumerate(sorted(range(len(lengths)), key=lambda i: lengths[i])):
        shares[number] = min(lengths[number], max(room, 0) // (len(lengths) - rank))
        room -= shares[number]
    return shares


def _body(number: int, segment: SegmentWords, as_audio: bool) -> Ints:
    first = number * SUBSEGMENTS
    if as_audio:
        sound = [(AUDIOSPAN, first + j, -1) for j in range(SUBSEGMENTS) for _ in range(AUDIO_TOKENS)]
        return np.array([(LTOVPOOL, first, -1), *sound], np.int64)
    body = np.full((1 + len(segment.tokens), 3), -1, np.int64)
    body[:, 0], body[:, 1] = [LTOVPOOL, *segment.tokens], first
    return body


def _first_of_videos(segments: Sequence[SegmentWords]) -> list[SegmentWords]:
    return [segment for i, segment in enumerate(segments) if i == 0 or segment.video != segments[i - 1].video]


def _metadata(segment: SegmentWords, tokenizer: ReserveTokenizer) -> list[int]:
    title, description, tags = (_heading(tokenizer, name) for name in ("title:", "description:", "tags:"))
    return [START, *title, *segment.title, START, *description, *segment.description, START, *tags, *segment.tags, END]


@lru_cache(maxsize=64)
def _heading(tokenizer: ReserveTokenizer, name: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(name))
