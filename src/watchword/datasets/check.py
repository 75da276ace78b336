"""What is wrong with a data set, found before training starts: every file is opened, and labels are held against the class list."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import InputError
from ..media import MediaError, VideoReader
from ..media.opening import open_bytes
from .annotations import AnnotationList, Part, class_finder, class_list, load_list
from .workers import Crashed, Workers

__all__ = ["PROBLEM_KINDS", "DataCheck", "Problem", "check_videos"]

PROBLEM_KINDS = {
    "missing": "no such file",
    "unreadable": "the file cannot be read as a video",
    "crashed": "the process that read the file died: out of memory, or the decoder crashed",
    "damaged": "a part of the file is lost or cannot be read",
    "too_short": "fewer frames than a clip takes; frames would be repeated",
    "listed_twice": "the same path stands more than once in the list",
    "same_content": "files with the same bytes",
    "held_out_path": "the path is in the held-out list, too",
    "held_out_content": "the same bytes as a file of the held-out list",
    "unknown_label": "a label that is not in the class list",
    "class_without_videos": "a class of the class list that no video shows",
    "unbalanced": "the largest class has many times the videos of the smallest",
}
IMBALANCE = 10
"""The largest class may have so many times the videos of the smallest: Kinetics-400 has 4, HMDB-51 5."""

_FEW = 16  # files for which no process is worth starting
Video = tuple[Path, str]


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
    held_out: str | Path | None = None,
    num_frames: int | None = None,
    decode: bool = False,
    num_workers: int | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> DataCheck:
    """Check every video of an annotation list.

    A video counts as readable when its first frame decodes and all its packets can be walked; its frames are counted that way, never
    taken from a header. Files with the same bytes are found among those of the same size.

    Args:
        source, root, classes, split, part: as for ``watchword.datasets.annotations.read_annotations``.
        held_out: the list that will not be trained on, read as ``source`` is (with ``split``, its test part); videos of both are named.
        num_frames: frames that a clip takes; videos with fewer are named.
        decode: decode every video to its end, which finds damage inside pictures, and takes as long.
        num_workers: processes that read files; all cores if not given.
        report: told how many files are done, and of how many.

    Raises:
        ConfigError, LabelError: the list, or the class list, cannot be understood.
    """
    if num_workers is not None and num_workers < 1:
        raise InputError(f"{num_workers} workers: at least 1")
    listed = load_list(source, root=root, split=split, part=part)
    videos, counts, problems = _check_labels(listed, None if classes is None else class_list(classes)[0])
    also = None if held_out is None else load_list(held_out, root=root, split=split, part=None if split is None else "test").videos
    paths = list(dict.fromkeys(path for path, _ in videos))
    with Workers(0 if len(paths) <= _FEW and not decode else num_workers or os.cpu_count() or 1) as workers:
        files = {}
        for path, file in zip(paths, workers.each(partial(_inspect, num_frames=num_frames, decode=decode), paths), strict=True):
            files[path] = _CRASHED if isinstance(file, Crashed) else file
            report(len(files), len(paths))
        problems += [Problem(kind=file.problem[0], message=file.problem[1], path=str(path)) for path, file in files.items() if file.problem]
        sizes = {path: file.num_bytes for path, file in files.items()}
        problems += _same_content(sizes, dict(videos), workers)
        if also is not None:
            problems += _held_out_too(sizes, dict(also), workers)
    problems += _listed_twice(videos)
    readable = [file.num_frames for file in files.values() if file.num_frames]
    return DataCheck(
        source=str(source),
        num_videos=len(videos),
        num_readable=len(readable),
        num_classes=len(counts),
        videos_per_class=counts,
        fewest_frames=min(readable, default=None),
        median_frames=int(median(readable)) if readable else None,
        problems=tuple(sorted(problems, key=lambda problem: list(PROBLEM_KINDS).index(problem.kind))),
    )


def _check_labels(listed: AnnotationList, class_names: Sequence[str] | None) -> tuple[list[Video], dict[str, int], list[Problem]]:
    """The videos with their labels as the class list spells them, the number of videos of each class, and what is wrong with the labels."""
    written = Counter(label for _, label in listed.videos)
    find = (lambda label: label) if class_names is None else class_finder(class_names, numbered=listed.numbered)
    meant = {label: find(label) for label in written}
    counts = dict.fromkeys(class_names or listed.classes or sorted(written), 0)
    problems = []
    for label, count in written.items():
        if (name := meant[label]) is None:
            problems.append(Problem("unknown_label", f"{count} videos; the class list has {len(class_names or ())}", label=label))
        else:
            counts[name] += count
    problems += [Problem("class_without_videos", "no video", label=name) for name, count in counts.items() if not count]
    shown = {name: count for name, count in counts.items() if count}
    if shown and max(shown.values()) > IMBALANCE * min(shown.values()):
        most, fewest = max(shown, key=lambda name: shown[name]), min(shown, key=lambda name: shown[name])
        message = f"{shown[fewest]} videos, but {shown[most]} of {most!r}"
        problems.append(Problem("unbalanced", message, label=fewest))
    return [(path, meant[label] or label) for path, label in listed.videos], counts, problems


_CRASHED = _File(problem=("crashed", "the process that read it died, likely for lack of memory; leave the file out or encode it anew"))


def _inspect(path: Path, *, num_frames: int | None, decode: bool) -> _File:
    try:
        with VideoReader(path, num_threads=1) as reader:
            info, found = reader.info, reader.num_frames
            if decode:
                reader.decode_to_end()
            warnings = [*info.warnings, *reader.warnings]
    except MediaError as error:
        return _File(problem=("missing" if error.reason == "missing_file" else "unreadable", error.message))
    except MemoryError:
        return _File(problem=("unreadable", "there is not enough memory to read it"))
    problem = None
    if warnings:
        problem = ("damaged", "; ".join(warnings))
    elif num_frames is not None and found < num_frames:
        problem = ("too_short", f"{found} frames, a clip takes {num_frames}")
    return _File(info.num_bytes, found, problem)


def _listed_twice(videos: Sequence[Video]) -> Iterator[Problem]:
    labels: defaultdict[Path, list[str]] = defaultdict(list)
    for path, label in videos:
        labels[path].append(label)
    for path, given in labels.items():
        if len(given) > 1:
            different = sorted(set(given))
            message = f"{len(given)} times" + (f", with the labels {', '.join(map(repr, different))}" if len(different) > 1 else "")
            yield Problem("listed_twice", message, path=str(path))


def _same_content(sizes: dict[Path, int], labels: dict[Path, str], workers: Workers) -> Iterator[Problem]:
    for first, *others in _same_bytes(sizes, workers):
        for other in others:
            twins = f"same bytes as {str(first)!r}"
            if labels[first] != labels[other]:
                twins += f", which has the label {labels[first]!r}"
            yield Problem("same_content", twins, path=str(other), label=labels[other])


def _held_out_too(sizes: dict[Path, int], held_out: dict[Path, str], workers: Workers) -> Iterator[Problem]:
    """What a model would be tested on after it was trained on it."""
    absolute = {os.path.abspath(path): label for path, label in held_out.items()}
    same_path = {path for path in sizes if os.path.abspath(path) in absolute}
    for path in sizes:
        if path in same_path:
            yield Problem("held_out_path", f"held out with the label {absolute[os.path.abspath(path)]!r}", path=str(path))
    others = {path: _num_bytes(path) for path in held_out if path not in sizes}
    for group in _same_bytes({**{path: size for path, size in sizes.items() if path not in same_path}, **others}, workers):
        there = [path for path in group if path in others]
        for path in group:
            if there and path not in others:
                yield Problem("held_out_content", f"same bytes as {str(there[0])!r}, which is held out", path=str(path))


def _same_bytes(sizes: dict[Path, int], workers: Workers) -> list[list[Path]]:
    """Files of equal content, in groups of two and more; only those of one size are read."""
    by_size: defaultdict[int, list[Path]] = defaultdict(list)
    for path, size in sizes.items():
        if size:
            by_size[size].append(path)
    paths = [path for group in by_size.values() if len(group) > 1 for path in group]
    same: defaultdict[bytes, list[Path]] = defaultdict(list)
    for path, digest in zip(paths, workers.each(_digest, paths), strict=True):
        same[digest if isinstance(digest, bytes) else os.fsencode(path)].append(path)
    return [group for group in same.values() if len(group) > 1]


def _num_bytes(path: Path) -> int:
    try:
        descriptor, _, num_bytes = open_bytes(path)
    except MediaError:  # it is missing: the held-out list's own check says so
        return 0
    os.close(descriptor)
    return num_bytes


def _digest(path: Path) -> bytes | None:
    try:
        descriptor, start, num_bytes = open_bytes(path)
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "rb") as file:
            file.seek(start)
            while chunk := file.read(min(num_bytes, 1 << 20)):
                digest.update(chunk)
                num_bytes -= len(chunk)
    except (MediaError, OSError):  # gone since it was read
        return None
    return digest.digest()
