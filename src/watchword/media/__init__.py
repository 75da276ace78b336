"""Media files to frames, sound and timed words. NumPy in and out, no model in sight.

`probe` says what is in a file, `VideoReader` gives its frames, `read_sound` its sound, `read_subtitles` its words.
"""

from __future__ import annotations

from typing import Any

from watchword.media.errors import MediaError
from watchword.media.frames import Frame, Frames, VideoReader, uniform_indices
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.probe import AudioInfo, MediaInfo, SubtitleInfo, VideoInfo, probe

__all__ = [
    "DEFAULT_LIMITS",
    "AudioInfo",
    "Frame",
    "Frames",
    "Limits",
    "MediaError",
    "MediaInfo",
    "SubtitleInfo",
    "VideoInfo",
    "VideoReader",
    "probe",
    "uniform_indices",
]


def __getattr__(name: str) -> Any:
    if name in ("read_sound", "Sound"):
        from watchword.media import sound

        return getattr(sound, name)
    if name in ("read_subtitles", "Subtitles"):
        from watchword.media import subtitles

        return getattr(subtitles, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
