"""Opening media files safely: only regular files and members of tar archives, by content and never by name."""

from __future__ import annotations

import os
import re
import stat

import av
import av.error
from av.container import InputContainer

from watchword.media.archives import find_member
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
_GIF_PROBED_BYTES = 32_000
_MP4_BOXES = {b"moov", b"ftyp", b"mdat", b"free", b"skip", b"wide", b"moof", b"pnot", b"styp", b"sidx", b"uuid"}


def open_file(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int]:
    """Open a regular file for reading and return (descriptor, size in bytes). Anything else than a file is not opened.

    Raises:
        MissingFileError, NotAFileError, UnreadableFileError, EmptyFileError, LimitError
    """
    descriptor = _open(path)
    num_bytes = os.fstat(descriptor).st_size
    _check_size(path, descriptor, num_bytes, limits)
    return descriptor, num_bytes


def open_bytes(path: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[int, int, int]:
    """Open a regular file, or a member of a tar archive (``videos.tar/clip.mp4``), and return (descriptor, first byte, number of bytes).

    Raises:
        those of `open_file`
    """
    member = find_member(path)
    if member is None:
        descriptor, num_bytes = open_file(path, limits)
        return descriptor, 0, num_bytes
    descriptor = _open(member.archive)
    _check_size(path, descriptor, member.num_bytes, limits)
    return descriptor, member.start, member.num_bytes


def _open(path: Path) -> int:
    """A descriptor of a regular file."""
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
    try:
        _require_file(path, os.fstat(descriptor))
    except MediaError:
        os.close(descriptor)
        raise
    return descriptor


def _check_size(path: Path, descriptor: int, num_bytes: int, limits: Limits) -> None:
    """Raise, and close the descriptor, if there are no bytes or too many."""
    if 0 < num_bytes <= limits.max_bytes:
        return
    os.close(descriptor)
    if num_bytes == 0:
        raise EmptyFileError(path, "the file is empty (0 bytes); fetch or record it again")
    raise LimitError(path, f"{num_bytes} bytes, more than Limits.max_bytes = {limits.max_bytes}; raise it")


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
    protocol it may use is that one, so a playlist inside the file cannot make it open anything else. A member of a tar
    archive is a range of the archive's bytes, read where it lies.

    Raises:
        those of `open_file`, NotMediaError, NoMoovError, UnreadableFileError
    """
    descriptor, start, num_bytes = open_bytes(path, limits)
    url, protocols = (f"subfile,,start,{start},end,{start + num_bytes},,:fd:", "subfile,fd") if start else ("fd:", "fd")
    options = {"fd": str(descriptor), "protocol_whitelist": protocols, "max_pixels": str(limits.max_pixels)}
    if _first_bytes(descriptor, start, 4) == b"GIF8":  # its first bytes say all, but FFmpeg would decode many frames to know more
        options["probesize"] = str(_GIF_PROBED_BYTES)
    try:
        return av.open(url, "r", options=options, metadata_errors="ignore")
    except av.error.FFmpegError as error:
        if _lacks_moov(descriptor, start, start + num_bytes):
            message = "the file is cut or incomplete: its index (moov) is missing; fetch or record it again"
            raise NoMoovError(path, message) from None
        # Not permitted: what the file holds (a playlist) would have FFmpeg open another one.
        if isinstance(error, av.error.InvalidDataError | av.error.PermissionError | av.error.ProtocolNotFoundError):
            raise NotMediaError(path, "not a media file in any format known to FFmpeg; check what it holds") from None
        raise UnreadableFileError(path, f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _first_bytes(descriptor: int, start: int, number: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    data = os.read(descriptor, number)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return data


def _lacks_moov(descriptor: int, start: int, end: int) -> bool:
    """Whether the bytes from start to end are a chain of MP4 boxes without the one that says where the frames are, or with a part of it."""
    position = start
    while position + 8 <= end:
        os.lseek(descriptor, position, os.SEEK_SET)
        header = os.read(descriptor, 16)
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if position == start and kind not in _MP4_BOXES:
            return False
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if kind == b"moov":
            return position + size > end
        if size < 8:
            return True
        position += size
    return position > start
