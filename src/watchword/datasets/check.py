"""What is wrong with a data set, found before training starts: every file is opened, and labels are held against the class list."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from ..errors import InputError
from ..media import MediaError, VideoReader
from .annotations import AnnotationList, Part, class_finder, class_list, load_list

__all__ = ["PROBLEM_KINDS", "DataCheck", "Problem", "check_videos"]

PROBLEM_KINDS = {
    "missing": "no such file",
    "unreadable": "the file cannot be read as a video",
    "damaged": "a part of the file is lost or cannot be read",
    "too_short": "fewer frames than a clip takes; frames would be repeated",
    "listed_twice": "the same path stands more than once in the list",
    "same_content": "files with the same bytes",
    "unknown_label": "a label that is not in the class list",
    "class_without_videos": "a class of the class list that no video shows",
    "unbalanced": "the largest class has many times the videos of the smallest",
}
IMBALANCE = 10
"""The largest class may have so many times the videos of the smallest: Kinetics-400 has 4, HMDB-51 5."""

_FEW = 16  # files for which no process is worth starting
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``path`` and ``label`` say with what, where there is one."""

    kind: str
    message: str
    path: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """What was found. Numbers of frames are of the readable videos, None if there is none."""

    source: str
    num_videos: int
    num_readable: int
    num_classes: int
    videos_per_class: dict[str, int]
    fewest_frames: int | None
    median_frames: int | None
    problems: tuple[Problem, ...]

    @property
    def num_by_kind(self) -> dict[str, int]:
        """How many problems there are of each kind that occurs."""
        counts = Counter(problem.kind for problem in self.problems)
        return {kind: counts[kind] for kind in PROBLEM_KINDS if counts[kind]}

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "num_by_kind": self.num_by_kind}


@dataclass(frozen=True)
class _File:
    num_bytes: int = 0
    num_frames: int = 0
    problem: tuple[str, str] | None = None  # kind and message


def check_videos(
    source: str | Path,
    *,
    root: str | Path | None = None,
    classes: str | Path | Sequence[str] | None = None,
    split: int | None = None,
    part: Part | None = None,
    num_frames: int | None = None,
    num_workers: int | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> DataCheck:
    """Check every video of an annotation list.

    A video counts as readable when its first frame decodes and all its packets can be walked; its frames are counted that way, never
    taken from a header. Files with the same bytes are found among those of the same size.

    Args:
        source, root, classes, split, part: as for ``watchword.datasets.annotations.read_annotations``.
        num_frames: frames that a clip takes; videos with fewer are named.
        num_workers: processes that read files; all cores if not given.
        report: told how many files are done, and of how many.

    Raises:
        ConfigError, LabelError: the list, or the class list, cannot be understood.
    """
    if num_workers is not None and num_workers < 1:
        raise InputError(f"{num_workers} workers: at least 1")
    listed = load_list(source, root=root, split=split, part=part)
    labels, problems = _check_labels(listed, None if classes is None else class_list(classes)[0])
    paths = list(dict.fromkeys(path for path, _ in listed.videos))
    with _workers(num_workers or os.cpu_count() or 1, len(paths)) as workers:
        files = {}
        for path, file in zip(paths, _each(workers, partial(_inspect, num_frames=num_frames), paths), strict=True):
            files[path] = file
            report(len(files), len(paths))
        problems += [Problem(kind=file.problem[0], message=file.problem[1], path=str(path)) for path, file in files.items() if file.problem]
        problems += _same_content(files, dict(listed.videos), workers)
    problems += _listed_twice(listed)
    readable = [file.num_frames for file in files.values() if file.num_frames]
    return DataCheck(
        source=str(source),
        num_videos=len(listed.videos),
        num_readable=len(readable),
        num_classes=len(labels),
        videos_per_class=labels,
        fewest_frames=min(readable, default=None),
        median_frames=int(median(readable)) if readable else None,
        problems=tuple(sorted(problems, key=lambda problem: list(PROBLEM_KINDS).index(problem.kind))),
    )


def _check_labels(listed: AnnotationList, class_names: Sequence[str] | None) -> tuple[dict[str, int], list[Problem]]:
    """Videos of each class, and what is wrong with the labels."""
    written = Counter(label for _, label in listed.videos)
    problems, names = [], listed.classes if class_names is None else class_names
    find = (lambda label: label) if class_names is None else class_finder(class_names, numbered=listed.numbered)
    counts = dict.fromkeys(names or sorted(written), 0)
    for label, count in written.items():
        name = find(label)
        if name is None:
            problems.append(Problem("unknown_label", f"{count} videos; the class list has {len(class_names or ())}", label=label))
        else:
            counts[name] += count
    problems += [Problem("class_without_videos", "no video", label=name) for name, count in counts.items() if not count]
    shown = {name: count for name, count in counts.items() if count}
    if shown and max(shown.values()) > IMBALANCE * min(shown.values()):
        most, fewest = max(shown, key=lambda name: shown[name]), min(shown, key=lambda name: shown[name])
        message = f"{shown[fewest]} videos, but {shown[most]} of {most!r}"
        problems.append(Problem("unbalanced", message, label=fewest))
    return counts, problems


def _inspect(path: Path, *, num_frames: int | None) -> _File:
    try:
        with VideoReader(path, num_threads=1) as reader:
            info, found = reader.info, reader.num_frames
            warnings = [*info.warnings, *reader.warnings]
    except MediaError as error:
        return _File(problem=("missing" if error.reason == "missing_file" else "unreadable", error.message))
    problem = None
    if warnings:
        problem = ("damaged", "; ".join(warnings))
    elif num_frames is not None and found < num_frames:
        problem = ("too_short", f"{found} frames, a clip takes {num_frames}")
    return _File(info.num_bytes, found, problem)


def _listed_twice(listed: AnnotationList) -> Iterator[Problem]:
    labels: defaultdict[Path, list[str]] = defaultdict(list)
    for path, label in listed.videos:
        labels[path].append(label)
    for path, given in labels.items():
        if len(given) > 1:
            different = sorted(set(given))
            message = f"{len(given)} times" + (f", with the labels {', '.join(map(repr, different))}" if len(different) > 1 else "")
            yield Problem("listed_twice", message, path=str(path))


def _same_content(files: dict[Path, _File], labels: dict[Path, str], workers: Executor | None) -> Iterator[Problem]:
    by_size: defaultdict[int, list[Path]] = defaultdict(list)
    for path, file in files.items():
        if file.num_bytes:
            by_size[file.num_bytes].append(path)
    paths = [path for group in by_size.values() if len(group) > 1 for path in group]
    same: defaultdict[bytes, list[Path]] = defaultdict(list)
    for path, digest in zip(paths, _each(workers, _digest, paths), strict=True):
        same[digest or os.fsencode(path)].append(path)
    for first, *others in same.values():
        for other in others:
            twins = f"same bytes as {str(first)!r}"
            if labels[first] != labels[other]:
                twins += f", which has the label {labels[first]!r}"
            yield Problem("same_content", twins, path=str(other), label=labels[other])


def _digest(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:  # gone since it was read
        return None


@contextmanager
def _workers(num_workers: int, num_files: int) -> Iterator[Executor | None]:
    if num_workers == 1 or num_files <= _FEW:
        yield None
        return
    with ProcessPoolExecutor(num_workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def _each(workers: Executor | None, function: Callable[[_Given], _Found], given: Iterable[_Given]) -> Iterator[_Found]:
    return map(function, given) if workers is None else workers.map(function, given, chunksize=16)
