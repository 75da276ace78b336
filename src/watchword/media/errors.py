"""What can be wrong with a media file, one class a reason, so that a caller can tell them apart without reading the text."""

from __future__ import annotations

import os
from typing import ClassVar

from watchword.errors import WatchwordError


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path as it may stand in a one-line message: quoted, with newlines and other controls escaped."""
    return repr(os.fspath(path))


class MediaError(WatchwordError):
    """A media file, or a part of it, that cannot be used.

    `reason` is a fixed word for reports; `path`, `stream` (index within the file) and `time_seconds` say where, as far as known.
    """

    reason: ClassVar[str] = "unreadable"

    def __init__(
        self,
        path: str | os.PathLike[str],
        message: str,
        *,
        stream: int | None = None,
        time_seconds: float | None = None,
    ) -> None:
        where = "" if stream is None else f", stream {stream}"
        where += "" if time_seconds is None else f", at {time_seconds:.3f} s"
        super().__init__(f"{shown_path(path)}{where}: {message}")
        self.path = os.fspath(path)
        self.message = message
        self.stream = stream
        self.time_seconds = time_seconds

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.path, self.message, self.stream, self.time_seconds)


def _rebuild(kind: type[MediaError], path: str, message: str, stream: int | None, time_seconds: float | None) -> MediaError:
    return kind(path, message, stream=stream, time_seconds=time_seconds)


class MissingFileError(MediaError):
    """There is nothing at the path, or a link that leads nowhere."""

    reason = "missing_file"


class NotAFileError(MediaError):
    """The path is a directory, a FIFO, a device or a socket. Such a path is never opened."""

    reason = "not_a_file"


class UnreadableFileError(MediaError):
    """The operating system refuses to read the file (permissions, a failing disk)."""

    reason = "not_permitted"


class EmptyFileError(MediaError):
    """The file has no bytes."""

    reason = "empty_file"


class NotMediaError(MediaError):
    """The bytes are of no media format that FFmpeg knows."""

    reason = "not_media"


class NoMoovError(NotMediaError):
    """An MP4 whose index (the `moov` box) is missing: the file was cut, or its recording or download never ended."""

    reason = "no_moov"


class NoVideoError(MediaError):
    """No video stream. An attached picture (cover art) is not one."""

    reason = "no_video"


class NoAudioError(MediaError):
    """No audio stream."""

    reason = "no_audio"


class NoSubtitlesError(MediaError):
    """No subtitle stream, or nothing in a subtitle file that can be read as a cue."""

    reason = "no_subtitles"


class NoDecoderError(MediaError):
    """The stream's codec has no decoder in this build of FFmpeg."""

    reason = "no_decoder"


class NoDecodableFramesError(MediaError):
    """There is a stream, but not one frame of it can be decoded."""

    reason = "no_decodable_frames"


class LimitError(MediaError):
    """The file is larger, longer or has more pixels than `watchword.media.Limits` allows."""

    reason = "limit"
