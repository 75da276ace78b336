"""Shards of records: plain tar archives in WebDataset's layout, an index beside each, and a manifest of them all.

The index says where each record begins, so that any record is reached by its number with a single read. Equal records give equal bytes:
times and owners in the archive are fixed.

Source: merlot-reserve-data spec section 20.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import InputError
from ..files import replacing, write_text
from .records import FORMAT_VERSION, Record, members_of, record_from

__all__ = [
    "MANIFEST", "RECORDS_A_SHARD", "Manifest", "RecordShards", "ShardEntry", "Split",
    "members_in", "read_index", "record_key", "shard_name", "split_number", "write_archive", "write_shard",
]  # fmt: skip

Split = Literal["train", "validation"]
RECORDS_A_SHARD = 512
MANIFEST = "manifest.json"

_BLOCK = 512
_MAX_RECORD_BYTES = 1 << 30
_MAX_INDEX_BYTES = 64 << 20
_MAX_NUMBER = 1000


class ShardEntry(BaseModel):
    """A shard as the manifest lists it. num_bytes, sha256: of the archive."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    name: Annotated[str, Field(pattern=r"\A(train|validation)[0-9]{5,12}\z")]
    num_records: Annotated[int, Field(gt=0, le=10**6)]
    num_bytes: Annotated[int, Field(gt=0)]
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class Manifest(BaseModel):
    """What a folder of shards holds.

    num_segments: of each record.  train, validation: shards in order.  settings: with which it was made.  videos: counts of the videos
    that it was made from.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    format: Literal["watchword records"] = "watchword records"
    version: Literal[1] = FORMAT_VERSION
    num_segments: Annotated[int, Field(gt=0)]
    train: list[ShardEntry]
    validation: list[ShardEntry]
    settings: dict[str, Any] = Field(default_factory=dict)
    videos: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Manifest:
        """The manifest of a folder. Raises InputError if there is none or it cannot be understood."""
        path = Path(folder) / MANIFEST
        try:
            return cls.model_validate_json(_small_file(path, _MAX_INDEX_BYTES))
        except OSError as error:
            raise InputError(
                f"{str(path)!r} cannot be read ({error.strerror}): give a folder that `watchword prepare` has finished"
            ) from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise InputError(f"{str(path)!r}: {'.'.join(map(str, first['loc']))}: {first['msg']}; prepare the folder again") from None

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all."""
        write_text(folder / MANIFEST, json.dumps(self.model_dump(), indent=1) + "\n")

    def shards(self, split: Split) -> list[ShardEntry]:
        """The shards of one part."""
        return self.train if split == "train" else self.validation

    def num_records(self, split: Split) -> int:
        """How many records one part has."""
        return sum(shard.num_records for shard in self.shards(split))


def split_number(video_id: str) -> int:
    """A number from 0 to 999 that belongs to the video id; those below five are for validation, as released (SHA-1 modulo 1000)."""
    return int.from_bytes(hashlib.sha1(video_id.encode(), usedforsecurity=False).digest(), "big") % _MAX_NUMBER


def shard_name(split: Split, number: int) -> str:
    """The name of a shard without its ending."""
    return f"{split}{number:05}"


def record_key(shard: str, number: int) -> str:
    """The key of a record: its place, so that no two are alike."""
    return f"{shard}_{number:03}"


def write_archive(path: Path, records: Iterable[Record]) -> tuple[list[int], str]:
    """Write records to a tar archive, whole or not at all: (edges of the records in bytes, and the end of the file; SHA-256)."""
    digest, edges = hashlib.sha256(), [0]
    with replacing(path) as beside, beside.open("wb") as file:
        for record in records:
            for member, content in members_of(record):
                for part in (_header(member, len(content)), content, bytes(-len(content) % _BLOCK)):
                    file.write(part)
                    digest.update(part)
            edges.append(file.tell())
        end = bytes(2 * _BLOCK + -(edges[-1] + 2 * _BLOCK) % tarfile.RECORDSIZE)
        file.write(end)
        digest.update(end)
        return [*edges, file.tell()], digest.hexdigest()


def write_shard(folder: Path, name: str, records: Iterable[Record]) -> ShardEntry:
    """Write `name`.tar and its index, each whole or not at all, the index last: where it is, both are complete."""
    (*edges, num_bytes), sha256 = write_archive(folder / f"{name}.tar", records)
    entry = ShardEntry(name=name, num_records=len(edges) - 1, num_bytes=num_bytes, sha256=sha256)
    write_text(folder / f"{name}.index.json", json.dumps({"shard": entry.model_dump(), "edges": edges}, separators=(",", ":")) + "\n")
    return entry


def _header(name: str, num_bytes: int) -> bytes:
    member = tarfile.TarInfo(name)  # of no time and no owner
    member.size = num_bytes
    return member.tobuf(tarfile.USTAR_FORMAT)


class _Index(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    shard: ShardEntry
    edges: list[int]


def read_index(folder: Path, name: str) -> tuple[ShardEntry, npt.NDArray[np.int64]]:
    """(shard, edges (records + 1,) in bytes) from the index beside a shard. Raises InputError, or FileNotFoundError."""
    path = folder / f"{name}.index.json"
    try:
        index = _Index.model_validate_json(_small_file(path, _MAX_INDEX_BYTES))
        edges = np.array(index.edges, np.int64)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"{str(path)!r}: no index of a shard ({type(error).__name__}); prepare the folder again") from None
    sizes = np.diff(edges)
    if len(sizes) != index.shard.num_records or edges[0] != 0 or edges[-1] > index.shard.num_bytes or (sizes <= 0).any():
        raise InputError(f"{str(path)!r}: the index does not fit its shard; prepare the folder again")
    return index.shard, edges


