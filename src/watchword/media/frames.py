"""Frames of a video, exact by presentation time, upright, as 8-bit RGB."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation

from watchword.counted import counted
from watchword.errors import InputError
from watchword.media.decode import Session
from watchword.media.errors import LimitError
from watchword.media.index import Float64Array, FrameIndex, Int64Array
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.opening import Path
from watchword.media.probe import MediaInfo, Orientation, orientation, probe, shown_size

Size = int | tuple[int, int] | None
Image = npt.NDArray[np.uint8]
Transform = Callable[[Image], Image]

# Exact colours: chroma is interpolated to each pixel, and rounding does not drift.
_EXACT = Interpolation.FULL_CHR_H_INT | Interpolation.FULL_CHR_H_INP | Interpolation.ACCURATE_RND
# A time this little before a frame's own counts as it: times that went through text have six decimals.
_TIME_TOLERANCE_SECONDS = 1e-6


@dataclass(frozen=True)
class Frame:
    """One frame. rgb: (height, width, 3) uint8. time_seconds: when it is shown, on the container's clock."""

    rgb: Image
    time_seconds: float


@dataclass(frozen=True)
class Frames:
    """Several frames. rgb: (time, height, width, 3) uint8. times: (time,) seconds, when each of them is really shown."""

    rgb: Image
    times: Float64Array

    def __len__(self) -> int:
        return len(self.times)


def uniform_indices(num_frames_total: int, num_frames: int) -> Int64Array:
    """Indices of `num_frames` frames spread evenly over a clip of `num_frames_total`: the middle of each equal part.

    A clip shorter than `num_frames` repeats frames in order (X-CLIP specification, section 12, test, one view).
    """
    if num_frames_total < 1 or num_frames < 1:
        raise InputError(f"{num_frames} frames of a clip of {num_frames_total}: both must be at least 1")
    part = num_frames_total / num_frames
    return (np.arange(num_frames) * part + part / 2).astype(np.int64) % num_frames_total


