"""From what a user points at (files, folders, patterns) to the list of files to read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..media.opening import URL_PROBLEM, is_url

__all__ = ["FoundFiles", "find_media"]

_VIDEO = """3g2 3gp 264 265 asf avi divx dv f4v flv gif h264 hevc ivf m2ts m2v m4v mkv mov mp4 mpe mpeg mpg mts mxf nut ogm ogv rm rmvb
ts vob webm wmv wtv y4m"""
_SOUND = "aac ac3 aif aiff flac m4a mka mp3 oga ogg opus wav wma"
VIDEO_SUFFIXES = frozenset(f".{suffix}" for suffix in _VIDEO.split())
MEDIA_SUFFIXES = VIDEO_SUFFIXES | {f".{suffix}" for suffix in _SOUND.split()}


@dataclass(frozen=True)
class FoundFiles:
    """Paths in the order given, folders in alphabetical order, and how many files in folders were left out as no media.

    problems: of the paths that were not meant as files: folders without media, and URLs. Each with what is wrong, in one line.
    """

    paths: list[Path]
    num_left_out: int
    problems: dict[Path, str]


def find_media(inputs: Sequence[str | os.PathLike[str]]) -> FoundFiles:
    """The files to read. Nothing is opened, and what cannot be read stays in the list, so that a reader reports it.

    * A file is taken whatever it is called.
    * A folder is searched with all folders in it, links to folders too, for files whose ending is one of video or sound, and for
      what is no plain file (dangling links, pipes, devices). Hidden files are left out. A folder without any such file is itself
      listed if it was given or is called like a video.
    * A path that does not exist and holds ``*``, ``?`` or ``[`` is a pattern (``**`` for any depth).

    A file that is reached twice is listed once.
    """
    paths: list[Path] = []
    problems: dict[Path, str] = {}
    left_out = 0
    for given in [os.fspath(path) for path in inputs]:
        matches = sorted(glob.glob(given, recursive=True)) if not os.path.lexists(given) and glob.has_magic(given) else [given]
        for match in matches or [given]:
            if os.path.isdir(match):
                inside = list(_walk(Path(match), set()))
                media = [path for path in inside if path.suffix.lower() in MEDIA_SUFFIXES or not path.is_file()]
                left_out += len(inside) - len(media)
                paths += media or [Path(match)]
                if not media:
                    problems[Path(match)] = _without_media(match)
                continue
            paths.append(Path(match))
            if is_url(match):
                problems[Path(match)] = f"{match!r}: {URL_PROBLEM}"
    return FoundFiles(list(dict.fromkeys(paths)), left_out, problems)


def _without_media(folder: str) -> str:
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"the folder {folder!r} may not be read"
    return (
        f"the folder {folder!r} holds no video, nor do those in it: no file ends in {' '.join(f'.{suffix}' for suffix in _VIDEO.split())}"
    )


def _walk(folder: Path, visited: set[tuple[int, int]]) -> Iterator[Path]:
    """All visible entries below a folder that are no folders, and folders called like a video that hold nothing."""
    identity = (folder.stat().st_dev, folder.stat().st_ino)
    if identity in visited:  # a link that leads back
        return
    visited.add(identity)
    for entry in sorted(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else []:
        if entry.name.startswith("."):
            continue
        if not entry.is_dir():
            yield entry
            continue
        inside = list(_walk(entry, visited))
        yield from inside or ([entry] if entry.suffix.lower() in MEDIA_SUFFIXES else [])
