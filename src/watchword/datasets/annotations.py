"""Annotation lists in the formats that data sets and the official code use: which videos there are, and what each shows."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from ..errors import ConfigError
from ..files import write_text
from .folders import VIDEO_SUFFIXES, find_media
from .label_lists import load_labels, same_name

__all__ = [
    "AnnotationList", "Part", "class_finder", "class_list", "hash_annotations", "load_list", "read_annotations", "write_annotations",
]  # fmt: skip

Video = tuple[Path, str]
Part = Literal["train", "test"]

_NUMBER = re.compile(r"[0-9]{1,9}")
_UCF_NAME = re.compile(r"(train|test)list\d+\.txt", re.ASCII)
_HMDB_NAME = re.compile(r"(.+)_test_split([1-9])\.txt", re.ASCII)
_HMDB_PARTS = {"0": None, "1": "train", "2": "test"}
_KINETICS_COLUMNS = ("label", "youtube_id", "time_start", "time_end")


@dataclass(frozen=True)
class AnnotationList:
    """A list as it stands in its file. ``numbered``: the labels are numbers, counted from 0, into a class list that stands elsewhere.

    ``classes`` are the class folders, also those without a video, where the source is a folder of them.
    """

    source: str
    videos: list[Video]
    numbered: bool
    classes: tuple[str, ...] | None = None


def read_annotations(
    source: str | Path,
    *,
    root: str | Path | None = None,
    classes: str | Path | Sequence[str] | None = None,
    split: int | None = None,
    part: Part | None = None,
) -> list[Video]:
    """The videos of an annotation list and the class each shows, in the list's order. No video is opened.

    ``source``, recognised by what it holds (docs/files-and-formats.md):

    * a CSV with the columns ``path`` and ``label``;
    * a list of the official code, ``path number`` a line (spec section 11), where the path may hold spaces, or its JSON form;
    * a Kinetics CSV (``label``, ``youtube_id``, ``time_start``, ``time_end``): files called ``<id>_<start>_<end>`` anywhere below ``root``;
    * ``trainlist01.txt`` and ``testlist01.txt`` of UCF-101, or the folder of them with ``split`` (1, 2, 3) and ``part``;
    * the folder of HMDB-51's split files, with ``split`` and ``part``;
    * a folder of class folders with videos in them.

    Args:
        root: what paths are relative to, a folder or a tar archive; the folder of the list if not given.
        classes: the class list: a shipped one's name, a file (as for ``--labels``), or the names. Needed where labels are numbers;
            otherwise labels are checked against it and take its spelling (``brush_hair`` and ``brush hair`` are the same class).

    Raises:
        ConfigError: there is no such list, or a line cannot be understood (the message names it), or a label is not in the class list.
        LabelError: the class list cannot be read.
    """
    listed = load_list(source, root=root, split=split, part=part)
    if classes is None:
        if listed.numbered:
            raise ConfigError(f"{source}: its labels are numbers; give the class list they count in, such as kinetics400 or a CSV id,name")
        return listed.videos
    class_names, called = class_list(classes)
    find = class_finder(class_names, numbered=listed.numbered)
    named = [(path, find(label)) for path, label in listed.videos]
    for (path, label), (_, name) in zip(listed.videos, named, strict=True):
        if name is None:
            which = "label numbers count from 0" if listed.numbered else "correct the label or the list"
            raise ConfigError(
                f"{source}: label {label!r} of {path.name!r} is not among the {len(class_names)} classes of {called}; {which}"
            )
    return [(path, name) for path, name in named if name is not None]


def write_annotations(path: str | Path, videos: Sequence[Video], *, root: str | Path | None = None) -> None:
    """Write the videos as a CSV with the columns ``path`` and ``label`` that `read_annotations` reads.

    Paths are absolute, or those below ``root`` relative to it, for whoever has the videos elsewhere.
    """
    below = None if root is None else os.path.abspath(root)
    paths = [Path(os.path.abspath(video)) for video, _ in videos]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")  # the lone \r of a name is only quoted so
    writer.writerow(["path", "label"])
    for video, (_, label) in zip(paths, videos, strict=True):
        writer.writerow([video.relative_to(below).as_posix() if below and video.is_relative_to(below) else video, label])
    write_text(Path(path), out.getvalue())


def class_list(classes: str | Path | Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The names of a class list, and what to call it in a message."""
    if isinstance(classes, str | Path):
        return load_labels(str(classes)).labels, repr(str(classes))
    return tuple(classes), "the list given"