class VideoReader:
    """Reads frames of one video file.

    The file is opened on first use. A reader may be passed to other processes and used after a fork: it then opens the
    file anew. Calls from several threads take turns; for decoding in parallel give each thread a reader of its own.

    Args:
        path: a local file; never a URL.
        limits: what is refused as too large.
        num_threads: decoder threads, at least 1; None for one, and two for pictures from 640x480 on.
        ffmpeg_color: convert colours as the ffmpeg program does by default, one to two levels too dark, for numbers made with it.

    Attributes:
        warnings: one line for each kind of damage met so far.
    """

    def __init__(self, path: Path, *, limits: Limits = DEFAULT_LIMITS, num_threads: int | None = None, ffmpeg_color: bool = False) -> None:
        self.path = path
        self.limits = limits
        self.ffmpeg_color = ffmpeg_color
        self.num_threads = num_threads
        if num_threads is not None and num_threads < 1:
            raise InputError(f"num_threads is {num_threads}; it must be at least 1")
        self._forget()
        self._index: FrameIndex | None = None
        self._orientation: Orientation | None = None
        self._substitutes: dict[int, int] = {}
        self._left_out: set[int] = set()
        self._num_errors = 0
        self._num_painted_over = 0

    def _forget(self) -> None:
        self._session: Session | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the file and the decoder. The reader can be used again."""
        if self._session is not None and self._pid == os.getpid():
            self._session.close()
        self._session = None
        if self._index is not None:
            self._index = replace(self._index, kept=[])

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "limits", "num_threads", "ffmpeg_color")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @cached_property
    def info(self) -> MediaInfo:
        """What `probe` says of the file."""
        return probe(self.path, limits=self.limits)

    @property
    def times(self) -> Float64Array:
        """(num_frames,) when each frame is shown, in seconds on the container's clock, in display order.

        They ascend, but for recordings joined so that their times overlap.
        """
        return self._indexed().times

    @property
    def num_frames(self) -> int:
        """How many frames there are; of a damaged file, how many it says there are in the part that is there."""
        return len(self._indexed())

    @property
    def start_seconds(self) -> float:
        """Time of the first frame."""
        return float(self.times[0])

    @property
    def end_seconds(self) -> float:
        """Time at which the last frame stops being shown."""
        return self._indexed().end_seconds

    @property
    def warnings(self) -> list[str]:
        found = list(self._index.warnings) if self._index is not None else []
        if self._num_errors:
            found.append(f"the decoder met damaged data {counted(self._num_errors, 'time')}")
        if self._substitutes:
            found.append(f"{counted(len(self._substitutes), 'damaged frame')} replaced by the nearest that can be decoded")
        if self._num_painted_over:
            found.append(f"{counted(self._num_painted_over, 'frame is', 'frames are')} damaged in part")
        if self._left_out:
            found.append(f"{counted(len(self._left_out), 'damaged frame')} left out")
        return found

    def read(self, indices: Sequence[int] | Int64Array, *, size: Size = None, transform: Transform | None = None) -> Frames:
        """The frames with these numbers, in the order asked for; repeats are decoded once.

        Args:
            indices: numbers in display order, 0 to num_frames - 1; negative ones count from the end.
            size: an int is the shorter side in pixels, after rotation and pixel aspect, the ratio kept; a pair is
                (height, width); None is full size. Frames are resized as they are decoded, bilinearly with antialiasing.
            transform: applied to each upright frame (height, width, 3) uint8 as it is decoded; must give arrays of one
                shape, uint8.

        Raises:
            InputError: an index out of range.
            MediaError: the file cannot be read; NoDecodableFramesError, if there is no frame at all to give.
        """
        with self._turn():
            index = self._indexed()
            numbers = np.asarray(indices).reshape(-1)
            if len(numbers) and numbers.dtype.kind not in "iu":
                raise InputError(f"frame numbers must be whole numbers, not {numbers.dtype}; `at` takes times")
            numbers = numbers.astype(np.int64)
            if len(numbers) and not (-len(index) <= numbers.min() and numbers.max() < len(index)):
                wrong = numbers.max() if numbers.max() >= len(index) else numbers.min()
                raise InputError(f"frame {wrong} of {os.fspath(self.path)!r}: it has {len(index)} frames")
            numbers = np.asarray([self._substitutes.get(n, n) for n in (numbers % len(index)).tolist()], np.int64)
            return self._gather(index, numbers, size, transform)

    def at(self, times_seconds: Sequence[float] | Float64Array, *, size: Size = None, transform: Transform | None = None) -> Frames:
        """The frame shown at each time: the last that starts at or before it. Outside the video, the first or last.

        Other arguments, errors: see `read`.
        """
        return self.read(self.index_at(times_seconds), size=size, transform=transform)

    def index_at(self, times_seconds: Sequence[float] | Float64Array) -> Int64Array:
        """Number of the frame shown at each time (seconds on the container's clock)."""
        ascending = np.maximum.accumulate(self.times)
        wanted = np.asarray(times_seconds, np.float64).reshape(-1) + _TIME_TOLERANCE_SECONDS
        if np.isnan(wanted).any():
            raise InputError("a time is not a number")
        return np.clip(np.searchsorted(ascending, wanted, side="right") - 1, 0, None).astype(np.int64)

    def uniform(
        self,
        num_frames: int,
        *,
        start: float | None = None,
        end: float | None = None,
        size: Size = None,
        transform: Transform | None = None,
    ) -> Frames:
        """`num_frames` frames spread evenly (see `uniform_indices`) over the frames that start within [start, end).

        start, end: seconds on the container's clock. If no frame starts within them, the one shown at `start` is given,
        as often as asked for. Other arguments, errors: see `read`.
        """
        first, last = self._range(start, end)
        return self.read(first + uniform_indices(last - first, num_frames), size=size, transform=transform)

    def iterate(
        self,
        *,
        start: float | None = None,
        end: float | None = None,
        size: Size = None,
        transform: Transform | None = None,
        every_seconds: float | None = None,
    ) -> Iterator[Frame]:
        """Frames one after the other, in memory that does not grow with the length of the file.

        start, end: as in `uniform`.  every_seconds: instead of all frames, those on show at start, start + every_seconds,
        and so on before end, none twice. Damaged frames are left out. Other arguments, errors: see `read`.
        """
        index = self._indexed()
        first, last = self._range(start, end)
        numbers = np.arange(first, last)
        if every_seconds is not None:
            if not every_seconds > 0:
                raise InputError(f"every_seconds is {every_seconds}; it must be more than 0")
            begin = float(index.times[first]) if start is None else start
            upto = index.end_seconds if end is None else end
            numbers = np.arange(self.index_at([begin])[0], last)
            ascending = np.maximum.accumulate(index.times[numbers])
            numbers = numbers[_shown_at_ticks(np.maximum(ascending, begin), begin, every_seconds, upto)]
        return self._iterate(index, numbers, size, transform)

    def _iterate(self, index: FrameIndex, numbers: Int64Array, size: Size, transform: Transform | None) -> Iterator[Frame]:
        # A session of its own, so that `read` may be called between two frames.
        session = Session(self.path, self.limits, self.num_threads)
        try:
            for number, frame in session.frames(index, numbers):
                image = self._convert(session, frame, size)
                yield Frame(_transformed(image, transform), float(index.times[number]))
                if session.pid != os.getpid():
                    yield from self._iterate(index, numbers[numbers > number], size, transform)
                    return
        finally:
            self._end(session)

    def _end(self, session: Session) -> None:
        if session.pid == os.getpid():
            session.close()
        with self._turn():
            self._num_errors += session.num_errors
            self._left_out |= session.missing

    def decode_to_end(self) -> int:
        """Decode every frame and give none of them; how many came out whole. Damage that was met is in `warnings` afterwards, also that
        which the decoder has painted over.

        Raises MediaError: the file cannot be read.
        """
        index = self._indexed()
        session = Session(self.path, self.limits, self.num_threads)
        try:
            whole = [not frame.is_corrupt for _, frame in session.frames(index, np.arange(len(index)))]
        finally:
            self._end(session)
        self._num_painted_over = len(whole) - sum(whole)
        return sum(whole)

    def _range(self, start: float | None, end: float | None) -> tuple[int, int]:
        times = np.maximum.accumulate(self.times)
        first = 0 if start is None else int(np.searchsorted(times, start - _TIME_TOLERANCE_SECONDS))
        last = len(times) if end is None else int(np.searchsorted(times, end - _TIME_TOLERANCE_SECONDS))
        if start is not None and end is not None and not start <= end:
            raise InputError(f"start {start} s lies after end {end} s")
        if first >= last:
            first = int(self.index_at([self.start_seconds if start is None else start])[0])
            last = first + 1
        return first, last

    def _opened(self) -> Session:
        if self._session is None:
            self._session = Session(self.path, self.limits, self.num_threads)
        return self._session

    def _turn(self) -> threading.RLock:
        """The lock to hold while using the session; a new one after a fork, for who held the old one may not be here."""
        if self._pid != os.getpid():
            self._forget()
        return self._lock

    def _indexed(self) -> FrameIndex:
        with self._turn():
            if self._index is None:
                self._index = self._opened().build_index()
            return self._index

    def _gather(self, index: FrameIndex, numbers: Int64Array, size: Size, transform: Transform | None) -> Frames:
        session = self._opened()
        distinct, counts = np.unique(numbers, return_counts=True)
        same = np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
        places = dict(zip(distinct.tolist(), same, strict=False))
        times = index.times[numbers]
        rgb: Image | None = None

        def put(number: int, frame: VideoFrame, shown: int) -> None:
            nonlocal rgb
            image = _transformed(self._convert(session, frame, size), transform)
            if rgb is None:
                self._check_output(image, len(numbers))
                rgb = np.empty((len(numbers), *image.shape), np.uint8)
            if image.shape != rgb.shape[1:]:
                raise InputError(f"transform gave arrays of different shapes: {rgb.shape[1:]} and {image.shape}")
            rgb[places[number]] = image
            times[places[number]] = index.times[shown]

        for number, frame in session.frames(index, sorted(places)):
            put(number, frame, number)
        for number in sorted(session.missing.intersection(places)):
            shown, frame = session.nearest(index, number)
            self._substitutes[number] = shown
            put(number, frame, shown)
        session.missing.clear()
        self._num_errors, session.num_errors = self._num_errors + session.num_errors, 0
        return Frames(np.empty((0, 0, 0, 3), np.uint8) if rgb is None else rgb, times)

    def _check_output(self, image: Image, num_frames: int) -> None:
        num_bytes = image.nbytes * num_frames
        if num_bytes > self.limits.max_output_bytes:
            limit = f"Limits.max_output_bytes = {self.limits.max_output_bytes}"
            raise LimitError(self.path, f"{num_frames} frames are {num_bytes} bytes, more than {limit}; use iterate()")

    def _convert(self, session: Session, frame: VideoFrame, size: Size) -> Image:
        """Upright RGB of the wanted size. Every frame of a file gets the same size, even where the stored size changes."""
        turn = orientation(frame)
        if self._orientation is None:
            self._orientation = turn
        declared = session.declared_size if all(session.declared_size) else (frame.width, frame.height)
        shown = shown_size(*declared, session.pixel_aspect, self._orientation.transpose)
        width, height = _output_size(*shown, size)
        if turn.transpose:
            width, height = height, width
        resized = (width, height) != (frame.width, frame.height)
        # At full size only chroma is scaled. Bilinear: swscale widens its kernel on reduction, which keeps aliases out.
        kernel = Interpolation.BILINEAR if resized else Interpolation.BICUBIC
        if not self.ffmpeg_color:
            kernel |= _EXACT
        rgb = session.reformatter.reformat(frame, width, height, "rgb24", interpolation=kernel, threads=1)
        plane = rgb.planes[0]
        rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[:height, : width * 3]
        return np.ascontiguousarray(turn.apply(rows.reshape(height, width, 3)))


def _transformed(image: Image, transform: Transform | None) -> Image:
    if transform is None:
        return image
    image = transform(image)
    if image.dtype != np.uint8:
        raise InputError(f"transform gave an array of {image.dtype}; it must give uint8")
    return image


def _shown_at_ticks(times: Float64Array, begin: float, step: float, end: float) -> npt.NDArray[np.bool_]:
    """Which frames (times ascending, the last one shown until `end`) are on show at begin, begin + step, ..."""
    next_tick = begin + np.ceil((times - begin) / step - _TIME_TOLERANCE_SECONDS) * step
    return next_tick < np.append(times[1:], end) - _TIME_TOLERANCE_SECONDS


def _output_size(width: int, height: int, size: Size) -> tuple[int, int]:
    if size is None:
        return width, height
    if isinstance(size, tuple):
        height, width = size
    else:
        scale = size / min(width, height)
        width, height = (size, round(height * scale)) if width <= height else (round(width * scale), size)
    if not (0 < width <= 1 << 15 and 0 < height <= 1 << 15):
        raise InputError(f"size is {size}: each side must be from 1 to {1 << 15} pixels")
    return width, height
