"""What is in a media file: the facts of its container and streams, and which of these are read.

Counts, rates and durations that a container states are called hints here, for they are often wrong: `VideoReader` finds out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

import av.error
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.stream import Discard, Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from watchword.media.errors import LimitError, NoDecodableFramesError, NoDecoderError
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.opening import Path, open_container

_COLOR_SPACES = {1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc"}
_COLOR_SPACES |= {0: "gbr", 10: "bt2020c"}
_COLOR_TRANSFERS = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear"}
_COLOR_TRANSFERS |= {13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 18: "arib-std-b67"}
_COLOR_PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020"}
_COLOR_PRIMARIES |= {11: "smpte431", 12: "smpte432", 22: "ebu3213"}
_COLOR_RANGES = {1: "tv", 2: "pc"}
# A video whose beginning is lost needs some packets before the first frame; one that yields nothing for so many is given up.
_PACKETS_TO_FIRST_FRAME = 2000


@dataclass(frozen=True, kw_only=True)
class VideoInfo:
    """The video stream that `VideoReader` reads. Widths and heights are in pixels.

    coded_width, coded_height: as stored.  width, height: as shown, after `rotation` and `pixel_aspect`.
    rotation: degrees clockwise (0, 90, 180, 270) that bring the stored picture upright, after mirroring it left to right
    if `mirrored`.  Fields that end in `_hint` are the container's claims.
    """

    stream: int
    codec: str
    pixel_format: str
    bit_depth: int
    coded_width: int
    coded_height: int
    pixel_aspect: tuple[int, int]
    rotation: int
    mirrored: bool
    width: int
    height: int
    interlaced: bool
    color_range: str | None
    color_space: str | None
    color_transfer: str | None
    color_primaries: str | None
    num_frames_hint: int | None
    frame_rate_hint: float | None
    start_seconds_hint: float | None
    duration_seconds_hint: float | None
    language: str | None


@dataclass(frozen=True, kw_only=True)
class AudioInfo:
    """The audio stream that `read_sound` reads."""

    stream: int
    codec: str
    sample_rate: int
    num_channels: int
    channel_layout: str
    start_seconds_hint: float | None
    duration_seconds_hint: float | None
    language: str | None


@dataclass(frozen=True, kw_only=True)
class SubtitleInfo:
    """A subtitle stream inside the file."""

    stream: int
    codec: str
    language: str | None
    title: str | None


@dataclass(frozen=True, kw_only=True)
class MediaInfo:
    """Facts of a media file. `video` and `audio` are the streams that are read by default, None where there is none."""

    path: str
    container: str
    num_bytes: int
    start_seconds_hint: float | None
    duration_seconds_hint: float | None
    num_video_streams: int
    num_audio_streams: int
    num_subtitle_streams: int
    num_attached_pictures: int
    num_other_streams: int
    video: VideoInfo | None
    audio: AudioInfo | None
    subtitles: tuple[SubtitleInfo, ...]
    metadata: dict[str, str]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain dictionaries, lists, strings and numbers, ready for `json.dumps`."""
        facts = asdict(self)
        for name in ("subtitles", "warnings"):
            facts[name] = list(facts[name])
        if self.video is not None:
            facts["video"]["pixel_aspect"] = list(self.video.pixel_aspect)
        return facts


@dataclass(frozen=True)
class Orientation:
    """How a stored picture is brought upright: first swap its axes, then flip left-right, then flip up-down."""

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @property
    def mirrored(self) -> bool:
        return self.transpose ^ self.flip_x ^ self.flip_y

    @property
    def degrees(self) -> int:
        """Clockwise turn, after a left-right flip where `mirrored`."""
        if self.transpose:
            return 90 if self.flip_x else 270
        return 180 if self.flip_y else 0

    def apply(self, image: np.ndarray) -> np.ndarray:
        """A view of `image` (height, width, channel) turned upright."""
        if self.transpose:
            image = image.transpose(1, 0, 2)
        return image[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1]


def orientation(frame: VideoFrame) -> Orientation:
    """The display matrix that came with the frame, rounded to quarter turns and flips (ISO/IEC 14496-12, 6.2.2)."""
    side_data = frame.side_data.get("DISPLAYMATRIX")
    if side_data is None:
        return Orientation()
    a, b, _, c, d = (int(value) for value in np.frombuffer(memoryview(cast(SideData, side_data)), dtype="=i4")[:5])
    if abs(b) > abs(a):
        return Orientation(True, flip_x=c < 0, flip_y=b < 0)
    return Orientation(False, flip_x=a < 0, flip_y=d < 0)


def shown_size(width: int, height: int, aspect: Fraction | None, turned: bool) -> tuple[int, int]:
    """(width, height) in pixels as shown: pixel aspect goes into the width before a quarter turn."""
    if aspect:
        width = max(1, round(width * aspect))
    return (height, width) if turned else (width, height)


def choose_video(container: InputContainer) -> VideoStream | None:
    """The stream to show: the one marked default, else the largest. An attached picture is not a video."""
    videos = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    return max(videos, key=lambda s: (bool(s.disposition & Disposition.default), _num_pixels(s)), default=None)


def _num_pixels(stream: VideoStream) -> int:
    # A stream without a decoder has no codec context, whatever PyAV's types say, and then knows no size.
    return stream.width * stream.height if stream.codec_context is not None else 0


def choose_audio(container: InputContainer) -> AudioStream | None:
    """The sound to hear: FFmpeg's choice, the default or richest stream; else the first."""
    best = container.streams.best("audio")
    return best if isinstance(best, AudioStream) else next(iter(container.streams.audio), None)


