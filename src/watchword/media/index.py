"""Which frames a video has, when each is shown, and where decoding can start.

The index is read off the packets, without decoding. Where packets cannot tell (no or contradictory times, lying
containers), one decoding pass counts the frames instead.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

import av.error
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from watchword.media.errors import LimitError, NoDecodableFramesError
from watchword.media.limits import Limits
from watchword.media.probe import Path

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

NO_TIME = -(1 << 63)
# Codecs in which a packet flagged as a keyframe is one. In others (GIF) every packet may carry the flag.
_KEYFRAMES_TRUSTED = frozenset(
    "h264 hevc vvc av1 vp8 vp9 mpeg4 mpeg1video mpeg2video mjpeg prores dnxhd theora h263 flv1 vc1 wmv1 wmv2 wmv3"
    " msmpeg4v2 msmpeg4v3 ffv1 huffyuv utvideo".split()
)
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class FrameIndex:
    """The frames of one video stream in display order.

    pts: (num_frames,) presentation times in units of `time_base`.
    times: (num_frames,) the same in seconds.
    end_seconds: when the last frame stops being shown.
    position: (num_frames,) where in the file's packet order each frame's packet stands; empty if the frames had to be
        decoded to be found, in which case frames can only be had by decoding from the beginning.
    key_position, key_pts, key_dts: the packets at which decoding can start.
    kept: frames of the decoding pass, if they were few and small enough to keep.
    """

    pts: Int64Array
    times: Float64Array
    end_seconds: float
    position: Int64Array
    key_position: Int64Array
    key_pts: Int64Array
    key_dts: Int64Array
    warnings: tuple[str, ...] = ()
    kept: list[VideoFrame] = field(default_factory=list, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def by_packets(self) -> bool:
        return len(self.position) > 0


@dataclass
class _Packets:
    """What one pass over the packets saw, in file order."""

    pts: array[int] = field(default_factory=lambda: array("q"))
    dts: array[int] = field(default_factory=lambda: array("q"))
    key: bytearray = field(default_factory=bytearray)
    shown: bytearray = field(default_factory=bytearray)
    last_duration: int = 0
    warnings: list[str] = field(default_factory=list)


def index_packets(container: InputContainer, stream: VideoStream, path: Path, limits: Limits) -> FrameIndex | None:
    """Index a stream by its packets; None where they cannot tell which frames are shown, and when."""
    seen = _read_packets(container, stream, path, limits)
    pts, dts = np.frombuffer(seen.pts, np.int64), np.frombuffer(seen.dts, np.int64)
    shown, key = np.frombuffer(seen.shown, np.bool_), np.frombuffer(seen.key, np.bool_).copy()
    if not key.any() or stream.codec_context.codec.canonical_name not in _KEYFRAMES_TRUSTED:
        key[:] = False
        key[:1] = True
    shown = shown & (np.arange(len(shown)) >= key.argmax() if len(key) else True)
    if not _times_are_sound(container, pts, dts, shown, key):
        return None
    position = np.flatnonzero(shown)
    position = position[np.argsort(pts[position], kind="stable")]
    duration = seen.last_duration or _usual_step(pts[position])
    return _index(
        pts[position],
        stream,
        path,
        limits,
        duration=duration,
        position=position,
        keys=(np.flatnonzero(key), pts[key], dts[key]),
        warnings=tuple(seen.warnings),
    )


def _read_packets(container: InputContainer, stream: VideoStream, path: Path, limits: Limits) -> _Packets:
    seen = _Packets()
    is_shown, is_key = _packet_tests(stream.codec_context.codec.canonical_name)
    cut = False
    last_pts = NO_TIME
    try:
        for packet in container.demux(stream):
            if not packet.size:
                continue
            pts, dts = packet.pts, packet.dts
            seen.pts.append(NO_TIME if pts is None else pts)
            seen.dts.append(NO_TIME if dts is None else dts)
            seen.key.append(packet.is_keyframe and is_key(packet))
            seen.shown.append(not packet.is_discard and is_shown(packet))
            cut = packet.is_corrupt
            if pts is not None and pts >= last_pts:
                last_pts, seen.last_duration = pts, packet.duration or 0
            if len(seen.pts) > limits.max_frames:
                raise LimitError(path, f"more frames than Limits.max_frames = {limits.max_frames}; raise it")
    except av.error.FFmpegError as error:
        seen.warnings.append(f"the file ends in a fault ({error.strerror}): what comes before it is used")
    if cut:
        seen.warnings.append("the file is cut: its last frame is incomplete and left out")
        seen.shown[-1] = False
    return seen


def _times_are_sound(
    container: InputContainer,
    pts: Int64Array,
    dts: Int64Array,
    shown: npt.NDArray[np.bool_],
    key: npt.NDArray[np.bool_],
) -> bool:
    """Whether sorting the packets by time gives the frames in the order in which a decoder puts them out."""
    if not shown.any() or (pts[shown] == NO_TIME).any() or (pts[key] == NO_TIME).any():
        return False
    if len(np.unique(pts[shown])) != shown.sum():
        return False
    # AVI stores no presentation times: with reordered frames they are guesses.
    if "avi" in container.format.name.split(",") and (pts != dts).any():
        return False
    # Times that start anew in the middle (joined recordings): order within a part is by time, among parts by place.
    latest_before = np.maximum.accumulate(np.where(pts == NO_TIME, np.int64(NO_TIME), pts))
    keys = np.flatnonzero(key)[1:]
    return bool((pts[keys] > latest_before[keys - 1]).all())


def _packet_tests(codec: str) -> tuple[Callable[[Packet], bool], Callable[[Packet], bool]]:
    """(is a frame shown for this packet?, is a packet that is flagged as a keyframe one?) for a codec."""
    if codec == "vp9":
        return _vp9_shown, lambda packet: True
    if codec == "vp8":
        return (lambda packet: bool(memoryview(packet)[0] & 0x10)), (lambda packet: True)
    if codec == "mpeg4":
        return (lambda packet: True), _mpeg4_key
    return (lambda packet: True), (lambda packet: True)


def _mpeg4_key(packet: Packet) -> bool:
    """The first VOP is an I-VOP (ISO/IEC 14496-2, 6.2.5): indexes of AVI files flag others too."""
    data = bytes(packet)
    start = data.find(b"\0\0\1\xb6")
    return 0 <= start < len(data) - 4 and data[start + 4] >> 6 == 0


def _vp9_shown(packet: Packet) -> bool:
    """Some frame of the packet is shown (VP9 bitstream specification 0.6, 6.2 and annex B)."""
    data = bytes(packet)
    marker = data[-1]
    if marker & 0xE0 != 0xC0:
        return _vp9_frame_shown(data[0])
    num_frames, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
    sizes = data[-1 - num_frames * width : -1]
    start = 0
    for i in range(num_frames):
        if start < len(data) and _vp9_frame_shown(data[start]):
            return True
        start += int.from_bytes(sizes[i * width : (i + 1) * width], "little")
    return False


def _vp9_frame_shown(first_byte: int) -> bool:
    # frame_marker (2 bits), profile (2, or 3 for profile 3), show_existing_frame, frame_type, show_frame
    after_profile = 3 if first_byte >> 4 & 3 == 3 else 4
    show_existing = first_byte >> (after_profile - 1) & 1
    show_frame = first_byte >> (after_profile - 3) & 1
    return bool(show_existing or show_frame)


def index_by_decoding(
    packets: Iterator[Packet[VideoStream]], container: InputContainer, stream: VideoStream, path: Path, limits: Limits
) -> FrameIndex:
    """Index a stream by decoding all of it. Memory is bounded: frames are kept only while they are few and small."""
    pts, kept, kept_bytes, errors, duration = array("q"), cast("list[VideoFrame]", []), 0, 0, 0
    for frames in decoded(packets):
        if frames is None:
            errors += 1
            continue
        for frame in frames:
            pts.append(NO_TIME if frame.pts is None else frame.pts)
            duration = frame.duration or duration
            kept_bytes += sum(plane.buffer_size for plane in frame.planes)
            if kept_bytes <= _KEPT_BYTES:
                kept.append(frame)
            else:
                kept.clear()
            if len(pts) > limits.max_frames:
                raise LimitError(path, f"more frames than Limits.max_frames = {limits.max_frames}; raise it")
    if not pts:
        raise NoDecodableFramesError(path, "no frame of the video can be decoded", stream=stream.index)
    times = _mend_times(np.frombuffer(pts, np.int64), duration or 1, "avi" in container.format.name.split(","))
    warnings = (f"{errors} damaged packets gave no frame",) if errors else ()
    return _index(times, stream, path, limits, duration=duration, warnings=warnings, kept=kept)


def decoded(packets: Iterator[Packet[VideoStream]]) -> Iterator[list[VideoFrame] | None]:
    """The frames that come out for each packet; None for a packet, or the rest of a file, that cannot be decoded."""
    try:
        for packet in packets:
            try:
                yield packet.decode()
            except EOFError:
                return
            except av.error.FFmpegError:
                yield None
    except av.error.FFmpegError:
        yield None


def _mend_times(pts: Int64Array, duration: int, constant_rate: bool) -> Int64Array:
    """Times for frames that have none. Those of a container without times of its own (AVI) are counted out evenly."""
    known = np.flatnonzero(pts != NO_TIME)
    if len(known) == 0:
        return np.arange(len(pts), dtype=np.int64) * duration
    step = max(_usual_step(pts[known]), 1)
    ascending = len(known) == len(pts) and bool((np.diff(pts) > 0).all())
    if constant_rate and not ascending:
        return pts[known[0]] + (np.arange(len(pts), dtype=np.int64) - known[0]) * max(duration, 1)
    if len(known) == len(pts):
        return pts
    mended = np.interp(np.arange(len(pts)), known, pts[known]).round().astype(np.int64)
    before, after = np.arange(known[0]), np.arange(known[-1] + 1, len(pts))
    mended[before] = pts[known[0]] - (known[0] - before) * step
    mended[after] = pts[known[-1]] + (after - known[-1]) * step
    return mended


def _usual_step(pts: Int64Array) -> int:
    return int(np.median(np.diff(pts))) if len(pts) > 1 else 0


def _index(
    pts: Int64Array,
    stream: VideoStream,
    path: Path,
    limits: Limits,
    *,
    duration: int,
    position: Int64Array | None = None,
    keys: tuple[Int64Array, Int64Array, Int64Array] | None = None,
    warnings: tuple[str, ...] = (),
    kept: list[VideoFrame] | None = None,
) -> FrameIndex:
    unit = stream.time_base or Fraction(1, 1_000_000)
    times = pts * unit.numerator / unit.denominator
    length = float(times.max() - times.min())
    if length > limits.max_duration_seconds:
        limit = f"Limits.max_duration_seconds = {limits.max_duration_seconds:g}"
        raise LimitError(path, f"{length:.0f} s long, more than {limit}; raise it", stream=stream.index)
    none = np.empty(0, np.int64)
    key_position, key_pts, key_dts = keys or (none, none, none)
    return FrameIndex(
        pts=pts,
        times=times,
        end_seconds=float(times[-1]) + float(max(duration, 0) * unit),
        position=none if position is None else position,
        key_position=key_position,
        key_pts=key_pts,
        key_dts=key_dts,
        warnings=warnings,
        kept=kept or [],
    )
