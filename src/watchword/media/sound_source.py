"""Decoding the sound of a file, resampled and mixed to mono, in stretches whose places in time are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import av
import av.error
import numpy as np
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.filter import Graph

from watchword.media.errors import NoAudioError, NoDecoderError
from watchword.media.limits import Limits
from watchword.media.opening import Path, open_container
from watchword.media.probe import choose_audio, read_only

__all__ = ["JITTER_SECONDS", "FloatArray", "Piece", "SoundSource"]

FloatArray = npt.NDArray[np.float32]

# Timestamps in containers are rounded and jitter: only a larger deviation means that sound is missing or starts anew. After a packet that
# could not be decoded a gap is expected, and small ones count as well.
JITTER_SECONDS = 0.05
_JITTER_AFTER_FAULT_SECONDS = 0.002
# Formats that state lengths, and whose timestamps are right after a jump into the middle (in raw MP3 or AAC both are guesses).
_SEEKABLE = {"mov", "matroska", "mpegts", "avi"}
_WORTH_A_SEEK_SECONDS = 10.0
# Decoded before the part wanted: codecs and the resampler need some time to settle.
_SETTLING_SECONDS = 1.0
# Samples that come out at once: decoders give a thousand, and work on so few takes longer than resampling them.
_PIECE_SAMPLES = 16384
# How much earlier than stated the sound may end before it counts as cut.
_CUT_SECONDS = 0.5
# What FFmpeg assumes where a file gives only the number of channels, as WAV and AVI often do.
_USUAL_LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}


@dataclass(frozen=True)
class Piece:
    """Resampled sound: `samples` that begin `offset` samples after `seconds`, when the uninterrupted stretch they are of began."""

    seconds: float
    offset: int
    samples: FloatArray


class SoundSource:
    """The sound stream of a file, and what went wrong while reading it."""

    def __init__(self, path: Path, limits: Limits, stream: int | None) -> None:
        self.path, self.limits = path, limits
        self.num_frames = self.num_faults = 0
        self.picture_end = -np.inf
        self.warnings: list[str] = []
        with open_container(path, limits) as container:
            chosen = _choose(path, container, stream)
            self.stream = None if chosen is None else chosen.index
            self.seekable = bool(_SEEKABLE & set(container.format.name.split(",")))
            unit = Fraction(0) if chosen is None or chosen.time_base is None else chosen.time_base
            self.start_seconds = 0.0 if chosen is None else float((chosen.start_time or 0) * unit)
            self.stated_end = self.stated_end_of_all = np.inf
            if chosen is not None and chosen.duration and self.seekable:
                self.stated_end = self.start_seconds + float(chosen.duration * unit)
            elif container.duration and self.seekable:
                self.stated_end_of_all = ((container.start_time or 0) + container.duration) / av.time_base

    def take_warnings(self) -> tuple[str, ...]:
        taken = tuple(self.warnings)
        self.warnings.clear()
        return taken

    def pieces(self, rate: int, since: float | None) -> Iterator[Piece]:
        """The sound from `since` or some time before it to the end, resampled. A gap, or a change of format, begins a new stretch."""
        if self.stream is None:
            return
        stretch: _Stretch | None = None
        faults_before = 0
        for frame in self._frames(since):
            seconds = _seconds(frame)
            jitter = JITTER_SECONDS if self.num_faults == faults_before else _JITTER_AFTER_FAULT_SECONDS
            faults_before = self.num_faults
            if stretch is not None and not stretch.continues(frame, seconds, jitter):
                yield from stretch.feed(None)
                seconds = stretch.end_seconds if seconds is None else seconds
                stretch = None
            if stretch is None:
                stretch = _Stretch(self.path, frame, self.start_seconds if seconds is None else seconds, rate)
            yield from stretch.feed(frame)
        if stretch is not None:
            yield from stretch.feed(None)
            self._warn_if_cut(stretch.end_seconds)

    def _warn_if_cut(self, sound_end: float) -> None:
        if np.isfinite(self.stated_end):
            end, stated = sound_end, self.stated_end
        else:
            end, stated = max(sound_end, self.picture_end), self.stated_end_of_all
        if np.isfinite(stated) and end < stated - _CUT_SECONDS:
            self.warnings.append(f"the file is cut, or states a wrong length: sound ends at {sound_end:.3f} s, stated are {stated:.3f} s")

    def _frames(self, since: float | None) -> Iterator[AudioFrame]:
        """Decoded frames, from the beginning or, where that saves much and is exact, from shortly before `since`."""
        if self.seekable and since is not None and since - self.start_seconds > _WORTH_A_SEEK_SECONDS:
            with open_container(self.path, self.limits) as container:
                frames = self._decoded(container, since - _SETTLING_SECONDS)
                first = next(frames, None)
                first_seconds = None if first is None else _seconds(first)
                if first is not None and first_seconds is not None and first_seconds <= since:
                    yield first
                    yield from frames
                    return
        with open_container(self.path, self.limits) as container:
            yield from self._decoded(container, None)

    def _decoded(self, container: InputContainer, since: float | None) -> Iterator[AudioFrame]:
        stream = container.streams[self.stream or 0]
        assert isinstance(stream, AudioStream)
        read_only(container, stream)
        self.num_frames = self.num_faults = 0
        try:
            if since is not None:
                container.seek(int(since * av.time_base))
            for packet in container.demux(stream):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    self.num_faults += 1
                    continue
                for frame in frames:
                    if frame.samples:
                        self.num_frames += 1
                        yield frame
        except av.error.FFmpegError as error:
            self.warnings.append(f"the sound breaks off ({error.strerror}): what comes before is used")


class _Stretch:
    """Sound without a gap, on its way through FFmpeg's resampler and down-mixer."""

    def __init__(self, path: Path, frame: AudioFrame, seconds: float, rate: int) -> None:
        self.seconds, self.sample_rate, self.format, self.layout = seconds, frame.sample_rate, frame.format.name, frame.layout.name
        self.num_in = self.num_out = 0
        layout = self.layout
        if layout.endswith("channels"):
            layout = _USUAL_LAYOUTS.get(frame.layout.nb_channels, layout)
        self.graph = Graph()
        try:
            self.graph.link_nodes(
                self.graph.add_abuffer(
                    format=self.format, sample_rate=self.sample_rate, layout=layout, time_base=Fraction(1, self.sample_rate)
                ),
                # Without this maximum FFmpeg lets float sound grow: two equal channels would come out 1.4 times as loud.
                self.graph.add("aresample", f"{rate}:rematrix_maxval=1"),
                self.graph.add("aformat", f"sample_fmts=flt:channel_layouts=mono:sample_rates={rate}"),
                self.graph.add("asetnsamples", f"{_PIECE_SAMPLES}:p=0"),
                self.graph.add("abuffersink"),
            ).configure()
        except (av.error.FFmpegError, ValueError):
            raise NoDecoderError(path, f"{frame.layout.nb_channels} channels ({layout}) that FFmpeg cannot mix to mono") from None

    @property
    def end_seconds(self) -> float:
        return self.seconds + self.num_in / self.sample_rate

    def continues(self, frame: AudioFrame, seconds: float | None, jitter: float) -> bool:
        """Whether the frame, which starts at `seconds`, goes on where this stretch ends."""
        same_format = (frame.sample_rate, frame.format.name, frame.layout.name) == (self.sample_rate, self.format, self.layout)
        return same_format and (seconds is None or abs(seconds - self.end_seconds) <= jitter)

    def feed(self, frame: AudioFrame | None) -> Iterator[Piece]:
        """Put a frame in (None: the end) and yield what comes out."""
        if frame is not None:
            frame.pts, frame.time_base = self.num_in, Fraction(1, self.sample_rate)
            self.num_in += frame.samples
        self.graph.push(frame)
        with suppress(av.error.BlockingIOError, av.error.EOFError):
            while True:
                samples = self.graph.pull().to_ndarray().ravel()
                yield Piece(self.seconds, self.num_out, np.clip(np.nan_to_num(samples, nan=0.0), -1, 1))
                self.num_out += len(samples)


def _seconds(frame: AudioFrame) -> float | None:
    return None if frame.pts is None or frame.time_base is None else float(frame.pts * frame.time_base)


def _choose(path: Path, container: InputContainer, stream: int | None) -> AudioStream | None:
    if stream is None:
        best = choose_audio(container)
        return best if best is not None and best.codec_context is not None else None
    for audio in container.streams.audio:
        if audio.index == stream:
            if audio.codec_context is None:
                raise NoDecoderError(path, "this build of FFmpeg has no decoder for the sound", stream=stream)
            return audio
    listing = ", ".join(str(audio.index) for audio in container.streams.audio)
    raise NoAudioError(path, f"not an audio stream; those are: {listing or 'none'}", stream=stream)
