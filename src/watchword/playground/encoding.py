"""Pictures and sound to MP4 files, and folders of them that can be filled in several runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from watchword.errors import InputError
from watchword.files import write_text
from watchword.playground.sound import SOUND_RATE

Part = tuple[NDArray[np.uint8], NDArray[np.float32]]
"""Frames (times, size, size, 3) and the sound that goes with them, (samples,) at `SOUND_RATE`."""


def check_size(size: int) -> None:
    """Raises InputError for a side that H.264 cannot have, or in which nothing could be seen."""
    if size % 2 or size < 16:
        raise InputError(f"a clip cannot be {size} pixels wide: use an even size of at least 16")


def encode(path: Path, parts: Iterable[Part], *, size: int, fps: float) -> None:
    """Write an MP4 (H.264 yuv420p, AAC mono) of parts that follow each other; one part is in memory at a time."""
    rate = Fraction(fps).limit_denominator(1001)
    num_frames = num_samples = 0
    with av.open(str(path), "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=rate, options={"crf": "20", "preset": "veryfast"})
        video.width = video.height = size
        video.pix_fmt = "yuv420p"
        video.codec_context.thread_count = 1
        audio = container.add_stream("aac", rate=SOUND_RATE, layout="mono")
        for frames, samples in parts:
            for rgb in frames:
                frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
                frame.pts, frame.time_base = num_frames, 1 / rate
                container.mux(video.encode(frame))
                num_frames += 1
            sound = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = SOUND_RATE, num_samples, Fraction(1, SOUND_RATE)
            container.mux(audio.encode(sound))
            num_samples += len(samples)
        container.mux(video.encode())
        container.mux(audio.encode())


def claim(path: Path, truth: Sequence[dict[str, Any]]) -> None:
    """Write the truth about a folder's videos, a line each, before the videos.

    Raises InputError if the folder already tells another truth.
    """
    lines = [json.dumps(known) for known in truth]
    if path.exists():
        old = path.read_text(encoding="utf-8").splitlines()
        if any(one != other for one, other in zip(old, lines, strict=False)):
            raise InputError(f"{path.parent} holds videos made with other settings: choose another folder or empty it")
    write_text(path, "".join(f"{line}\n" for line in lines))
