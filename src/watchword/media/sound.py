"""Sound as mono float32 at any rate, on the picture's clock: late, short, interrupted or missing sound lies where it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from watchword.counted import counted
from watchword.errors import InputError
from watchword.media.errors import LimitError, NoAudioError, NoDecodableFramesError, NoDecoderError, NoVideoError
from watchword.media.frames import VideoReader
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.opening import Path
from watchword.media.sound_source import JITTER_SECONDS, FloatArray, Piece, SoundSource

__all__ = ["Sound", "iter_sound", "read_sound"]

_MAX_RATE = 1_000_000


@dataclass(frozen=True)
class Sound:
    """Mono sound on the container's clock.

    samples: float32 (num_samples,), from -1 to 1; zero where the file has no sound.
    rate: samples a second. Sample i lies at `start_seconds + i / rate`, on the clock of `VideoReader.times`.
    covered: (start, end) in seconds of the parts where the file has sound, in order; what is outside can be masked (see `mask`).
    missing: there is no sound stream, or nothing in it can be decoded. Then all samples are zero and nothing is covered.
    stream: index of the stream read, None if there is none.
    warnings: what was damaged, left out or cut, a line each.
    """

    samples: FloatArray
    rate: int
    start_seconds: float
    covered: tuple[tuple[float, float], ...] = ()
    missing: bool = False
    stream: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def end_seconds(self) -> float:
        return self.start_seconds + len(self.samples) / self.rate

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """(num_samples,) True where the file has sound."""
        mask = np.zeros(len(self.samples), np.bool_)
        for start, end in self.covered:
            mask[round((start - self.start_seconds) * self.rate) : round((end - self.start_seconds) * self.rate)] = True
        return mask


def read_sound(
    path: Path,
    *,
    rate: int,
    start: float | None = None,
    end: float | None = None,
    stream: int | None = None,
    required: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Sound:
    """Read sound from `start` to `end` (seconds on the container's clock) as mono float32 at `rate` samples a second.

    Default range: the picture's, from its first frame to the end of its last; without a picture, all the sound there is. Channels are
    mixed by FFmpeg's matrix, scaled so that nothing can clip (stereo: the mean; 5.1: centre before front before surround, no LFE), and
    resampled by FFmpeg's resampler. Places of samples come from the timestamps of the sound, exact to half a sample (in containers that
    round timestamps, like Matroska's milliseconds, to that).

    stream: index of the audio stream (default: FFmpeg's choice, the default or richest one).
    required: raise NoAudioError instead of returning a `missing` sound.

    Raises:
        InputError: rate, start or end out of range.
        NoAudioError: there is no sound and no picture; no sound, and it is `required`; or `stream` is not an audio stream.
        LimitError: the result would have more than `limits.max_output_bytes`, or lasts longer than `limits.max_duration_seconds`.
        MediaError: another subclass, where the file cannot be opened, or neither sound nor picture can be decoded.
    """
    blocks: list[Sound] = []
    num_bytes = 0
    for block in iter_sound(path, rate=rate, start=start, end=end, stream=stream, required=required, limits=limits):
        blocks.append(block)
        num_bytes += block.samples.nbytes
        if num_bytes > limits.max_output_bytes:
            message = f"more sound than Limits.max_output_bytes = {limits.max_output_bytes}; use iter_sound() or a shorter range"
            raise LimitError(path, message)
    samples = np.zeros(sum(len(block.samples) for block in blocks), np.float32)
    position = 0
    for block in blocks:
        if block.covered:  # the other pages of the array stay untouched and take no memory
            samples[position : position + len(block.samples)] = block.samples
        position += len(block.samples)
    return Sound(
        samples=samples,
        rate=rate,
        start_seconds=blocks[0].start_seconds,
        covered=_merged((interval for block in blocks for interval in block.covered), 0.5 / rate),
        missing=all(block.missing for block in blocks),
        stream=blocks[0].stream,
        warnings=tuple(warning for block in blocks for warning in block.warnings),
    )


def iter_sound(
    path: Path,
    *,
    rate: int,
    block_seconds: float = 60.0,
    start: float | None = None,
    end: float | None = None,
    stream: int | None = None,
    required: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Sound]:
    """Like `read_sound`, in blocks of `block_seconds` (the last one is shorter) that follow each other without a gap.

    Memory does not grow with the length. There is always at least one block. `missing` and `warnings` tell what is known so far.
    """
    if not 1 <= rate <= _MAX_RATE or rate != int(rate):
        raise InputError(f"rate is {rate}; it must be a whole number of samples a second, from 1 to {_MAX_RATE}")
    if not block_seconds * rate >= 1:
        raise InputError(f"block_seconds is {block_seconds}; a block must hold at least one sample")
    for name, value in (("start", start), ("end", end)):
        if value is not None and not np.isfinite(value):
            raise InputError(f"{name} is {value}; it must be a time in seconds")
    if start is not None and end is not None and end < start:
        raise InputError(f"start {start} s lies after end {end} s")
    return _iter_sound(path, rate, block_seconds, start, end, stream, required, limits)


def _iter_sound(
    path: Path,
    rate: int,
    block_seconds: float,
    start: float | None,
    end: float | None,
    stream: int | None,
    required: bool,
    limits: Limits,
) -> Iterator[Sound]:
    source = SoundSource(path, limits, stream)
    if source.stream is None and required:
        raise NoAudioError(path, "no sound in the file; give a file that has some, or do not require it")
    if start is None or end is None or source.stream is None:
        picture = _picture_range(path, limits, must_decode=source.stream is None)
        if picture is None and source.stream is None:
            raise NoAudioError(path, "neither sound nor picture in the file; check what it holds")
        if picture is not None:
            source.picture_end = picture[1]
            start = picture[0] if start is None else start
            end = max(picture[1], start) if end is None else end
    pieces = source.pieces(rate, start)
    if start is None:
        first = next(pieces, None)
        if first is None:
            raise NoDecodableFramesError(path, "nothing of the sound can be decoded", stream=source.stream)
        start = first.seconds
        pieces = _chain(first, pieces)
    if end is not None and end - start > limits.max_duration_seconds:
        message = f"{end - start:.0f} s, more than Limits.max_duration_seconds = {limits.max_duration_seconds:.0f}; raise it"
        raise LimitError(path, message)
    num_samples = None if end is None else max(round((end - start) * rate), 0)
    yield from _blocks(source, pieces, rate, start, num_samples, round(block_seconds * rate))


def _blocks(source: SoundSource, pieces: Iterable[Piece], rate: int, start: float, num_samples: int | None, block: int) -> Iterator[Sound]:
    """Lay pieces out in time, zeros where there are none. What overlaps sound that came before is cut off."""
    size = block if num_samples is None else min(block, num_samples)
    limit = source.limits.max_duration_seconds * rate
    data, covered, first, position = np.zeros(size, np.float32), list[tuple[float, float]](), 0, 0

    def finished(length: int) -> Sound:
        intervals = _merged(covered, 0.5 / rate)
        missing = source.num_frames == 0
        return Sound(data[:length], rate, start + first / rate, intervals, missing, source.stream, source.take_warnings())

    for piece in pieces:
        index = round((piece.seconds - start) * rate) + piece.offset
        if num_samples is not None and index >= num_samples:
            break
        num_late = max(position - index, 0)
        if num_late > JITTER_SECONDS * rate and index >= 0:
            source.warnings.append(f"time goes back at {start + position / rate:.3f} s: {num_late / rate:.3f} s of sound left out")
        samples, index = piece.samples[num_late:][: None if num_samples is None else num_samples - index - num_late], index + num_late
        if index > limit:
            raise LimitError(source.path, f"sound at {index / rate:.0f} s, after Limits.max_duration_seconds; give an end or raise it")
        while len(samples):
            if index >= first + block:
                yield finished(block)
                data, covered, first = np.zeros(size, np.float32), [], first + block
                continue
            fitting = samples[: first + block - index]
            data[index - first : index - first + len(fitting)] = fitting
            covered.append((start + index / rate, start + (index + len(fitting)) / rate))
            samples, index = samples[len(fitting) :], index + len(fitting)
            position = index
    total = position if num_samples is None else num_samples
    if source.num_faults:
        source.warnings.append(f"{counted(source.num_faults, 'damaged packet')} of sound left out")
    if source.stream is not None and source.num_frames == 0:
        source.warnings.append("nothing of the sound can be decoded")
    while first + block < total:
        yield finished(block)
        data, covered, first = np.zeros(size, np.float32), [], first + block
    yield finished(total - first)


def _merged(intervals: Iterable[tuple[float, float]], tolerance: float) -> tuple[tuple[float, float], ...]:
    merged: list[tuple[float, float]] = []
    for start, end in intervals:
        if merged and start - merged[-1][1] <= tolerance:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def _chain(first: Piece, rest: Iterator[Piece]) -> Iterator[Piece]:
    yield first
    yield from rest


def _picture_range(path: Path, limits: Limits, *, must_decode: bool) -> tuple[float, float] | None:
    """From the first frame to the end of the last, None without a picture. `must_decode`: the picture is all that the file has."""
    with VideoReader(path, limits=limits) as reader:
        try:
            if must_decode and reader.info.video is None:
                return None
            return reader.start_seconds, reader.end_seconds
        except NoVideoError:
            return None
        except (NoDecodableFramesError, NoDecoderError):
            if must_decode:
                raise
            return None
