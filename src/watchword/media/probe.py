"""What is in a media file: opening it safely, and the facts of its container and streams.

Counts, rates and durations that a container states are called hints here, for they are often wrong: `VideoReader` finds out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

import av
import av.error
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.stream import Discard, Disposition, Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from watchword.media.errors import (
    EmptyFileError,
    LimitError,
    MediaError,
    MissingFileError,
    NoDecodableFramesError,
    NoDecoderError,
    NoMoovError,
    NotAFileError,
    NotMediaError,
    UnreadableFileError,
)
from watchword.media.limits import DEFAULT_LIMITS, Limits

Path = str | os.PathLike[str]

_COLOR_SPACES = {1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc"}
_COLOR_SPACES |= {0: "gbr", 10: "bt2020c"}
_COLOR_TRANSFERS = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear"}
_COLOR_TRANSFERS |= {13: "iec61966-2-1", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 18: "arib-std-b67"}
_COLOR_PRIMARIES = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020"}
_COLOR_PRIMARIES |= {11: "smpte431", 12: "smpte432", 22: "ebu3213"}
_COLOR_RANGES = {1: "tv", 2: "pc"}
_MP4_BOXES = {b"ftyp", b"mdat", b"free", b"skip", b"wide", b"moof", b"pnot", b"styp", b"sidx", b"uuid"}
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


def open_file(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Open a regular file for reading and return (descriptor, size in bytes). Anything else than a file is not opened.

    Raises:
        MissingFileError, NotAFileError, UnreadableFileError, EmptyFileError, LimitError
    """
    try:
        _require_file(path, os.stat(path))
        # O_NONBLOCK: should the path have become a FIFO meanwhile, opening it must not wait for a writer.
        flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, os.O_RDONLY | flags)
    except FileNotFoundError:
        found = "a link that leads nowhere" if os.path.islink(path) else "no such file"
        raise MissingFileError(path, f"{found}; check the path") from None
    except ValueError:
        raise MissingFileError(path, "no file can have this name; check the path") from None
    except OSError as error:
        raise UnreadableFileError(path, f"cannot be opened: {error.strerror}") from None
    status = os.fstat(descriptor)
    try:
        _require_file(path, status)
        if status.st_size == 0:
            raise EmptyFileError(path, "the file is empty (0 bytes); fetch or record it again")
        if status.st_size > limits.max_bytes:
            raise LimitError(path, f"{status.st_size} bytes, more than Limits.max_bytes = {limits.max_bytes}; raise it")
    except MediaError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def _require_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file (FIFO, socket or device)"
        raise NotAFileError(path, f"is {kind}; give a video file")


def open_container(path: Path, limits: Limits = DEFAULT_LIMITS) -> InputContainer:
    """Open a media file with PyAV, by content and never by name. The caller closes it.

    FFmpeg is handed an open descriptor, so no name can mean a protocol, a pattern or an option to it; and the only
    protocol it may use is that one, so a playlist inside the file cannot make it open anything else.

    Raises:
        those of `open_file`, NotMediaError, NoMoovError, UnreadableFileError
    """
    descriptor, _ = open_file(path, limits)
    options = {"fd": str(descriptor), "protocol_whitelist": "fd", "max_pixels": str(limits.max_pixels)}
    try:
        return av.open("fd:", "r", options=options, metadata_errors="ignore")
    except av.error.FFmpegError as error:
        if _lacks_moov(descriptor):
            message = "the file is cut or incomplete: its index (moov) is missing; fetch or record it again"
            raise NoMoovError(path, message) from None
        # Not permitted: what the file holds (a playlist) would have FFmpeg open another one.
        if isinstance(error, av.error.InvalidDataError | av.error.PermissionError | av.error.ProtocolNotFoundError):
            raise NotMediaError(path, "not a media file in any format known to FFmpeg; check what it holds") from None
        raise UnreadableFileError(path, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _lacks_moov(descriptor: int) -> bool:
    """Whether the file is a chain of MP4 boxes without the one that says where the frames are."""
    position, end = 0, os.fstat(descriptor).st_size
    while position + 8 <= end:
        os.lseek(descriptor, position, os.SEEK_SET)
        header = os.read(descriptor, 16)
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if kind == b"moov" or (position == 0 and kind not in _MP4_BOXES):
            return False
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if size < 8:
            return True
        position += size
    return position > 0


def choose_video(container: InputContainer) -> VideoStream | None:
    """The stream to show: the one marked default, else the largest. An attached picture is not a video."""
    videos = [stream for stream in container.streams.video if not stream.disposition & Disposition.attached_pic]
    return max(videos, key=lambda s: (bool(s.disposition & Disposition.default), s.width * s.height), default=None)


def choose_audio(container: InputContainer) -> AudioStream | None:
    """The sound to hear: the first stream marked default, else the first."""
    return max(container.streams.audio, key=lambda s: bool(s.disposition & Disposition.default), default=None)


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
            declared = (stream.width, stream.height)
            frame = next(_first_frames(container, stream), None)
            if frame is not None:
                video = _video_info(stream, frame, declared)
            elif audio is None:
                raise NoDecodableFramesError(path, "no frame of the video can be decoded", stream=stream.index)
            else:
                warnings = ("no frame of the video can be decoded, only its sound",)
        return MediaInfo(
            path=os.fspath(path),
            container=container.format.name,
            num_bytes=os.stat(path).st_size,
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
            except av.error.InvalidDataError:
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