def _small_file(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(0, f"more than {most} bytes")
    return data


def members_in(data: memoryview, where: str) -> Iterator[tuple[str, memoryview]]:
    """(name, content) of the plain files of a tar archive, or of a stretch of one. Nothing is copied, and no name is used as a path.

    Raises InputError, which begins with `where`, for what is no whole member.
    """
    position = 0
    while position < len(data):
        block = bytes(data[position : position + _BLOCK])
        if position and not any(block):  # the end of the archive
            return
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.TarError, ValueError) as error:
            raise InputError(f"{where}: no tar member at byte {position} ({error}); fetch or write the shard again") from None
        begin = position + _BLOCK
        if member.type != tarfile.REGTYPE or not 0 <= member.size <= len(data) - begin:
            raise InputError(
                f"{where}: member {member.name!r} is no plain file, or cut ({member.size} bytes of {len(data) - begin}); "
                "fetch or write the shard again"
            )
        yield member.name, data[begin : begin + member.size]
        position = begin + -(-member.size // _BLOCK) * _BLOCK


class RecordShards(Sequence[Record]):
    """The records of one part of a folder, by number, read when they are asked for.

    It may be passed to other processes and used by several at once: nothing stays open.

    Args:
        folder: what `watchword prepare` wrote.
        split: "train" or "validation".

    Raises:
        InputError: no manifest, a shard that is missing, cut or not the one of the manifest; on reading, a damaged index or record, with
            the shard's name and the record's key.
        IndexError: no record of that number.
    """

    def __init__(self, folder: str | os.PathLike[str], split: Split = "train") -> None:
        if split not in ("train", "validation"):
            raise InputError(f"split is {split!r}; give 'train' or 'validation'")
        self.folder, self.split = Path(folder), split
        self.manifest = Manifest.read(folder)
        self._shards = self.manifest.shards(split)
        self._firsts = np.cumsum([0, *(shard.num_records for shard in self._shards)])
        self._edges: dict[str, npt.NDArray[np.int64]] = {}
        for shard in self._shards:
            _check_size(self._path(shard), shard)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, number: int) -> Record:  # type: ignore[override]  # numbers only, no slices
        if not -len(self) <= number < len(self):
            raise IndexError(f"record {number} of {len(self)} in {str(self.folder)!r} ({self.split})")
        number %= len(self)
        place = int(np.searchsorted(self._firsts, number, side="right")) - 1
        shard, own = self._shards[place], int(number - self._firsts[place])
        key = record_key(shard.name, own)
        low, high = self._edges_of(shard)[own : own + 2].tolist()
        where = str(self._path(shard))
        members: dict[str, memoryview] = {}
        for name, content in members_in(memoryview(_stretch(self._path(shard), shard, low, high)), f"{where!r}: record {key!r}"):
            if name in members:
                raise InputError(f"{where!r}: record {key!r}: {name!r} is there twice; fetch or write the shard again")
            members[name] = content
        record = record_from(key, members, source=repr(where))
        if len(record.segments) != self.manifest.num_segments:
            raise InputError(f"{where!r}: record {key!r} has {len(record.segments)} segments, {self.manifest.num_segments} in the manifest")
        return record

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_edges": {}}

    def verify(self) -> None:
        """Read every shard to its end. Raises InputError for the first whose SHA-256 is not that of the manifest."""
        for shard in self._shards:
            with self._path(shard).open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != shard.sha256:
                    raise InputError(f"{str(self._path(shard))!r} is damaged: its SHA-256 is not that of the manifest; fetch it again")

    def _path(self, shard: ShardEntry) -> Path:
        return self.folder / f"{shard.name}.tar"

    def _edges_of(self, shard: ShardEntry) -> npt.NDArray[np.int64]:
        if shard.name not in self._edges:
            try:
                indexed, edges = read_index(self.folder, shard.name)
            except FileNotFoundError:
                raise InputError(f"{str(self._path(shard))!r} has no index beside it ({shard.name}.index.json); fetch it again") from None
            if indexed != shard:
                raise InputError(
                    f"{shard.name}.index.json in {str(self.folder)!r} is of another shard than the manifest's; fetch both again"
                )
            self._edges[shard.name] = edges
        return self._edges[shard.name]


def _check_size(path: Path, shard: ShardEntry, found: int | None = None) -> None:
    try:
        found = path.stat().st_size if found is None else found
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror}), but the manifest lists it; fetch it again") from None
    if found != shard.num_bytes:
        raise InputError(f"{str(path)!r} has {found} bytes, {shard.num_bytes} in the manifest: it is cut or of another run; fetch it again")


def _stretch(path: Path, shard: ShardEntry, low: int, high: int) -> bytes:
    if high - low > _MAX_RECORD_BYTES:
        raise InputError(f"{str(path)!r}: a record of {high - low} bytes; at most {_MAX_RECORD_BYTES} are read")
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be read ({error.strerror}); fetch it again") from None
    try:
        _check_size(path, shard, os.fstat(descriptor).st_size)
        data = os.pread(descriptor, high - low, low)
    finally:
        os.close(descriptor)
    if len(data) != high - low:
        raise InputError(f"{str(path)!r} ends before byte {high}: it is cut; fetch it again")
    return data
