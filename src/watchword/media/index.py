"""Which frames a video has, when each is shown, and where decoding can start.

The index is read off the packets, without decoding. Where packets cannot tell (no or contradictory times, lying
containers), one decoding pass counts the frames instead.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import av.error
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from watchword.counted import counted
from watchword.media.errors import LimitError, NoDecodableFramesError
from watchword.media.limits import Limits
from watchword.media.opening import Path
from watchword.media.packets import encoder_notes, packet_tests

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

NO_TIME = -(1 << 63)
# Codecs in which a packet flagged as a keyframe is one. In others (GIF) every packet may carry the flag.
_KEYFRAMES_TRUSTED = frozenset(
    """h264 hevc vvc av1 vp8 vp9 mpeg4 mpeg1video mpeg2video mjpeg prores dnxhd theora h263 flv1 vc1
    wmv1 wmv2 wmv3 msmpeg4v2 msmpeg4v3 ffv1 huffyuv utvideo""".split()  # noqa: SIM905
)
# Codecs that always put out the same frames after a keyframe, whatever came before it: after it frames can be counted.
_COUNTED_FROM_KEYFRAMES = frozenset(("mpeg4", "mpeg1video", "mpeg2video"))
# A step back in time that is more than the overlap of two joined recordings.
_BACK_SECONDS = 1.0
# Frames of a decoding pass that are kept: enough for a clip of some ten seconds at 320x240.
_KEPT_BYTES = 64 << 20


@dataclass(frozen=True)
class FrameIndex:
    """The frames of one video stream in display order.

    pts: (num_frames,) presentation times in units of `time_base`.
    times: (num_frames,) the same in seconds.
    end_seconds: when the last frame stops being shown.
    position: (num_frames,) where in the file's packet order each frame's packet stands; empty if the frames had to be
        decoded to be found, in which case they are counted as they come out of the decoder.
    key_position, key_pts, key_dts: the packets at which decoding can start.
    key_frame: without `position`, the frame that each packet of `key_position` gives; frames after it are counted.
    suspects: frames whose packets look damaged.
    preamble: what a decoder that starts later than at the first packet must be given before (see `packets.encoder_notes`).
    kept: frames of the decoding pass, if they were few and small enough to keep.
    """

    pts: Int64Array
    times: Float64Array
    end_seconds: float
    position: Int64Array
    key_position: Int64Array
    key_pts: Int64Array
    key_dts: Int64Array
    key_frame: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    warnings: tuple[str, ...] = ()
    suspects: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    preamble: bytes = b""
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
    suspect: bytearray = field(default_factory=bytearray)
    last_duration: int = 0
    preamble: bytes = b""
    warnings: list[str] = field(default_factory=list)


def index_packets(
    packets: Iterator[Packet[VideoStream]], container: InputContainer, stream: VideoStream, path: Path, limits: Limits
) -> FrameIndex | None:
    """Index a stream by its packets; None where they cannot tell which frames are shown, and when."""
    seen = _read_packets(packets, stream, path, limits)
    pts, dts = np.frombuffer(seen.pts, np.int64), np.frombuffer(seen.dts, np.int64)
    shown, key = np.frombuffer(seen.shown, np.bool_).copy(), np.frombuffer(seen.key, np.bool_).copy()
    if not key.any() or stream.codec_context.codec.canonical_name not in _KEYFRAMES_TRUSTED:
        key[:] = False
        key[:1] = True
    if len(key):
        # Of a file cut out of a longer one, nothing before the first keyframe can be decoded, in either order.
        first_key = int(key.argmax())
        shown[:first_key] = False
        shown &= (pts >= pts[first_key]) | (pts == NO_TIME)
    if not _times_are_sound(container, pts, dts, shown, key):
        return None
    position = np.flatnonzero(shown)
    position = position[np.argsort(pts[position], kind="stable")]
    suspects = np.flatnonzero(np.frombuffer(seen.suspect, np.bool_)[position])
    duration = _usual_step(pts[position])
    # Only MP4 says of each frame how long it is shown: the last packet in the file has the last duration.
    if duration == 0 or ("mov" in container.format.name.split(",") and not len(suspects)):
        duration = seen.last_duration or duration
    _warn_of_a_cut(container, stream, pts[position], seen)
    return _index(
        pts[position],
        stream,
        path,
        limits,
        duration=duration,
        position=position,
        keys=(np.flatnonzero(key), pts[key], dts[key]),
        warnings=tuple(seen.warnings),
        suspects=suspects,
        preamble=seen.preamble,
    )


def _read_packets(packets: Iterator[Packet[VideoStream]], stream: VideoStream, path: Path, limits: Limits) -> _Packets:
    seen, tests = _Packets(), packet_tests(stream)
    try:
        for packet in packets:
            if not packet.size:
                continue
            if not seen.pts:
                seen.preamble = encoder_notes(stream, bytes(packet))
            pts, dts, seen.last_duration = packet.pts, packet.dts, packet.duration or 0
            seen.pts.append(NO_TIME if pts is None else pts)
            seen.dts.append(NO_TIME if dts is None else dts)
            seen.key.append(packet.is_keyframe and tests.is_key(packet))
            seen.shown.append(not packet.is_discard and tests.is_shown(packet))
            seen.suspect.append(packet.is_corrupt or not tests.is_whole(packet))
            if len(seen.pts) > limits.max_frames:
                raise LimitError(path, f"more frames than Limits.max_frames = {limits.max_frames}; raise it")
    except av.error.FFmpegError as error:
        seen.warnings.append(f"the file ends in a fault ({error.strerror}): what comes before it is used")
    return seen


def _warn_of_a_cut(container: InputContainer, stream: VideoStream, pts: Int64Array, seen: _Packets) -> None:
    """Matroska shows no other sign of a lost end than that the file said it would be longer."""
    if "matroska" not in container.format.name or not container.duration or stream.time_base is None:
        return
    end, claimed = float(pts[-1] * stream.time_base), container.duration / 1e6
    if claimed - end > max(1.0, 0.1 * claimed):
        seen.warnings.append(f"the file says it lasts {claimed:.1f} s, its video ends at {end:.1f} s: it may be cut")


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


def index_by_decoding(
    packets: Iterator[Packet[VideoStream]], container: InputContainer, stream: VideoStream, path: Path, limits: Limits
) -> FrameIndex:
    """Index a stream by decoding all of it. Memory is bounded: frames are kept only while they are few and small."""
    pts, kept, kept_bytes, errors, duration = array("q"), cast("list[VideoFrame]", []), 0, 0, 0
    key_position, key_frame = array("q"), array("q")
    for frames in decoded(_noting_keys(packets, stream, key_position)):
        if frames is None:
            errors += 1
            continue
        for frame in frames:
            if is_intra(frame):
                key_frame.append(len(pts))
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
    warnings = [f"{counted(errors, 'damaged packet')} gave no frame"] if errors else []
    back = np.flatnonzero(np.diff(times) * float(stream.time_base or 0) < -_BACK_SECONDS)
    if len(back):
        warnings.append(f"times start anew at frame {back[0] + 1}: what comes after has no time of its own, only numbers")
    countable = stream.codec_context.codec.canonical_name in _COUNTED_FROM_KEYFRAMES and len(key_position) == len(key_frame)
    keys = [np.frombuffer(found, np.int64)[: None if countable and not errors else 0] for found in (key_position, key_frame)]
    index = _index(times, stream, path, limits, duration=duration, warnings=tuple(warnings), kept=kept)
    return replace(index, key_position=keys[0], key_frame=keys[1])


def is_intra(frame: VideoFrame) -> bool:
    """Whether the frame came out of a keyframe's packet."""
    return frame.key_frame and frame.pict_type == PictureType.I