def class_finder(class_names: Sequence[str], *, numbered: bool) -> Callable[[str], str | None]:
    """A function from a label of a list to the class it means, or None. Names may differ in case, underscores and run-together words."""
    if numbered:
        return lambda label: class_names[int(label)] if int(label) < len(class_names) else None
    counts = Counter(map(same_name, class_names))
    alike = {same_name(name): name for name in class_names if counts[same_name(name)] == 1}
    exact = set(class_names)
    return lambda label: label if label in exact else alike.get(same_name(label))


def load_list(source: str | Path, *, root: str | Path | None = None, split: int | None = None, part: Part | None = None) -> AnnotationList:
    """A list with its labels as they stand there; see `read_annotations`."""
    source = Path(source)
    if source.is_dir():
        return _folder(source, root, split, part)
    if split is not None:
        raise ConfigError(f"{source}: split {split} is chosen from a folder of split files, and this is not a folder")
    base = source.parent if root is None else Path(root)
    text = _text(source)
    if _UCF_NAME.fullmatch(source.name):
        videos = list(_ucf(source, text, base))
    elif source.suffix.lower() == ".json":
        videos = list(_json(source, text, base))
    elif columns := _csv_columns(source, text):
        videos = list(_kinetics(source, text, base) if set(_KINETICS_COLUMNS) <= columns else _csv(source, text, base))
    else:
        videos = list(_lines(source, text, base))
    if not videos:
        raise ConfigError(f"{source}: lists no videos")
    numbered = all(_NUMBER.fullmatch(label) for _, label in videos)
    return AnnotationList(str(source), videos, numbered)


def hash_annotations(source: str | Path, *, split: int | None = None, part: Part | None = None) -> str | None:
    """SHA-256 of the bytes of a list, of split files those of the split one after the other by name; None for a folder of class folders."""
    source = Path(source)
    files = _split_files(source, split, part) if source.is_dir() else [source]
    if files is None:
        return None
    digest = hashlib.sha256()
    for file in files:
        try:
            digest.update(file.read_bytes())
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read as an annotation list: {error.strerror}") from error
    return digest.hexdigest()


def _text(source: Path) -> str:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except FileNotFoundError as error:
        raise ConfigError(f"{source}: no such annotation list") from error
    except (OSError, ValueError) as error:  # a UnicodeDecodeError is a ValueError
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ConfigError(f"{source}: cannot be read as an annotation list: {reason}") from error


def _numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.strip("\r")


def _lines(source: Path, text: str, base: Path) -> Iterator[Video]:
    for number, line in _numbered_lines(text):
        path, _, label = line.rstrip().replace("\t", " ").rpartition(" ")
        if not path.strip():
            raise ConfigError(f"{source}, line {number}: needs a path and a label with a space between them")
        yield base / line[: len(path)].rstrip(), label


def _json(source: Path, text: str, base: Path) -> Iterator[Video]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}: not JSON ({error})") from error
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        label = row.get("label") if isinstance(row, dict) else None
        label = label[0] if isinstance(label, list) and len(label) == 1 else label
        if not isinstance(label, int | str) or not isinstance(row.get("filename"), str):
            raise ConfigError(f"{source}, entry {number}: needs a `filename` and one `label`")
        yield base / row["filename"], str(label)


def _csv_columns(source: Path, text: str) -> set[str]:
    """The columns if the first line is a header that names some we know, or the file is called a CSV and has commas."""
    try:
        header = next(csv.reader([text.partition("\n")[0].strip("\r")]), [])
    except csv.Error:  # a first line of 100 kB
        return set()
    columns = {name.strip().lower() for name in header}
    known = {"path", "label"} <= columns or "youtube_id" in columns
    return columns if known or (source.suffix.lower() == ".csv" and len(header) > 1) else set()


def _csv_rows(source: Path, text: str, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or []]
    if lacking := [name for name in columns if name not in reader.fieldnames]:
        raise ConfigError(f"{source}, line 1: an annotation list has the columns `path` and `label`; there is no `{lacking[0]}`")
    try:
        for row in reader:
            if any(not (row.get(name) or "").strip() for name in columns):
                raise ConfigError(f"{source}, line {reader.line_num}: needs {', '.join(f'`{name}`' for name in columns)}")
            yield reader.line_num, row
    except csv.Error as error:
        raise ConfigError(f"{source}, after line {reader.line_num}: not a CSV ({error})") from error


