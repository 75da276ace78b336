"""A video file to segments: a frame, three spectrograms and the words spoken, every five seconds.

What the released demo refuses works here: no sound, less than six seconds, any length, no subtitles. `released` asks for its behaviour.
Source: merlot-reserve-data spec sections 7, 8, 15 and 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ..errors import InputError
from ..media import DEFAULT_LIMITS, Limits, Subtitles, VideoReader, read_subtitles
from ..media.errors import NoSubtitlesError
from ..media.opening import Path
from ..media.subtitles import Word
from .images import BlackBars, Box
from .segmentation import Span, even_spans, released_spans, windows
from .sounds import SegmentSounds, centred_samples, samples_from, segment_sounds
from .timing import TimingRegressor
from .transcript import clean_words

__all__ = ["Segment", "Stretches", "VideoSegments", "first_frame_from", "frame_numbers"]

Int64Array = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]

_TIME_TOLERANCE_SECONDS = 1e-6
# Frames looked at to find black bars, and how much memory the frames of a short video may be kept in afterwards.
_BARS_FRAMES = 32
_MAX_KEPT_BYTES = 256 << 20
_NO_FRAME = np.zeros((0, 0, 3), np.uint8)


@dataclass(frozen=True, eq=False)
class Segment:
    """One segment of a video.

    index: from 0.  span: seconds on the container's clock.
    frame: uint8 (height, width, 3) without black bars.  frame_seconds: when it is really shown.
    spectrogram: float32 (3, 60, 65), the last column the playback speed.
    has_sound: bool (3,), where the file has any; without it the spectrogram is of silence and should be masked.
    words: those spoken in it (their middle lies in [start, end)), with times on the same clock.
    """

    index: int
    span: Span
    frame: UInt8
    frame_seconds: float
    spectrogram: Tensor
    has_sound: npt.NDArray[np.bool_]
    words: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """Its words, joined by single spaces."""
        return " ".join(word.text for word in self.words)


def first_frame_from(times: npt.NDArray[np.float64], seconds: Sequence[float], origin: float = 0.0) -> Int64Array:
    """Number of the first frame shown at or after each time, as ffmpeg seeks: times count from `origin` and are rounded to milliseconds.

    times: of all frames. After the last frame's time: the number of frames.
    """
    wanted = np.array([round(time - origin, 3) + origin - _TIME_TOLERANCE_SECONDS for time in seconds])
    return np.searchsorted(np.maximum.accumulate(times), wanted).astype(np.int64)


def frame_numbers(times: npt.NDArray[np.float64], spans: Sequence[Span], origin: float = 0.0) -> Int64Array:
    """Which frame stands for each span: the first at or after its middle, as released.

    If that one comes only after the span (slide shows, a damaged stretch), the one on show at the middle.
    """
    after = np.minimum(first_frame_from(times, [span.middle for span in spans], origin), len(times) - 1)
    before = np.maximum(after - 1, 0)
    is_later = times[after] > np.array([span.end for span in spans]) + _TIME_TOLERANCE_SECONDS
    return np.where(is_later, before, after)


@dataclass(frozen=True)
class Stretches:
    """A video of which certain stretches are to be read, opened only then: what ``VideoSegments`` is told of it, see there."""

    path: Path
    spans: Callable[[float, float], Sequence[Span]]
    centred: bool = True
    num_hidden: int = 0

    def open(self, **settings: Any) -> VideoSegments:
        return VideoSegments(self.path, spans=self.spans, centred=self.centred, num_hidden=self.num_hidden, **settings)


class VideoSegments:
    """The segments of one video. Frames are read when they are asked for, sound in one pass at the first need of it.

    Args:
        path: a local video file.
        spans: which stretches, or a function of the seconds at which the video starts and ends that tells; default: five seconds each
            from `start` to `end`, the whole video, the last one shorter.
        centred: sound of spans shorter than five seconds is laid in the middle of silence instead of at its beginning, of longer ones
            the five seconds around the middle are taken (the protocols of zero-shot tasks).
        num_hidden: the last so many segments are given black and without sound (what has not happened yet, in anticipation).
        start, end: seconds on the container's clock.  limit: most segments.
        subtitles: a file, what `read_subtitles` gave, True for those beside or inside the video, if there are any, or False.
        language: of the subtitles looked for, such as "en".
        timing: corrects the times of words, where the subtitles time words (automatic captions).
        sound: False leaves the sound unread.  picture: False leaves the frames unread, which are then empty.
        released: exactly the segments of the released demo, which leaves out the end of a video and refuses one without sound or shorter
            than six seconds; words stay unrepaired (defect D7), colours are those of the ffmpeg program.
        limits: what is refused as too large.

    Attributes:
        spans: of the segments.  words: all words, cleaned.

    Raises:
        InputError: times or limits out of range.
        MediaError: the video, or subtitles that were given by name, cannot be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        spans: Sequence[Span] | Callable[[float, float], Sequence[Span]] | None = None,
        centred: bool = False,
        num_hidden: int = 0,
        start: float | None = None,
        end: float | None = None,
        limit: int | None = None,
        subtitles: Subtitles | str | PathLike[str] | bool = True,
        language: str | None = None,
        timing: TimingRegressor | None = None,
        sound: bool = True,
        picture: bool = True,
        released: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.path, self.limits, self.released, self.centred = path, limits, released, centred
        self._use_sound, self._use_picture = sound, picture
        self._notes: list[str] = []
        self._kept: dict[int, UInt8] = {}
        self._reader = VideoReader(path, limits=limits, ffmpeg_color=released)
        self.start_seconds, self.end_seconds = self._reader.start_seconds, self._reader.end_seconds
        if callable(spans):
            spans = spans(self.start_seconds, self.end_seconds)
        self.spans = list(spans) if spans is not None else self._spans(start, end, limit)
        self._num_seen = len(self.spans) - num_hidden
        if not self.spans:
            raise InputError(f"{str(path)!r}: no segment to read; the released demo finds none in 6 s of sound, leave out `released`")
        self._numbers = frame_numbers(self._reader.times, self.spans, self.start_seconds)
        self.words = self._read_words(subtitles, language, timing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the file. The object can be used again."""
        self._reader.close()

    def __len__(self) -> int:
        return len(self.spans)

    def __iter__(self) -> Iterator[Segment]:
        """All segments in order, the frames of eight at most in memory at once (of a short video, all)."""
        for run in windows(len(self)):
            yield from self.read(run)

    def windows(self) -> Iterator[list[Segment]]:
        """The segments in as few runs as possible of at most eight, which is what the model sees at once."""
        for run in windows(len(self)):
            yield self.read(run)

    def read(self, indices: Sequence[int]) -> list[Segment]:
        """Some of the segments. Raises InputError for a number that there is not."""
        for index in indices:
            if not 0 <= index < len(self):
                raise InputError(f"segment {index} of {str(self.path)!r}: it has {len(self)}, counted from 0")
        frames = [self._box.of(frame) for frame in self._frames(indices)] if self._use_picture else [_NO_FRAME] * len(indices)
        frames = [frame if index < self._num_seen else np.zeros_like(frame) for index, frame in zip(indices, frames, strict=True)]
        sounds = self.sounds
        return [
            Segment(
                index=index,
                span=self.spans[index],
                frame=np.ascontiguousarray(frame),
                frame_seconds=float(self._reader.times[self._numbers[index]]),
                spectrogram=sounds.spectrograms[index],
                has_sound=sounds.present[index],
                words=tuple(self._words_of[index]),
            )
            for index, frame in zip(indices, frames, strict=True)
        ]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of this file, a line each: no sound, no subtitles, damage met so far."""
        return (*self._notes, *self._reader.warnings)

    @cached_property
    def sounds(self) -> SegmentSounds:
        """The sound of all segments."""
        place = centred_samples if self.centred else samples_from
        ranges = [place(span, self.start_seconds) for span in self.spans]
        if not self._use_sound:
            return SegmentSounds.nothing(len(ranges))
        end = self.end_seconds
        if self.released:  # the peak is that of all sound, also after the picture
            end = max(end, self.start_seconds + self._sound_seconds() + 1)
        sounds = segment_sounds(self.path, ranges[: self._num_seen], start=self.start_seconds, end=end, limits=self.limits)
        sounds = sounds.with_silence(len(ranges) - self._num_seen)
        if sounds.missing:
            self._notes.append("no sound")
        self._notes += sounds.warnings
        return sounds

    def _spans(self, start: float | None, end: float | None, limit: int | None) -> list[Span]:
        if not self.released:
            start = self.start_seconds if start is None else start
            return even_spans(start, self.end_seconds if end is None else min(end, max(self.end_seconds, start)), limit=limit)
        spans = released_spans(self._sound_seconds(), start=start or 0.0, limit=limit)
        return [Span(span.start + self.start_seconds, span.end + self.start_seconds) for span in spans]

    def _sound_seconds(self) -> float:
        """How long the file says its sound is."""
        info = self._reader.info
        if info.audio is None:
            raise InputError(f"{str(self.path)!r}: no sound, which the released demo refuses; leave out `released`")
        for seconds in (info.audio.duration_seconds_hint, info.duration_seconds_hint):
            if seconds is not None:
                return seconds
        return self.end_seconds - self.start_seconds

    def _read_words(
        self, subtitles: Subtitles | str | PathLike[str] | bool, language: str | None, timing: TimingRegressor | None
    ) -> tuple[Word, ...]:
        if subtitles is False:
            return ()
        if subtitles is True:
            try:
                subtitles = read_subtitles(self.path, language=language, limits=self.limits)
            except NoSubtitlesError:
                self._notes.append("no subtitles")
                return ()
        elif not isinstance(subtitles, Subtitles):
            subtitles = read_subtitles(subtitles, language=language, limits=self.limits)
        words = clean_words(subtitles.words, repair=not self.released)
        if timing is not None and subtitles.word_timed:
            words = timing.correct(words)
        return tuple(words)

    @cached_property
    def _words_of(self) -> list[list[Word]]:
        """The words of each segment. Those of a rest too short for a segment of its own belong to the last one."""
        centres = np.array([(word.start + word.end) / 2 for word in self.words])
        last = max(span.end for span in self.spans)
        reaches_end = 0 <= self.end_seconds - last < 1 and not self.released
        found = []
        for span in self.spans:
            end = self.end_seconds if reaches_end and span.end == last else span.end
            found.append([self.words[i] for i in np.flatnonzero((centres >= span.start) & (centres < end))])
        return found

    @cached_property
    def _box(self) -> Box:
        """The picture without black bars: seen in all frames (as released), or in some spread over a long video."""
        bars = BlackBars()
        some = range(len(self))
        if len(some) > _BARS_FRAMES and not self.released:
            some = range(0, len(self), -(-len(self) // _BARS_FRAMES))
        for low in range(0, len(some), 8):
            frames = self._frames(some[low : low + 8])
            bars.see(frames)
            if frames[0].nbytes * len(self) <= _MAX_KEPT_BYTES and len(self) <= _BARS_FRAMES:
                self._kept.update(zip(some[low : low + 8], frames, strict=True))
        return bars.box()

    def _frames(self, indices: Sequence[int]) -> list[UInt8]:
        unread = [index for index in indices if index not in self._kept]
        read = dict(zip(unread, self._reader.read(self._numbers[unread]).rgb if unread else (), strict=True))
        return [self._kept[index] if index in self._kept else read[index] for index in indices]
