"""Media files to frames, sound and timed words. NumPy in and out, no model in sight.

`probe` says what is in a file, `VideoReader` gives its frames, `read_sound` its sound, `read_subtitles` its words.
"""

from __future__ import annotations

from watchword.media.errors import MediaError
from watchword.media.frames import Frame, Frames, VideoReader, uniform_indices
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.probe import AudioInfo, MediaInfo, SubtitleInfo, VideoInfo, probe
from watchword.media.sound import Sound, iter_sound, read_sound
from watchword.media.subtitles import Subtitles, read_subtitles

__all__ = [
    "DEFAULT_LIMITS",
    "AudioInfo",
    "Frame",
    "Frames",
    "Limits",
    "MediaError",
    "MediaInfo",
    "Sound",
    "SubtitleInfo",
    "Subtitles",
    "VideoInfo",
    "VideoReader",
    "iter_sound",
    "probe",
    "read_sound",
    "read_subtitles",
    "uniform_indices",
]
