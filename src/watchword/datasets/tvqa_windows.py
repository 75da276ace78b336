"""The stretches of a TVQA clip that the model sees around the moment a question is about: times only, no files.

Source: merlot-reserve-data spec section 17.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ftfy
import numpy as np

from ..media.subtitles import Cue
from ..reserve.segmentation import Span
from ..text.web import plain_ascii

__all__ = ["FRAMES_PER_SECOND", "NUM_WINDOWS", "Windows", "frame_number", "last_second", "texts_of", "windows_around"]

FRAMES_PER_SECOND = 3
NUM_WINDOWS = 7
_WINDOW_SECONDS = 4.6666667  # 14/3 as the release rounds it, so that edges fall on the same side of subtitles
_FARTHEST = 6  # windows on each side of the middle one


@dataclass(frozen=True)
class Windows:
    """spans: at most seven, in order, one behind the other.  located: where the moment begins and ends, in shares of all of them."""

    spans: tuple[Span, ...]
    located: tuple[float, float]

    @property
    def located_text(self) -> str:
        """The moment in words, in percent, as it stands before a question."""
        return "{} to {}".format(*(int(share * 100) for share in self.located))


def last_second(num_frames: int) -> float:
    """When the last of a clip's frames is shown."""
    return (num_frames - 1) / FRAMES_PER_SECOND


def windows_around(moment: tuple[float, float] | None, num_frames: int) -> Windows:
    """The windows around a moment (start, end) in seconds of a clip of so many frames; None is the whole clip.

    The middle one lies around the moment's middle, rounded to a frame; to it come earlier and later ones in turn, but those that lie
    outside the clip.
    """
    last = last_second(num_frames)
    start, end = (0.0, last) if moment is None else (min(max(seconds, 0.0), last) for seconds in moment)
    middle = _on_frame((start + end) / 2)
    spans = [Span(middle - _WINDOW_SECONDS / 2, middle + _WINDOW_SECONDS / 2)]
    for span in _others(spans[0]):
        if span.end >= 0 and span.start <= last and len(spans) < NUM_WINDOWS:
            spans.append(span)
    spans.sort(key=lambda span: span.start)
    first, seconds = spans[0].start, spans[-1].end - spans[0].start
    return Windows(tuple(spans), ((start - first) / seconds, (end - first) / seconds))


def _others(middle: Span) -> Iterator[Span]:
    for distance in range(1, _FARTHEST + 1):
        for shift in (-_WINDOW_SECONDS * distance, _WINDOW_SECONDS * distance):
            yield Span(_on_frame(middle.start + shift), _on_frame(middle.end + shift))


def _on_frame(seconds: float) -> float:
    return round(seconds * FRAMES_PER_SECOND) / FRAMES_PER_SECOND


def frame_number(span: Span, num_frames: int) -> int:
    """The frame in the middle of a window, counted from 1, as the files are."""
    return min(max(round(span.middle * FRAMES_PER_SECOND) + 1, 1), num_frames)


def texts_of(spans: Sequence[Span], cues: Sequence[Cue]) -> list[str]:
    """What is said in each window, in plain letters: the cues whose middle lies in it, its end included but not its start."""
    edges = np.array([span.start for span in spans] + [spans[-1].end])
    said: list[list[str]] = [[] for _ in spans]
    for cue in cues:
        place = int(np.searchsorted(edges, (cue.start + cue.end) / 2))
        if 0 < place <= len(spans):
            said[place - 1].append(cue.text)
    return [plain_ascii(ftfy.fix_text(" ".join(texts))).replace("\n", " ") for texts in said]
