"""Small videos with sound at stated times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

RATE = 22050


def sine(frequency: float, seconds: float, amplitude: float = 0.5) -> np.ndarray:
    return (amplitude * np.sin(2 * np.pi * frequency * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def write_clip(
    path: Path, *, seconds: float, sounds: dict[float, np.ndarray] | None = None, fps: int = 5, bars: int = 0, steps: int = 1
) -> Path:
    """Grey video of 64x48 that brightens by one level a frame, `bars` black rows above and below; sounds begin at the keys, in seconds.

    Sound is stored as 16-bit samples, so it comes back as it was. steps: a frame is shown so many times as long.
    """
    with av.open(str(path), "w", format="matroska") as container:
        video = container.add_stream("ffv1", rate=fps, width=64, height=48, pix_fmt="yuv420p")
        audio = container.add_stream("pcm_s16le", rate=RATE, layout="mono") if sounds is not None else None
        for number in range(0, round(seconds * fps), steps):
            picture = np.zeros((48, 64, 3), np.uint8)
            picture[bars : 48 - bars] = 80 + number % 100
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for start, samples in (sounds or {}).items():
            data = np.round(samples * 32767).astype(np.int16)
            for first in range(0, len(data), 1024):
                piece = av.AudioFrame.from_ndarray(np.ascontiguousarray(data[None, first : first + 1024]), format="s16", layout="mono")
                piece.sample_rate, piece.pts, piece.time_base = RATE, round(start * RATE) + first, Fraction(1, RATE)
                container.mux(audio.encode(piece))
        if audio is not None:
            container.mux(audio.encode(None))
    return path
