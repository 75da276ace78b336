"""Looking into packets: which are damaged, which show a frame, which are keyframes, without decoding them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from av.packet import Packet
from av.video.stream import VideoStream

_H264_SEI, _H264_SEI_USER_DATA = 6, 5
_START_CODE = re.compile(re.escape(b"\0\0\1"))


def _yes(packet: Packet[VideoStream]) -> bool:
    return True


@dataclass(frozen=True)
class PacketTests:
    """What can be told of one codec's packets. is_shown: it puts out a frame. is_key, for one flagged as a keyframe: it
    is one. is_whole: its parts fill it exactly."""

    is_shown: Callable[[Packet[VideoStream]], bool] = _yes
    is_key: Callable[[Packet[VideoStream]], bool] = _yes
    is_whole: Callable[[Packet[VideoStream]], bool] = _yes


def packet_tests(stream: VideoStream) -> PacketTests:
    """The tests for a stream."""
    codec = stream.codec_context.codec.canonical_name
    if codec in ("h264", "hevc"):
        width = _length_bytes(codec, stream.codec_context.extradata or b"")
        return PacketTests(is_whole=lambda packet: _nal_units_fill(memoryview(packet), width)) if width else PacketTests()
    if codec == "vp9":
        return PacketTests(is_shown=_vp9_shown)
    if codec == "vp8":
        return PacketTests(is_shown=lambda packet: bool(memoryview(packet)[0] & 0x10))
    if codec == "mpeg4":
        return PacketTests(is_key=_mpeg4_key)
    return PacketTests()


def _length_bytes(codec: str, extradata: bytes) -> int:
    """Bytes of the length before each NAL unit (ISO/IEC 14496-15); 0 for start codes instead of lengths."""
    if extradata[:1] != b"\1":
        return 0
    place = 4 if codec == "h264" else 21
    return (extradata[place] & 3) + 1 if len(extradata) > place else 0


def _nal_units_fill(data: memoryview, width: int) -> bool:
    position, end = 0, len(data)
    while position + width <= end:
        position += width + int.from_bytes(data[position : position + width], "big")
    return position == end


def encoder_notes(stream: VideoStream, first_packet: bytes) -> bytes:
    """The encoder's notes to the decoder that stand only at the beginning of an H.264 stream (SEI user data).

    FFmpeg's decoder reads from them which x264 made the stream and decodes 4:4:4 of old versions as those meant it; a
    decoder that starts later than at the first packet must hear of it too, or it gives other pictures.
    """
    if stream.codec_context.codec.canonical_name != "h264":
        return b""
    width = _length_bytes("h264", stream.codec_context.extradata or b"")
    notes = b""
    for unit in _split(first_packet, width):
        if len(unit) > 1 and unit[0] & 31 == _H264_SEI and unit[1] == _H264_SEI_USER_DATA:
            notes += (len(unit).to_bytes(width, "big") if width else b"\0\0\0\1") + unit
    return notes


def _split(data: bytes, width: int) -> list[bytes]:
    if not width:
        starts = [match.end() for match in _START_CODE.finditer(data)]
        return [data[a : b - 3] for a, b in zip(starts, [*starts[1:], len(data) + 3], strict=True)]
    units, position = [], 0
    while position + width < len(data):
        size = int.from_bytes(data[position : position + width], "big")
        units.append(data[position + width : position + width + size])
        position += width + size
    return units


def _mpeg4_key(packet: Packet[VideoStream]) -> bool:
    """The first VOP is an I-VOP (ISO/IEC 14496-2, 6.2.5): indexes of AVI files flag others too."""
    data = bytes(packet)
    start = data.find(b"\0\0\1\xb6")
    return 0 <= start < len(data) - 4 and data[start + 4] >> 6 == 0


def _vp9_shown(packet: Packet[VideoStream]) -> bool:
    """Some frame of the packet is shown (VP9 bitstream specification 0.6, 6.2 and annex B)."""
    data = memoryview(packet)
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