def _noting_keys(packets: Iterator[Packet[VideoStream]], stream: VideoStream, key_position: array[int]) -> Iterator[Packet[VideoStream]]:
    tests, position = packet_tests(stream), 0
    for packet in packets:
        if packet.size:
            if packet.is_keyframe and tests.is_key(packet):
                key_position.append(position)
            position += 1
        yield packet


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
    ascending = len(known) == len(pts) and bool((np.diff(pts) > 0).all())
    if constant_rate and not ascending:
        return np.asarray(pts[known[0]] + (np.arange(len(pts)) - known[0]) * max(duration, 1), np.int64)
    if len(known) == len(pts):
        return pts
    # The mean step, not the usual one: times in a container's coarse unit are rounded.
    step = (pts[known[-1]] - pts[known[0]]) / (known[-1] - known[0]) if len(known) > 1 else duration
    mended = np.interp(np.arange(len(pts)), known, pts[known]).round().astype(np.int64)
    before, after = np.arange(known[0]), np.arange(known[-1] + 1, len(pts))
    mended[before] = np.round(pts[known[0]] - (known[0] - before) * step)
    mended[after] = np.round(pts[known[-1]] + (after - known[-1]) * step)
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
    suspects: Int64Array | None = None,
    preamble: bytes = b"",
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
        suspects=none if suspects is None else suspects,
        preamble=preamble,
        kept=kept or [],
    )
