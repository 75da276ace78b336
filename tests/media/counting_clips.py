"""Clips made with PyAV whose frames carry their own number, as shared/bug-cases.md describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

WIDTH, HEIGHT, RATE, NUM_FRAMES = 320, 240, 25, 200


def picture(number: int) -> np.ndarray:
    """Eight columns, white where the bit of the frame's number is one; lowest bit on the left."""
    bits = (number >> np.arange(8)) & 1
    return np.broadcast_to(np.repeat(bits * 255, WIDTH // 8).astype(np.uint8), (HEIGHT, WIDTH)).copy()


def ids(rgb: np.ndarray) -> list[int]:
    """Frame numbers read back from the pictures (time, height, width, 3)."""
    width = rgb.shape[2] // 8
    rows = rgb[:, rgb.shape[1] // 2, width // 2 :: width, 1]
    return [int(sum(int(value > 127) << bit for bit, value in enumerate(row))) for row in rows]


def encode(
    path: Path,
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    pixel_format: str = "yuv420p",
    numbers: Iterable[int] = range(NUM_FRAMES),
    sound: str | None = None,
    max_b_frames: int | None = None,
    tag: str | None = None,
    scale: int = 1,
    steps: Sequence[int] | None = None,
) -> Path:
    """Write the numbered pictures, `scale` times as large, with a sine of 440 Hz of the same length if an audio codec is named.

    steps: when each frame is shown, in frames of 1 / RATE seconds (default: one after the other).
    """
    numbers = list(numbers)
    with av.open(str(path), "w") as container:
        video = container.add_stream(codec, rate=RATE, options=options or {})
        video.width, video.height, video.pix_fmt = WIDTH * scale, HEIGHT * scale, pixel_format
        if max_b_frames is not None:
            video.codec_context.max_b_frames = max_b_frames
        if tag is not None:
            video.codec_context.codec_tag = tag
        audio = container.add_stream(sound, rate=48000, layout="mono") if sound else None
        for place, number in enumerate(numbers):
            frame = av.VideoFrame.from_ndarray(picture(number), "gray").reformat(video.width, video.height, pixel_format)
            frame.pts, frame.time_base = place if steps is None else steps[place], Fraction(1, RATE)
            container.mux(video.encode(frame))
        container.mux(video.encode())
        if audio is not None:
            wave = np.sin(np.arange(48000 * len(numbers) // RATE) * 2 * np.pi * 440 / 48000).astype(np.float32)
            frame = av.AudioFrame.from_ndarray(wave[None], "fltp", "mono")
            frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
            resampler = av.AudioResampler(audio.codec_context.format, "mono", 48000, audio.codec_context.frame_size or None)
            for piece in (*resampler.resample(frame), *resampler.resample(None)):
                container.mux(audio.encode(piece))
            container.mux(audio.encode())
    return path


def copy_packets(
    source: Path, path: Path, *, shift_seconds: float = 0, times: int = 1, prepare: Callable[[object], None] | None = None
) -> Path:
    """Remux the video of a clip, later by `shift_seconds`, `times` times over."""
    with av.open(str(path), "w") as target:
        output = None
        length = 0
        for turn in range(times):
            with av.open(str(source)) as container:
                stream = container.streams.video[0]
                if output is None:
                    output = target.add_stream_from_template(stream)
                    if prepare is not None:
                        prepare(output)
                length = int(NUM_FRAMES / RATE / stream.time_base)
                shift = int(shift_seconds / stream.time_base) + turn * length
                for packet in container.demux(stream):
                    if packet.size:
                        packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, output
                        target.mux(packet)
    return path


def cut_by_edit_list(source: Path, path: Path, num_frames: int) -> Path:
    """A copy of an MP4 whose edit list leaves out the first frames, which stay in the file."""
    data = bytearray(source.read_bytes())
    entry = data.index(b"elst") + 12
    with av.open(str(source)) as container:
        frame_length = container.streams.video[0].time_base.denominator // RATE
    length = int.from_bytes(data[entry : entry + 4], "big")
    media_time = int.from_bytes(data[entry + 4 : entry + 8], "big")
    data[entry : entry + 4] = (length - num_frames * 1000 // RATE).to_bytes(4, "big")
    data[entry + 4 : entry + 8] = (media_time + num_frames * frame_length).to_bytes(4, "big")
    path.write_bytes(data)
    return path


def gray(path: Path, value: int, full_range: bool) -> Path:
    """One second of one grey, with the colour range flagged."""
    luma = value if full_range else round(16 + value * 219 / 255)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuvj420p" if full_range else "yuv420p"
        stream.codec_context.color_range, stream.codec_context.colorspace = 2 if full_range else 1, 1
        planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
        planes[:HEIGHT] = luma
        for place in range(RATE):
            frame = av.VideoFrame.from_ndarray(planes, stream.pix_fmt)
            frame.color_range, frame.colorspace = stream.codec_context.color_range, 1
            frame.pts, frame.time_base = place, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


class _Bits:
    """Bits of an H.264 NAL unit (ISO/IEC 14496-10, 7.3)."""

    def __init__(self, *fields: tuple[str, int] | tuple[str, int, int]) -> None:
        self.text = ""
        for kind, value, *width in fields:
            self.text += f"{value:0{width[0]}b}" if kind == "u" else "0" * ((value + 1).bit_length() - 1) + f"{value + 1:b}"

    def unit(self, header: int) -> bytes:
        text = self.text + "1"
        text += "0" * (-len(text) % 8)
        return b"\0\0\0\1" + bytes([header]) + int(text, 2).to_bytes(len(text) // 8, "big")


def field_pairs(path: Path, num_frames: int) -> Path:
    """H.264 of 32x32 pixels whose fields are pictures of their own, in a packet each: frame i is of luma 16 + 4 i or so.

    No encoder at hand writes such streams. Every macroblock is stored uncompressed (I_PCM).
    """
    sps = [("u", 77, 8), ("u", 0, 8), ("u", 30, 8), ("e", 0), ("e", 0), ("e", 2), ("e", 1), ("u", 0, 1)]
    sps += [("e", 1), ("e", 0), ("u", 0b00100, 5)]
    pps = [("e", 0), ("e", 0), ("u", 0, 2), ("e", 0), ("e", 0), ("e", 0), ("u", 0, 3), ("e", 0), ("e", 0), ("e", 0), ("u", 0, 3)]
    head = _Bits(*sps).unit(0x67) + _Bits(*pps).unit(0x68)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        stream.codec_context.extradata = head
        container.start_encoding()
        for number in range(num_frames):
            for bottom in (0, 1):
                bits = _Bits(("e", 0), ("e", 7), ("e", 0), ("u", 0, 4), ("u", 1, 1), ("u", bottom, 1))
                bits.text += _Bits(*([("u", 0, 1), ("e", 0)] if bottom else [("e", number % 2), ("u", 0, 2), ("e", 0)])).text
                for _ in range(2):
                    bits.text += _Bits(("e", 25)).text
                    bits.text += "0" * (-len(bits.text) % 8)
                    bits.text += f"{_luma(number):08b}" * 256 + f"{128:08b}" * 128
                packet = av.Packet((b"" if bottom else head) + bits.unit(0x61 if bottom else 0x65))
                packet.pts = packet.dts = 2 * number + bottom
                packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 2 * RATE), not bottom
                container.mux(packet)
    return path


def _luma(number: int) -> int:
    """What becomes a grey of 4 * (number + 10) + 2."""
    return round(16 + (4 * (number + 10) + 2) * 219 / 255)
