"""What the commands that answer for many files share: finding them, saying what happens, writing what was asked for, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .notes import check_writable, note, write_beside

if TYPE_CHECKING:
    from ..report.run import R, Run

__all__ = [
    "ALL_DONE", "NOTHING_USABLE", "SOME_FAILED", "Precision",
    "check_picture", "collect", "find_files", "finish", "say_model", "until_failure", "write_files",
]  # fmt: skip

PICTURE_SUFFIXES = (".png", ".jpg", ".svg", ".pdf")
ALL_DONE, SOME_FAILED, NOTHING_USABLE = 0, 1, 2


class Precision(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def check_picture(path: Path | None) -> None:
    """InputError now if ``--picture`` cannot be written or ends in no known format."""
    check_writable(path, "--picture")
    if path is not None and path.suffix.lower() not in PICTURE_SUFFIXES:
        raise InputError(f"--picture: {str(path)!r} must end in one of {', '.join(PICTURE_SUFFIXES)}")


def find_files(paths: Sequence[str]) -> list[Path]:
    """The files that files, folders, patterns and ``-`` stand for. InputError if none of them can be one."""
    from ..datasets.folders import find_media

    given: list[str] = []
    for path in paths:
        given += _listed() if path == "-" else [path]
    if not given:
        raise InputError("the list on standard input is empty: give one path a line")
    found = find_media(given)
    if len(found.problems) == len(found.paths):
        first, *others = found.problems.values()
        raise InputError(first + (f"; and {len(others)} more without a video" if others else ""))
    for place, problem in found.problems.items():
        if place.is_dir():  # of a URL its reader says so
            note(f"note: {problem}")
    if found.num_left_out:
        note(f"note: {found.num_left_out} other files in the folders are neither video nor sound by their ending: left out")
    return found.paths


def _listed() -> list[str]:
    """Paths on standard input: one a line, or separated by zero bytes (find -print0), for names that hold a newline."""
    data = sys.stdin.buffer.read()
    parts = data.split(b"\0") if b"\0" in data else data.splitlines()
    return [os.fsdecode(part) for part in parts if part.strip()]


def say_model(run: Run[R], inputs: str) -> None:
    """Which weights answer, from what inputs, and whether they can."""
    model = run.model
    note(f"model: {model['name']} ({inputs}, {model['precision']} on {model['device']})")
    if not model["trained"]:
        note("note: these weights were never trained: scores mean nothing")


def collect(run: Run[R], results: Iterator[R], row: Callable[[Any, R], dict[str, Any]] | None = None) -> None:
    """Fill the run, saying what fails; with ``row`` JSON lines come as soon as a file is done. A note on several results is said once."""
    from ..report.text import printable, to_json

    assert isinstance(run.results, list)
    said: set[str] = set()
    for result in results:
        run.results.append(result)
        lines = [f"failed: {printable(str(result.failure.error))}"] if result.failure else []
        lines += [f"note: {printable(result.path)}: {printable('; '.join(result.notes))}"] if result.notes else []
        for line in lines:
            if line not in said:
                note(line)
        said |= set(lines)
        if row:
            print(to_json(row(run, result)), flush=True)


def until_failure(results: Iterator[R], strict: bool) -> Iterator[R]:
    """The results, with ``strict`` up to the first that failed."""
    for result in results:
        yield result
        if strict and result.failure:
            note("stopped at the first failure (--strict)")
            return


def write_files(*files: tuple[Path | None, Callable[[Path], bytes]]) -> int:
    """Write what was asked for, each a path or None and what makes its content, and say how many could not be written."""
    num_unwritten = 0
    for path, content in files:
        if path is None:
            continue
        try:
            write_beside(path, content(path))
            note(f"wrote {path}")
        except InputError as error:  # the work is done, and the other file may still be written
            num_unwritten += 1
            note(f"failed: {error}")
    return num_unwritten


def finish(run: Run[R], num_asked: int, done: str) -> int:
    """Say how many were done, and give the exit code."""
    num_done, num_failed = len(run.done), len(run.failed)
    if num_failed or num_asked > 1:
        note(f"{num_done} of {num_asked} {done}" + (f", {num_failed} failed" if num_failed else ""))
    if not num_failed:
        return ALL_DONE
    return SOME_FAILED if num_done else NOTHING_USABLE
