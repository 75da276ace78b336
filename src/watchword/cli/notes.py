"""What is said beside the results: notes and progress, on standard error."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..files import replacing
from ..launched import is_first
from ..report.text import fitting

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "check_folder", "check_writable", "new_folder", "note", "print_table", "progress", "say", "warnings_as_notes", "write_beside",
    "writing",
]  # fmt: skip


def note(text: str) -> None:
    """One line on standard error; of torchrun's processes only the first one speaks."""
    if is_first():
        say(text)


def say(text: str) -> None:
    """One line on standard error, on any process."""
    print(fitting(text, sys.stderr.encoding), file=sys.stderr, flush=True)


def print_table(table: Table, *, width: int) -> None:
    """A table on standard output: as wide as the terminal, or where that is none ``width`` columns."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    (console if console.is_terminal else Console(width=width, highlight=False, markup=False)).print(table)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Warnings meant for users become notes; those meant for programmers are not shown."""

    def show(message: Warning | str, category: type[Warning], *_: Any) -> None:
        if issubclass(category, UserWarning):
            note(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show  # type: ignore[assignment]  # fewer names, same call
        yield


@contextmanager
def progress(num_items: int, doing: str = "tagging") -> Iterator[Callable[[int, float], None]]:
    """A bar on standard error, if that is a terminal; it is told the number of an item and the share of it that is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not (console.is_terminal and is_first()), redirect_stdout=False) as bar:
        task = bar.add_task(doing, total=num_items)
        yield lambda number, share: bar.update(task, completed=number + share)


def check_writable(path: Path | None, option: str) -> None:
    """InputError now, not after an hour of work, if the file cannot be written."""
    if path is None:
        return
    try:
        there = path if path.exists() and not path.is_file() else path.parent
        problem = (
            "it is a folder"
            if path.is_dir()
            else f"there is no folder {str(path.parent)!r}"
            if not path.parent.is_dir()
            else f"{str(there)!r} may not be written to"
            if not os.access(there, os.W_OK)
            else ""
        )
    except OSError as error:
        problem = str(error.strerror)
    if problem:
        raise InputError(f"{option}: cannot write {str(path)!r}: {problem}")


def check_folder(path: Path, option: str = "--out") -> None:
    """InputError now, not after the data is prepared, if the folder is none or cannot be made."""
    with writing(path):
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{option}: cannot write {str(path)!r}: {str(there)!r} is no folder")
    if not os.access(there, os.W_OK):
        raise InputError(f"{option}: cannot write {str(path)!r}: {str(there)!r} may not be written to")


def write_beside(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; InputError if that is not possible."""
    with writing(path), replacing(path) as beside:
        beside.write_bytes(content)


def new_folder(path: Path) -> None:
    """InputError unless a folder can be begun here: it must be new or empty."""
    with writing(path):
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{str(path)!r} is there already: give a new or empty folder")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the operating system has against writing to the path becomes an InputError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
