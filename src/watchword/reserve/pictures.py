"""Frames and spectrograms as the picture files in which records keep them. Source: merlot-reserve-data spec sections 7 and 8."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from ..media import VideoReader
from .images import BlackBars, stored_size
from .spectrogram import quantise

__all__ = ["StoredFrame", "store_frame", "store_spectrogram", "stored_frames"]

_FRAMES_AT_ONCE = 8
_MAX_KEPT_BYTES = 256 << 20
_SPECTROGRAM_JPEG_QUALITY = 95

UInt8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class StoredFrame:
    """A frame as a JPEG file of `width` x `height` pixels."""

    width: int
    height: int
    jpeg: bytes


def stored_frames(reader: VideoReader, numbers: npt.NDArray[np.int64], *, short: int, long: int, quality: int) -> list[StoredFrame]:
    """The frames of these numbers without the black bars that all of them share, in the size for storage (`images.stored_size`).

    The bars are known only when all frames have been seen. Up to 256 MB of frames are kept until then; more are decoded twice.
    """
    bars, kept, num_bytes = BlackBars(), dict[int, UInt8](), 0
    for low in range(0, len(numbers), _FRAMES_AT_ONCE):
        frames = reader.read(numbers[low : low + _FRAMES_AT_ONCE]).rgb
        bars.see(frames)
        num_bytes += frames.nbytes
        if num_bytes <= _MAX_KEPT_BYTES:
            kept.update(enumerate(frames, low))
    box, stored = bars.box(), []
    for low in range(0, len(numbers), _FRAMES_AT_ONCE):
        places = range(low, min(low + _FRAMES_AT_ONCE, len(numbers)))
        frames_again = [kept.pop(place) for place in places] if low in kept else list(reader.read(numbers[places.start : places.stop]).rgb)
        stored += [store_frame(box.of(frame), short=short, long=long, quality=quality) for frame in frames_again]
    return stored


def store_frame(frame: UInt8, *, short: int = 288, long: int = 512, quality: int = 75) -> StoredFrame:
    """A (height, width, 3) frame as a file, made smaller if it is larger than `short` and `long` pixels."""
    height, width = frame.shape[:2]
    size = stored_size(width, height, short=short, long=long)
    picture = Image.fromarray(np.ascontiguousarray(frame))
    if size != (width, height):
        picture = picture.resize(size, Image.Resampling.BICUBIC)
    return StoredFrame(*size, _file(picture, "JPEG", quality=quality, optimize=True))


def store_spectrogram(log_mel: npt.NDArray[np.float32], format: Literal["png", "jpeg"] = "png") -> tuple[float, bytes]:
    """(magic number, file) of a (188, 64) log-mel spectrogram."""
    magic, levels = quantise(log_mel)
    picture = Image.fromarray(np.ascontiguousarray(levels))
    return magic, _file(picture, "PNG") if format == "png" else _file(picture, "JPEG", quality=_SPECTROGRAM_JPEG_QUALITY)


def _file(picture: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, format=format, **options)
    return out.getvalue()
