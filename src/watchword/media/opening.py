"""Opening media files safely: only regular files, by content and never by name."""

from __future__ import annotations

import os
import re
import stat

import av
import av.error
from av.container import InputContainer

from watchword.media.errors import (
    EmptyFileError,
    LimitError,
    MediaError,
    MissingFileError,
    NoMoovError,
    NotAFileError,
    NotMediaError,
    UnreadableFileError,
)
from watchword.media.limits import DEFAULT_LIMITS, Limits

Path = str | os.PathLike[str]

URL_PROBLEM = "URLs are not fetched; download the file and give its path"
_MP4_BOXES = {b"moov", b"ftyp", b"mdat", b"free", b"skip", b"wide", b"moof", b"pnot", b"styp", b"sidx", b"uuid"}


def open_file(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Open a regular file for reading and return (descriptor, size in bytes). Anything else than a file is not opened.

    Raises:
        MissingFileError, NotAFileError, UnreadableFileError, EmptyFileError, LimitError
    """
    try:
        _require_file(path, os.stat(path))
        # O_NONBLOCK: should the path have become a FIFO meanwhile, opening it must not wait for a writer.
        flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, os.O_RDONLY | flags)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(path, _why_missing(path)) from None
    except ValueError:
        raise MissingFileError(path, "no file can have this name; check the path") from None
    except OSError as error:
        raise UnreadableFileError(path, f"cannot be opened: {error.strerror}") from None
    status = os.fstat(descriptor)
    try:
        _require_file(path, status)
        if status.st_size == 0:
            raise EmptyFileError(path, "the file is empty (0 bytes); fetch or record it again")
        if status.st_size > limits.max_bytes:
            raise LimitError(path, f"{status.st_size} bytes, more than Limits.max_bytes = {limits.max_bytes}; raise it")
    except MediaError:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def is_url(path: Path) -> bool:
    """Whether a path that leads to nothing was meant as a URL; one that was a `pathlib.Path` has lost a slash."""
    return re.match(r"[a-z][a-z0-9+.-]+:/", os.fsdecode(path), re.IGNORECASE) is not None and not os.path.lexists(path)


def _why_missing(path: Path) -> str:
    if is_url(path):
        return URL_PROBLEM
    found = "a link that leads nowhere" if os.path.islink(path) else "no such file"
    return f"{found}; check the path"


def _require_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file (FIFO, socket or device)"
        raise NotAFileError(path, f"is {kind}; give a video file")


def open_container(path: Path, limits: Limits = DEFAULT_LIMITS) -> InputContainer:
    """Open a media file with PyAV, by content and never by name. The caller closes it.

    FFmpeg is handed an open descriptor, so no name can mean a protocol, a pattern or an option to it; and the only
    protocol it may use is that one, so a playlist inside the file cannot make it open anything else.

    Raises:
        those of `open_file`, NotMediaError, NoMoovError, UnreadableFileError
    """
    descriptor, _ = open_file(path, limits)
    options = {"fd": str(descriptor), "protocol_whitelist": "fd", "max_pixels": str(limits.max_pixels)}
    try:
        return av.open("fd:", "r", options=options, metadata_errors="ignore")
    except av.error.FFmpegError as error:
        if _lacks_moov(descriptor):
            message = "the file is cut or incomplete: its index (moov) is missing; fetch or record it again"
            raise NoMoovError(path, message) from None
        # Not permitted: what the file holds (a playlist) would have FFmpeg open another one.
        if isinstance(error, av.error.InvalidDataError | av.error.PermissionError | av.error.ProtocolNotFoundError):
            raise NotMediaError(path, "not a media file in any format known to FFmpeg; check what it holds") from None
        raise UnreadableFileError(path, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _lacks_moov(descriptor: int) -> bool:
    """Whether the file is a chain of MP4 boxes without the one that says where the frames are, or with a part of it."""
    position, end = 0, os.fstat(descriptor).st_size
    while position + 8 <= end:
        os.lseek(descriptor, position, os.SEEK_SET)
        header = os.read(descriptor, 16)
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if position == 0 and kind not in _MP4_BOXES:
            return False
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if kind == b"moov":
            return position + size > end
        if size < 8:
            return True
        position += size
    return position > 0
