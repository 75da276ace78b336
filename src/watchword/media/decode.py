"""Decoding wanted frames of one open file, with as little decoding as gives exactly those frames."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, dropwhile
from typing import cast

import av.error
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from watchword.counted import counted
from watchword.media.errors import MediaError, NoDecodableFramesError, NoVideoError, UnreadableFileError
from watchword.media.index import FrameIndex, Int64Array, decoded, index_by_decoding, index_packets, is_intra
from watchword.media.limits import Limits
from watchword.media.opening import Path, open_container
from watchword.media.probe import check_pixels, choose_video, read_only, refuse_larger_pictures

# Frames that no other frame refers to may be left out without changing the others (in HEVC and VP9 this is not as sure).
_DROPPABLE = frozenset(("h264", "mpeg4", "mpeg2video", "mpeg1video"))
# A jump to a later keyframe saves decoding, but costs a seek and a cold start: worth it from about this many packets.
_PACKETS_WORTH_A_SEEK = 12
# A second thread costs 5 to 30 % more processor time in all; for small pictures it gains little.
_PIXELS_WORTH_A_THREAD = 640 * 480
# Threads after a sign of damage, by how much care is taken (see `Session._take_care`).
_CAREFUL_THREADS = {1: 3, 2: 1}
# So many packets that look damaged are tried at once to count the frames; of a file that has more, only those asked for.
_MOST_SUSPECTS = 64
# `field_order` of a codec context: unknown, progressive. Interlaced H.264 is looked at more closely, as far as the second number.
_NOT_INTERLACED = frozenset((0, 1))
_FRAMES_TRIED = 16
# Packets of a file are kept, so as not to read them twice, if they are no more bytes in all, and so many more for each packet.
_KEPT_BYTES, _PACKET_BYTES = 8 << 20, 500
# Packets that a decoder may need after a frame's own packet before it must put the frame out.
_LONGEST_DELAY = 32


@dataclass(frozen=True)
class Run:
    """Packets to decode from a keyframe on, and the frames wanted of them (in display order)."""

    start: int
    stop: int
    wanted: Int64Array


def plan(index: FrameIndex, wanted: Int64Array) -> list[Run]:
    """Split wanted frames (ascending) into runs: a new run begins where jumping to a keyframe saves decoding."""
    key_number = np.maximum(np.searchsorted(index.key_pts, index.pts[wanted], side="right") - 1, 0)
    starts, positions = index.key_position[key_number], index.position[wanted]
    runs: list[Run] = []
    first = 0
    start, stop = int(starts[0]), int(positions[0]) + 1
    for i in range(1, len(wanted)):
        if starts[i] - stop >= _PACKETS_WORTH_A_SEEK:
            runs.append(Run(start, stop, wanted[first:i]))
            first, start, stop = i, int(starts[i]), 0
        stop = max(stop, int(positions[i]) + 1)
    runs.append(Run(start, stop, wanted[first:]))
    return runs


class Session:
    """One open container with its decoder. Never used in another process than the one that opened it."""

    def __init__(self, path: Path, limits: Limits, num_threads: int | None) -> None:
        self.path, self.limits, self.num_threads = path, limits, num_threads
        self.pid = os.getpid()
        self.num_errors = 0
        self.care = 0
        self.missing: set[int] = set()
        self.reformatter = VideoReformatter()
        self._coming: Iterator[VideoFrame] | None = None
        self._kept: list[Packet[VideoStream]] = []
        self._next_number = 0
        self._open()
        self.declared_size = (self.stream.width, self.stream.height)
        self.pixel_aspect = self.stream.sample_aspect_ratio
        _sessions.add(self)

    def _open(self) -> None:
        self.container: InputContainer = open_container(self.path, self.limits)
        try:
            stream = choose_video(self.container)
            if stream is None:
                raise NoVideoError(self.path, "no video in the file (a cover picture is not one); give a video file")
            check_pixels(self.path, stream, self.limits)
        except MediaError:
            self.container.close()
            raise
        read_only(self.container, stream)
        self.stream: VideoStream = stream
        refuse_larger_pictures(stream, self.limits)
        usual = self.num_threads or (1 if stream.width * stream.height < _PIXELS_WORTH_A_THREAD else 2)
        stream.codec_context.thread_count = _CAREFUL_THREADS.get(self.care, usual)
        stream.codec_context.thread_type = "AUTO"

    def reopen(self) -> None:
        self._coming = None
        self._kept = []
        self.container.close()
        self._open()

    def close(self) -> None:
        self.container.close()

    def build_index(self) -> FrameIndex:
        """Find out which frames there are. Raises NoDecodableFramesError, LimitError."""
        index = index_packets(self._all_packets(), self.container, self.stream, self.path, self.limits)
        if index is None or self._fields_apart(index):
            if index is not None or not self._kept:
                self.reopen()
            packets = chain(self._kept, (self._flush_packet(),)) if self._kept else self.container.demux(self.stream)
            index = index_by_decoding(packets, self.container, self.stream, self.path, self.limits)
        elif 0 < len(index.suspects) <= _MOST_SUSPECTS:
            index = self._without_missing(index)
        return index

    def _all_packets(self) -> Iterator[Packet[VideoStream]]:
        """All packets from the beginning on; if they are few they are kept."""
        kept, num_bytes = cast("list[Packet[VideoStream]]", []), 0
        for packet in self.container.demux(self.stream):
            num_bytes += packet.size + _PACKET_BYTES
            if packet.size and num_bytes <= _KEPT_BYTES:
                kept.append(packet)
            yield packet
        if num_bytes <= _KEPT_BYTES:
            self._kept = kept

    def _fields_apart(self, index: FrameIndex) -> bool:
        """Whether the fields of interlaced H.264 come in packets of their own, so that packets count each frame twice."""
        context = self.stream.codec_context
        if context.codec.canonical_name != "h264" or context.field_order in _NOT_INTERLACED:
            return False
        tried = np.arange(min(len(index), _FRAMES_TRIED))
        num_found = sum(1 for _ in self.frames(index, tried))
        self.missing.clear()
        return num_found <= 0.75 * len(tried)

    def _without_missing(self, index: FrameIndex) -> FrameIndex:
        """Try the frames whose packets look damaged, and take those that do not decode out of the index."""
        self._take_care(1)
        for _ in self.frames(index, index.suspects):
            pass
        gone = sorted(self.missing)
        self.missing.clear()
        if not gone:
            return index
        if len(gone) == len(index):
            raise NoDecodableFramesError(self.path, "no frame of the video can be decoded", stream=self.stream.index)
        warning = f"{counted(len(gone), 'damaged frame')} left out that cannot be decoded"
        times = np.delete(index.times, gone)
        return replace(
            index,
            pts=np.delete(index.pts, gone),
            times=times,
            position=np.delete(index.position, gone),
            end_seconds=index.end_seconds - float(index.times[-1] - times[-1]),
            warnings=(*index.warnings, warning),
        )

    def frames(self, index: FrameIndex, wanted: Sequence[int] | Int64Array) -> Iterator[tuple[int, VideoFrame]]:
        """Yield (frame number, frame) for the `wanted` numbers, which are ascending and distinct.

        A frame that cannot be decoded is left out, and its number put into `missing`.
        """
        numbers = np.asarray(wanted, np.int64)
        if index.kept:
            yield from ((int(number), index.kept[number]) for number in numbers)
        elif not index.by_packets:
            yield from self._counted(index, numbers)
        elif len(numbers):
            if len(index.suspects) and not self.care:
                self._take_care(1)
            for run in plan(index, numbers):
                yield from self._run(index, run)

    def nearest(self, index: FrameIndex, number: int) -> tuple[int, VideoFrame]:
        """The decodable frame nearest to one that is damaged, with its number.

        The search goes from the keyframe before it over everything that a decoder could need, then over the whole file.
        """
        if not index.by_packets:
            raise UnreadableFileError(self.path, f"frame {number} is gone; has the file changed while it was read?")
        keys = index.key_position[index.key_position <= index.position[number]]
        for start in dict.fromkeys((int(keys[-2:][0]), 0)):
            best: tuple[int, VideoFrame] | None = None
            stop = int(index.position[number]) + _LONGEST_DELAY if start else len(index.position) * 2 + _LONGEST_DELAY
            for found, frame in self._decode(index, Run(start, stop, np.empty(0, np.int64)), everything=True):
                if best is None or abs(found - number) < abs(best[0] - number):
                    best = found, frame
                elif found > number:
                    break
            if best is not None:
                return best
        raise NoDecodableFramesError(self.path, "no frame of the video can be decoded", stream=self.stream.index)

    def _counted(self, index: FrameIndex, numbers: Int64Array) -> Iterator[tuple[int, VideoFrame]]:
        """Frames by count: onwards from where the last call ended, or from a keyframe, whichever decodes less."""
        for number in numbers.tolist():
            key = int(np.searchsorted(index.key_frame, number, side="right")) - 1
            first, start = (int(index.key_frame[key]), int(index.key_position[key])) if key >= 0 else (0, 0)
            if self._coming is None or not first - _PACKETS_WORTH_A_SEEK <= self._next_number <= number:
                self._coming, self._next_number = self._all_from(start), first
            frame = None
            while self._next_number <= number:
                frame, self._next_number = next(self._coming, None), self._next_number + 1
            if frame is None:
                self.missing.add(number)
            else:
                yield number, frame

    def _all_from(self, start: int) -> Iterator[VideoFrame]:
        """All frames from the packet at `start` on. Packets before it are read, not decoded: times tell no place here."""
        self.reopen()
        packets = self.container.demux(self.stream)
        for _ in range(start):
            next((packet for packet in packets if packet.size), None)
        frames = (frame for some in decoded(packets) for frame in some or ())
        return dropwhile(lambda frame: not is_intra(frame), frames) if start else frames

    def _run(self, index: FrameIndex, run: Run) -> Iterator[tuple[int, VideoFrame]]:
        """Decode one run: again and carefully at the first sign of damage, and from an earlier keyframe if its first
        wanted frame does not come out (where decoding can start, but is right only some frames later: intra refresh).
        """
        before = index.key_position[index.key_position < run.start]
        starts = list(dict.fromkeys((run.start, *before[-1:].tolist(), *before[:1].tolist())))
        left, last = set(run.wanted.tolist()), -1
        while left and starts:
            start, errors = starts.pop(0), self.num_errors
            for number, frame in self._decode(index, replace(run, start=start)):
                not_yet_right = bool(starts) and last < 0 and number != run.wanted[0]
                if not_yet_right or (self.num_errors > errors and self.care == 0):
                    break
                if number > last:
                    last = number
                    left.discard(number)
                    yield number, frame
            cut_off = any(number > last for number in left)
            if self.num_errors > errors and (self.care == 0 or (self.care == 1 and cut_off)):
                self._take_care(self.care + 1)
                starts.insert(0, start)
            elif last >= 0:
                break
        self.missing.update(left)

    def _take_care(self, care: int) -> None:
        """Decode differently now that there is damage.

        1: What comes after damage depends on all that was decoded before it, and on the number of threads: leave no frame
        out, and take as many threads as the ffmpeg program does at the least. 2: An error among the frames that a threaded
        decoder holds back at the end takes the good ones with it: one thread, which holds none back.
        """
        self.care, self.num_errors = care, 0
        self.reopen()

    def _decode(self, index: FrameIndex, run: Run, everything: bool = False) -> Iterator[tuple[int, VideoFrame]]:
        context = self.stream.codec_context
        droppable = not (everything or self.care) and context.codec.canonical_name in _DROPPABLE
        positions = frozenset(index.position[run.wanted].tolist())
        wanted = frozenset(index.pts[run.wanted].tolist())
        packets = self._packets_from(index, run.start)
        context.flush_buffers()

        def fed() -> Iterator[Packet[VideoStream]]:
            for position, packet in packets:
                if position >= run.stop:
                    break
                context.skip_frame = "NONREF" if droppable and position not in positions else "DEFAULT"
                yield self._with_preamble(index, packet) if position == run.start > 0 else packet
            yield self._flush_packet()

        for frames in decoded(fed()):
            if frames is None:
                self.num_errors += 1
                continue
            for frame in frames:
                if frame.pts in wanted or everything:
                    number = int(np.searchsorted(index.pts, cast(int, frame.pts)))
                    if number < len(index) and index.pts[number] == frame.pts:
                        yield number, frame

    def _with_preamble(self, index: FrameIndex, packet: Packet[VideoStream]) -> Packet[VideoStream]:
        if not index.preamble or packet.has_sidedata("new_extradata"):
            return packet
        whole = cast("Packet[VideoStream]", Packet(index.preamble + bytes(packet)))
        whole.stream, whole.time_base, whole.is_keyframe = self.stream, packet.time_base, True
        whole.pts, whole.dts = packet.pts, packet.dts
        return whole

    def _flush_packet(self) -> Packet[VideoStream]:
        """An empty packet: it makes the decoder put out all frames that it holds back."""
        packet = cast("Packet[VideoStream]", Packet())
        packet.stream = self.stream
        return packet

    def _packets_from(self, index: FrameIndex, start: int) -> Iterator[tuple[int, Packet[VideoStream]]]:
        """Packets with their places, from `start` (a keyframe's) on, wherever the demuxer lands on seeking."""
        if self._kept:
            return zip(count(start), self._kept[start:], strict=False)
        which = int(np.searchsorted(index.key_position, start))
        pts, dts = int(index.key_pts[which]), int(index.key_dts[which])
        for stamp in dict.fromkeys((pts, dts if abs(dts) < 1 << 62 else pts)):
            try:
                self.container.seek(stamp, stream=self.stream)
                packets = self._sized_packets()
                for packet in packets:
                    if packet.is_keyframe and packet.pts is not None and packet.pts >= pts:
                        if packet.pts == pts:
                            return zip(count(start), chain((packet,), packets))
                        break
            except av.error.FFmpegError:
                continue
        self.reopen()
        return ((place, packet) for place, packet in enumerate(self._sized_packets()) if place >= start)

    def _sized_packets(self) -> Iterator[Packet[VideoStream]]:
        packets = self.container.demux(self.stream)
        return (packet for packet in packets if packet.size)


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _abandon_sessions() -> None:
    """In a forked child: never let go of a parent's decoder, for freeing it would wait for threads that are not here."""
    for session in list(_sessions):
        for held in (session.container, session.stream, session.stream.codec_context):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))
    _sessions.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_sessions)
