"""Which segments of which videos make a record: whole stretches of one video, then what is left of several.

Source: merlot-reserve-data spec section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..errors import InputError
from .draws import Draws

__all__ = ["RECORD_SEGMENTS", "group_segments"]

RECORD_SEGMENTS = 16
_FROM_THE_FRONT = 0.8

Place = tuple[int, int]


def group_segments(
    counts: Iterable[int], draws: Draws, *, size: int = RECORD_SEGMENTS, most_waiting: int = 10 * RECORD_SEGMENTS
) -> Iterator[list[Place]]:
    """Records as lists of `size` (video, segment) pairs, from the number of segments of each video, read as they come.

    Segments of a video follow each other in a record. What is left of videos waits until more than `most_waiting` do, or the end; a last
    record that cannot be filled is dropped.

    Raises InputError for a size below 1.
    """
    if size < 1 or most_waiting < 0:
        raise InputError(f"records of {size} segments, {most_waiting} waiting; give at least 1 and 0")
    waiting: list[list[Place]] = []  # oldest first
    for video, count in enumerate(counts):
        left = [(video, segment) for segment in range(count)]
        while len(left) >= size:
            taken, left = _slice(left, size, draws)
            yield taken
        if left:
            waiting.append(left)
        while len(waiting) > most_waiting:
            yield from _filled(waiting, size, draws)
    while waiting:
        yield from _filled(waiting, size, draws)


def _slice(places: list[Place], count: int, draws: Draws) -> tuple[list[Place], list[Place]]:
    """So many places mostly from the front, and the rest."""
    if float(draws.uniform("slice_side", ())) < _FROM_THE_FRONT:
        return places[:count], places[count:]
    return places[len(places) - count :], places[: len(places) - count]


def _filled(waiting: list[list[Place]], size: int, draws: Draws) -> Iterator[list[Place]]:
    """A record of the longest that wait, and of all that then still fit whole; a gap is filled with a slice of one by lot. They are
    taken out of `waiting`; if there is too little for a record, there is none."""
    found: list[Place] = []
    for places in sorted(waiting, key=len, reverse=True):  # stable: the older first
        if len(found) + len(places) <= size:
            found += places
            waiting[:] = [other for other in waiting if other is not places]
    if (missing := size - len(found)) and waiting:
        number = draws.below("remaining_entry", len(waiting))
        taken, waiting[number] = _slice(waiting[number], missing, draws)
        found += taken
    if len(found) == size:
        yield found
