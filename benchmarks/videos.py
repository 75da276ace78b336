"""Video files for the benchmarks: numbered frames, long files made of repeated packets, and the shared clips."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

__all__ = ["find_clips", "frame_numbers", "write_numbered", "write_repeated"]

NUM_BITS = 16
SOUND_RATE = 22_050
BAND_SHARE = 16  # the numbers stand in the upper sixteenth of the picture
SUFFIXES = {".mp4", ".mkv", ".webm", ".avi", ".gif", ".mov"}
UInt8 = npt.NDArray[np.uint8]


def find_clips() -> list[Path]:
    """The files of ``clips`` in $WATCHWORD_MEDIA (default: ``shared/media`` beside the repository); none if there is no such folder."""
    root = Path(os.environ.get("WATCHWORD_MEDIA") or Path(__file__).resolve().parents[2] / "shared" / "media")
    return sorted(path for path in root.glob("clips/*") if path.suffix in SUFFIXES)


def write_numbered(
    path: Path,
    *,
    num_frames: int,
    width: int,
    height: int,
    frames_per_second: int,
    keyframe_every: int,
    preset: str = "veryfast",
    sound: bool = False,
) -> None:
    """An H.264 file with B-frames and keyframes only every so many frames, each showing its own number.

    The number stands as bits, lowest on the left, white for 1, above a texture that moves and carries noise, so that decoding costs
    about what natural pictures cost. ``sound`` is a hum in AAC.
    """
    options = {"preset": preset, "crf": "23", "sc_threshold": "0", "bf": "3", "g": str(keyframe_every), "keyint_min": str(keyframe_every)}
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=frames_per_second, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        hum = container.add_stream("aac", rate=SOUND_RATE, layout="mono") if sound else None
        for planes in _pictures(num_frames, width, height):
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if hum is not None:
            wave = 0.1 * np.sin(2 * np.pi * 220 * np.arange(num_frames * SOUND_RATE // frames_per_second) / SOUND_RATE)
            samples = av.AudioFrame.from_ndarray(wave[None].astype(np.float32), format="fltp", layout="mono")
            samples.sample_rate = SOUND_RATE
            container.mux([*hum.encode(samples), *hum.encode(None)])


def _pictures(num_frames: int, width: int, height: int) -> Iterator[UInt8]:
    """YUV 4:2:0 planes below one another, (height * 3 / 2, width); the height is a multiple of 4, the width of 16."""
    random = np.random.default_rng(0)
    reach = 256
    texture = sum(_smooth_noise(random, height + reach, width + reach, cell) for cell in (128, 32, 8))
    texture = (128 + 25 * texture).clip(16, 235).astype(np.uint8)
    chroma = (128 + 40 * _smooth_noise(random, (height + reach) // 2, (width + reach) // 2, 32)).clip(16, 240).astype(np.uint8)
    grain = random.integers(0, 6, (8, height, width), dtype=np.uint8)
    band, column = height // BAND_SHARE, width // NUM_BITS
    for number in range(num_frames):
        x, y = (round(reach / 2 * (1 + wave(number / 40))) for wave in (np.sin, np.cos))
        luma = texture[y : y + height, x : x + width] + grain[number % len(grain)]
        bits = (number >> np.arange(NUM_BITS)) & 1
        luma[:band] = np.repeat(np.where(bits, 235, 16).astype(np.uint8), column)
        blue = chroma[y // 2 : y // 2 + height // 2, x // 2 : x // 2 + width // 2]
        yield np.concatenate([luma, blue.reshape(-1, width), (255 - blue).reshape(-1, width)])


def _smooth_noise(random: np.random.Generator, height: int, width: int, cell: int) -> npt.NDArray[np.float32]:
    """Noise about one ``cell`` of pixels coarse: random corners, interpolated between."""
    corners = random.standard_normal((height // cell + 2, width // cell + 2)).astype(np.float32)
    y, x = np.arange(height) / cell, np.arange(width) / cell
    i, j = y.astype(int), x.astype(int)
    v, u = (y - i)[:, None].astype(np.float32), (x - j)[None].astype(np.float32)
    upper = corners[i][:, j] * (1 - u) + corners[i][:, j + 1] * u
    lower = corners[i + 1][:, j] * (1 - u) + corners[i + 1][:, j + 1] * u
    noise: npt.NDArray[np.float32] = upper * (1 - v) + lower * v
    return noise


def frame_numbers(frames: Iterable[UInt8]) -> list[int]:
    """Read the numbers back from RGB frames (height, width, 3) of any size."""
    numbers = []
    for frame in frames:
        height, width = frame.shape[:2]
        row = frame[height // (2 * BAND_SHARE)].mean(axis=-1)
        bits = row[((np.arange(NUM_BITS) + 0.5) * width / NUM_BITS).astype(int)] > 127
        numbers.append(int((bits.astype(int) << np.arange(NUM_BITS)).sum()))
    return numbers


def write_repeated(piece: Path, path: Path, times: int) -> None:
    """A file that plays ``piece`` so many times: its packets with later times, nothing encoded anew."""
    with av.open(piece) as source, av.open(path, "w") as target:
        copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        packets = [(bytes(packet), packet) for packet in source.demux() if packet.size]
        seconds = max(float((packet.pts + packet.duration) * packet.time_base) for _, packet in packets)
        for round_number in range(times):
            for data, original in packets:
                unit: Fraction = original.time_base
                shift = round(round_number * seconds / unit)
                packet = av.Packet(data)
                packet.stream, packet.time_base, packet.is_keyframe = copies[original.stream.index], unit, original.is_keyframe
                packet.pts, packet.dts, packet.duration = original.pts + shift, original.dts + shift, original.duration
                target.mux(packet)
