"""Small records, valid in every part."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from watchword.reserve import spectrogram as sp
from watchword.reserve.records import Record, RecordSegment, RecordVideo


def as_file(pixels: np.ndarray, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format=format, **options)
    return out.getvalue()


def segment(number: int, video: str = "a", index: int = 0, **changes: Any) -> RecordSegment:
    draw = np.random.default_rng(number)
    magic, levels = sp.quantise(draw.random((sp.SEGMENT_HOPS, sp.NUM_BANDS)) * 8)
    frame = np.full((12, 20, 3), 16 * number % 256, np.uint8)
    made = RecordSegment(
        video_id=video,
        video_src_index=index,
        playback_speed=1,
        start_time=5.0 * number,
        end_time=5.0 * number + 5,
        tokens=(300 + number, 301, 302),
        token_starts=(0.0, 1.5, 3.25),
        token_ends=(1.5, 3.25, 5.1),
        width=20,
        height=12,
        magic_number=magic,
        frame=as_file(frame, "JPEG"),
        spectrogram=as_file(levels, "PNG"),
    )
    return replace(made, **changes)


def record(key: str = "train00000_000", *, num_segments: int = 4, web_text: bool = True, seed: int = 0) -> Record:
    """Its first half is of video a, the other of video b."""
    half = num_segments // 2
    segments = [segment(seed + i) if i < half else segment(seed + i, "b", 1) for i in range(num_segments)]
    videos = (RecordVideo((400, 401), (402,), (403,), {"channel": "Größe", "views": 7}), RecordVideo((500,)))
    text = np.arange(1000, 1020, dtype=np.int32).reshape(2, 10) if web_text else None
    return Record(key, tuple(segments), videos, text)
