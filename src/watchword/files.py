"""Files that are whole or not there: written beside and renamed into place."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError

__all__ = ["copy_files", "filling", "read_text", "replacing", "write_text"]


@contextmanager
def filling(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """The folder is there within the block, which writes files of these names into it. After an error those of them, and those
    folders, that were not there before are gone again. Raises OSError as making folders does.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    new = [folder / name for name in names if not (folder / name).exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.unlink()
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to. When the block ends it becomes ``path``; after an error it is removed and ``path`` is as before.

    What was written reaches the disk before it is renamed. A link stays a link, and what cannot be replaced, such as ``/dev/null`` or a
    pipe, is itself the path to write to. Raises OSError as writing does.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    beside = path.with_name(f".{path.name[:200]}.{os.getpid()}-{threading.get_native_id()}.partial")
    try:
        beside.touch()
        mode = beside.stat().st_mode
        yield beside
        beside.chmod(mode)  # some writers (safetensors) put a file of their own in its place, for its owner alone
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read_text(path: Path, what: str, *, error: type[InputError] = InputError) -> str:
    """A text that a person wrote, in UTF-8 with or without a mark. ``error``, which names ``what`` is in it, if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as failure:
        raise error(f"cannot read the {what} in {str(path)!r}: {failure.strerror}") from failure
    except UnicodeDecodeError as failure:
        raise error(f"the {what} in {str(path)!r} are not UTF-8 text: save the file as UTF-8") from failure


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with plain line ends, whole or not at all."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def copy_files(source: Path, folder: Path) -> None:
    """Copy the files of a folder, links followed, into another one, but for those that are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and not (folder / path.name).exists():
            with replacing(folder / path.name) as beside:
                beside.write_bytes(path.read_bytes())
