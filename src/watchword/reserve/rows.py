"""The words of a record laid out in rows, one for each subsegment of sound, and their adjustment around the targets.

A record is some segments of three subsegments each. Words stand in order, so a layout is nothing but where each row begins: to move a
word to the neighbouring row is to move the edge between them. Times are float32, as in the release, since near calls depend on it.

Source: merlot-reserve-data spec sections 11 and 12; defect D10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .spectrogram import SUBSEGMENTS, crop_times

__all__ = ["DONATION_SECONDS", "RecordRows", "SegmentWords", "assign", "donate", "edges_of", "fill_empty", "lay_out"]

DONATION_SECONDS = 0.125
"""A word this near to the sound of a target, or nearer, may be heard in it."""

Times = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SegmentWords:
    """What a record holds of one segment, but for its frame and sound.

    tokens: ids of its words.  starts, ends: of each, in seconds since the segment's start, in the sped-up clock.
    start_time, end_time: of the segment, in seconds of the video.  video: number of its video within the record.
    has_sound: False if the file has none; then there is nothing to hear or to predict.
    title, description, tags: token ids; empty but on a video's first segment.
    """

    tokens: Sequence[int]
    starts: Sequence[float]
    ends: Sequence[float]
    start_time: float
    end_time: float
    video: int = 0
    has_sound: bool = True
    title: Sequence[int] = ()
    description: Sequence[int] = ()
    tags: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class RecordRows:
    """Words in rows. Row i holds `tokens[edges[i] : edges[i + 1]]`.

    tokens: int64 (words,).  centres: (words,) seconds on the record's clock.  edges: (rows + 1,).
    spans: (rows, 2) start and end of the sound of each row, seconds on the record's clock.
    """

    tokens: Ints
    centres: Times
    edges: Ints
    spans: Times

    def row(self, number: int, edges: Ints | None = None) -> Ints:
        edges = self.edges if edges is None else edges
        return self.tokens[edges[number] : edges[number + 1]]


def assign(centres: Times, row_centres: Times) -> Ints:
    """Which row each word of a segment belongs to: the one whose centre is nearest (the first of equals), but never one before the
    row of the word before it."""
    if not len(centres):
        return np.empty(0, np.int64)
    nearest = np.abs(centres[:, None] - row_centres[None]).argmin(axis=1)
    return np.maximum.accumulate(nearest)


def edges_of(lengths: Sequence[int] | Ints) -> Ints:
    """(rows + 1,) where rows of these lengths begin and the last one ends."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])


def lay_out(segments: Sequence[SegmentWords], crops: Sequence[tuple[int, ...]]) -> RecordRows:
    """Each word to a row of its segment.  crops: first hop of each subsegment of each segment, see `spectrogram.crop_starts`.

    Raises InputError if words and times differ in number or a time is not finite.
    """
    tokens, centres, lengths, spans = [], [], [], []
    offset = np.float32(0)
    for number, (segment, crop) in enumerate(zip(segments, crops, strict=True)):
        starts, ends = np.asarray(segment.starts, np.float32), np.asarray(segment.ends, np.float32)
        _check(number, segment, starts, ends)
        own = (starts + ends) / np.float32(2)
        heard = np.stack(crop_times(crop), axis=1)
        lengths.append(np.bincount(assign(own, heard.mean(axis=1, dtype=np.float32)), minlength=SUBSEGMENTS))
        tokens.append(np.asarray(segment.tokens, np.int64))
        centres.append(own + offset)
        spans.append(heard + offset)
        offset += np.float32(segment.end_time) - np.float32(segment.start_time)
    return RecordRows(np.concatenate(tokens), np.concatenate(centres), edges_of(np.concatenate(lengths)), np.concatenate(spans))


def _check(number: int, segment: SegmentWords, starts: Times, ends: Times) -> None:
    if not len(segment.tokens) == len(starts) == len(ends):
        raise InputError(f"segment {number}: {len(segment.tokens)} tokens, but {len(starts)} start and {len(ends)} end times")
    if not (np.isfinite(starts).all() and np.isfinite(ends).all() and np.isfinite([segment.start_time, segment.end_time]).all()):
        raise InputError(f"segment {number}: a time is not a finite number of seconds")


def fill_empty(edges: Ints, targets: Sequence[int] | Ints, passable: Flags, *, right_first: bool) -> Ints:
    """New edges: a target without words takes one from a neighbour that is no target and has two or more.

    passable: (rows - 1,) whether a word may pass from row i to i + 1 or back.  right_first: neighbours on the right give first.
    """

    def wants(target: int, neighbour: int, edges: Ints) -> bool:
        return bool(edges[target] == edges[target + 1])

    return _both_sides(edges, targets, passable, wants, right_first)


def donate(rows: RecordRows, edges: Ints, targets: Sequence[int] | Ints, passable: Flags, *, right_first: bool) -> Ints:
    """New edges: a target takes one word from a neighbour that is no target and has two or more, if some of its words is within
    `DONATION_SECONDS` of the target's sound. Arguments as in `fill_empty`."""

    def wants(target: int, neighbour: int, edges: Ints) -> bool:
        centres = rows.centres[edges[neighbour] : edges[neighbour + 1]]
        start, end = rows.spans[target]
        distance = centres.min() - end if neighbour > target else start - centres.max()
        return bool(distance < np.float32(DONATION_SECONDS))

    return _both_sides(edges, targets, passable, wants, right_first)


def _both_sides(
    edges: Ints, targets: Sequence[int] | Ints, passable: Flags, wants: Callable[[int, int, Ints], bool], right_first: bool
) -> Ints:
    """All moves of one side are decided on the state before it."""
    num_rows = len(edges) - 1
    chosen = {int(target) for target in targets}
    for step in (1, -1) if right_first else (-1, 1):
        moved = edges.copy()
        for target in chosen:
            neighbour = target + step
            if not 0 <= neighbour < num_rows or neighbour in chosen or not passable[min(target, neighbour)]:
                continue
            if edges[neighbour + 1] - edges[neighbour] >= 2 and wants(target, neighbour, edges):
                moved[max(target, neighbour)] += step
        edges = moved
    return edges