def _csv(source: Path, text: str, base: Path) -> Iterator[Video]:
    for _, row in _csv_rows(source, text, ("path", "label")):
        yield base / row["path"], row["label"].strip()


def _kinetics(source: Path, text: str, base: Path) -> Iterator[Video]:
    """One file for each row: below ``base`` in any folder, else where the usual layout would have it."""
    there: dict[str, Path] = {}
    for folder, _, names in os.walk(base):
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix.lower() in VIDEO_SUFFIXES:
                there.setdefault(stem, Path(folder, name))
    for number, row in _csv_rows(source, text, _KINETICS_COLUMNS):
        try:
            start, end = (int(float(row[column])) for column in _KINETICS_COLUMNS[2:])
        except (ValueError, OverflowError) as error:
            raise ConfigError(f"{source}, line {number}: `time_start` and `time_end` must be seconds") from error
        label, video_id = row["label"].strip(), row["youtube_id"].strip()
        stem = f"{video_id}_{start:06d}_{end:06d}"
        yield there.get(stem) or there.get(video_id) or base / label / f"{stem}.mp4", label


def _ucf(source: Path, text: str, base: Path) -> Iterator[Video]:
    for number, line in _numbered_lines(text):
        path, _, index = line.strip().rpartition(" ")
        name = path if index.isdigit() else line.strip()
        if len(PurePosixPath(name).parts) < 2:
            raise ConfigError(f"{source}, line {number}: a split file of UCF-101 has `Class/video.avi`, with or without a number")
        yield base / name.strip(), PurePosixPath(name).parent.name


def _folder(source: Path, root: str | Path | None, split: int | None, part: Part | None) -> AnnotationList:
    files = _split_files(source, split, part)
    if files is None:
        if split is not None:
            raise ConfigError(f"{source}: split {split} is wanted, but there are no split files of UCF-101 or HMDB-51 in it")
        return _class_folders(source)
    if files and _UCF_NAME.fullmatch(files[0].name):
        return load_list(files[0], root=root)
    base, videos = source if root is None else Path(root), []
    for file in files:
        label = file.name.rpartition("_test_split")[0]
        videos += [(base / label / name, label) for name, chosen in _hmdb(file) if chosen == part]
    if not videos:
        raise ConfigError(f"{source}: there are no split files called <class>_test_split{split}.txt with videos of the {part} part")
    return AnnotationList(str(source), videos, numbered=False)


def _split_files(source: Path, split: int | None, part: Part | None) -> list[Path] | None:
    """The files that say what is in a part of a split, None if the folder has no split files. Raises ConfigError if neither is chosen."""
    names = sorted(os.listdir(source))
    ucf = any(map(_UCF_NAME.fullmatch, names))
    hmdb = [match for match in map(_HMDB_NAME.fullmatch, names) if match]
    if not ucf and not hmdb:
        return None
    if split not in (1, 2, 3) or part not in ("train", "test"):
        raise ConfigError(f"{source}: a folder of split files; choose a split (1, 2 or 3) and a part (train or test)")
    if ucf:
        return [source / f"{part}list{split:02d}.txt"]
    return [source / match[0] for match in hmdb if int(match[2]) == split]


def _hmdb(source: Path) -> Iterator[tuple[str, str | None]]:
    """Names of videos and the part that each belongs to, None for those that the split leaves out."""
    for number, line in _numbered_lines(_text(source)):
        name, _, chosen = line.strip().rpartition(" ")
        if not name.strip() or chosen not in _HMDB_PARTS:
            raise ConfigError(f"{source}, line {number}: a split file of HMDB-51 has `video.avi 0`, 1 for training, 2 for testing")
        yield name.strip(), _HMDB_PARTS[chosen]


def _class_folders(source: Path) -> AnnotationList:
    classes = tuple(name for name in sorted(os.listdir(source)) if (source / name).is_dir() and not name.startswith("."))
    videos: list[Video] = []
    for name in classes:
        videos += [(path, name) for path in find_media([source / name]).paths if path.suffix.lower() in VIDEO_SUFFIXES]
    if not videos:
        raise ConfigError(f"{source}: no videos in folders named after classes, such as {source / 'archery' / 'clip.mp4'}")
    return AnnotationList(str(source), videos, numbered=False, classes=classes)