def read_only(container: InputContainer, chosen: Stream) -> None:
    """Let the demuxer skip all other streams."""
    for stream in container.streams:
        stream.discard = Discard.default if stream is chosen else Discard.all


def check_pixels(path: Path, stream: VideoStream, limits: Limits) -> None:
    """Raise LimitError for a picture that is too large, NoDecoderError for a codec that cannot be decoded."""
    if stream.codec_context is None:
        raise NoDecoderError(path, "this build of FFmpeg has no decoder for the video", stream=stream.index)
    if stream.width * stream.height > limits.max_pixels:
        message = f"{stream.width}x{stream.height}, more than Limits.max_pixels = {limits.max_pixels}; raise it"
        raise LimitError(path, message, stream=stream.index)


def refuse_larger_pictures(stream: VideoStream, limits: Limits) -> None:
    """Let the decoder, before it is opened, refuse pictures that turn out larger in the middle of the stream."""
    stream.codec_context.options = {"max_pixels": str(limits.max_pixels)}


def probe(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> MediaInfo:
    """Facts of the container and its streams. The first frame is decoded, for it knows colours and rotation best.

    Raises:
        MediaError: a subclass that says why the file cannot be read, with `reason`; NoDecodableFramesError where the
            file has a video, not one frame of it decodes, and there is no sound either.
    """
    with open_container(path, limits) as container:
        streams = list(container.streams)
        pictures = [s for s in streams if s.disposition & Disposition.attached_pic]
        kinds = [s.type for s in streams if s not in pictures]
        audio = _audio_info(container)
        warnings: tuple[str, ...] = ()
        stream, video = choose_video(container), None
        if stream is not None:
            check_pixels(path, stream, limits)
            refuse_larger_pictures(stream, limits)
            declared = (stream.width, stream.height)
            frame = next(_first_frames(container, stream), None)
            if frame is not None:
                video = _video_info(stream, frame, declared if all(declared) else (frame.width, frame.height))
            elif audio is None:
                raise NoDecodableFramesError(path, "no frame of the video can be decoded", stream=stream.index)
            else:
                warnings = ("no frame of the video can be decoded, only its sound",)
        return MediaInfo(
            path=os.fspath(path),
            container=container.format.name,
            num_bytes=container.size,
            start_seconds_hint=_seconds(container.start_time, Fraction(1, 1_000_000)),
            duration_seconds_hint=_seconds(container.duration, Fraction(1, 1_000_000)),
            num_video_streams=kinds.count("video"),
            num_audio_streams=kinds.count("audio"),
            num_subtitle_streams=kinds.count("subtitle"),
            num_attached_pictures=len(pictures),
            num_other_streams=len(kinds) - sum(kinds.count(kind) for kind in ("video", "audio", "subtitle")),
            video=video,
            audio=audio,
            subtitles=tuple(_subtitle_info(s) for s in streams if s.type == "subtitle"),
            metadata=dict(container.metadata),
            warnings=warnings,
        )


def _first_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    read_only(container, stream)
    stream.codec_context.thread_count = 1
    try:
        for count, packet in enumerate(container.demux(stream)):
            if count >= _PACKETS_TO_FIRST_FRAME:
                return
            try:
                yield from packet.decode()
            except EOFError:
                return
            except av.error.FFmpegError:
                continue
    except av.error.FFmpegError:
        return


def _video_info(stream: VideoStream, frame: VideoFrame, declared: tuple[int, int]) -> VideoInfo:
    turn, aspect = orientation(frame), stream.sample_aspect_ratio or Fraction(1)
    width, height = shown_size(*declared, aspect, turn.transpose)
    rate = stream.average_rate or stream.guessed_rate
    return VideoInfo(
        stream=stream.index,
        codec=stream.codec_context.codec.canonical_name,
        pixel_format=frame.format.name,
        bit_depth=max(component.bits for component in frame.format.components),
        coded_width=declared[0],
        coded_height=declared[1],
        pixel_aspect=(aspect.numerator, aspect.denominator),
        rotation=turn.degrees,
        mirrored=turn.mirrored,
        width=width,
        height=height,
        interlaced=frame.interlaced_frame,
        color_range=_COLOR_RANGES.get(int(frame.color_range)),
        color_space=_COLOR_SPACES.get(int(frame.colorspace)),
        color_transfer=_COLOR_TRANSFERS.get(int(frame.color_trc)),
        color_primaries=_COLOR_PRIMARIES.get(int(frame.color_primaries)),
        num_frames_hint=stream.frames or None,
        frame_rate_hint=float(rate) if rate else None,
        start_seconds_hint=_seconds(stream.start_time, stream.time_base),
        duration_seconds_hint=_seconds(stream.duration, stream.time_base),
        language=stream.language,
    )


def _audio_info(container: InputContainer) -> AudioInfo | None:
    stream = choose_audio(container)
    if stream is None:
        return None
    context = stream.codec_context
    return AudioInfo(
        stream=stream.index,
        codec=context.codec.canonical_name if context is not None else "unknown",
        sample_rate=context.sample_rate if context is not None else 0,
        num_channels=context.layout.nb_channels if context is not None else 0,
        channel_layout=context.layout.name if context is not None else "unknown",
        start_seconds_hint=_seconds(stream.start_time, stream.time_base),
        duration_seconds_hint=_seconds(stream.duration, stream.time_base),
        language=stream.language,
    )


def _subtitle_info(stream: Stream) -> SubtitleInfo:
    context = stream.codec_context
    name = context.codec.canonical_name if context is not None else "unknown"
    return SubtitleInfo(stream=stream.index, codec=name, language=stream.language, title=stream.metadata.get("title"))


def _seconds(value: int | None, unit: Fraction | None) -> float | None:
    return None if value is None or unit is None else float(value * unit)
