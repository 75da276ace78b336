"""Files in tar archives, read where they lie: a path may lead into an archive, as ``videos.tar/clips/a.mp4`` does."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from watchword.media.errors import MissingFileError, UnreadableFileError

_INTO = ".tar" + os.sep


@dataclass(frozen=True)
class Member:
    """A file in an archive: ``num_bytes`` bytes of ``archive`` from byte ``start`` on."""

    archive: str
    start: int
    num_bytes: int


def find_member(path: str | os.PathLike[str]) -> Member | None:
    """The member that a path leads to, None where no archive is on the way.

    It is looked for by its whole name in the archive and then, as the official code does (X-CLIP specification, section 11), by its
    file name alone, if only one member has it.

    Raises:
        MissingFileError: no such member.  UnreadableFileError: the archive is compressed or damaged.
    """
    text, position = os.fspath(path), -1
    while (position := text.find(_INTO, position + 1)) >= 0:
        archive, name = text[: position + len(_INTO) - 1], text[position + len(_INTO) :]
        if os.path.isfile(archive):
            try:
                status = os.stat(archive)
                members = _members(archive, status.st_mtime_ns, status.st_size)
            except (OSError, tarfile.TarError) as error:
                raise UnreadableFileError(path, f"its archive cannot be read ({error}); it must be a whole tar, not compressed") from None
            found = members.get(name) or members.get(os.path.basename(name))
            if found is None:
                raise MissingFileError(path, f"no such file in the archive {os.path.basename(archive)}; check the path")
            return Member(archive, *found)
    return None


@lru_cache(maxsize=8)
def _members(archive: str, mtime_ns: int, num_bytes: int) -> dict[str, tuple[int, int]]:
    """(first byte, number of bytes) of each plain file by its name, and by its last part where one file alone has it."""
    with tarfile.open(archive, "r:") as tar:
        plain = (entry for entry in tar if entry.isreg() and not entry.issparse())
        files = {os.path.normpath(entry.name): (entry.offset_data, entry.size) for entry in plain}
    counts = Counter(map(os.path.basename, files))
    return {name: place for path, place in files.items() if counts[name := os.path.basename(path)] == 1} | files
