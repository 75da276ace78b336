"""A strict reader and writer of the released checkpoint files: one MessagePack object of nested maps and arrays (spec section 7).

A file may come from anywhere, so nothing in it is trusted: it is mapped, not read; every length is checked against what is left of the
file before anything is made of it; depth, number of entries and length of names are limited; only the forms that such a file has are
accepted. Reading the structure makes no copy of any array, so that names and shapes can be checked before a number is loaded.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import torch
from torch import Tensor

from ..errors import CheckpointError
from ..files import replacing

__all__ = ["StoredArray", "Tree", "read_tree", "write_tree"]

MAX_DEPTH = 32
MAX_ENTRIES = 100_000  # maps, arrays, names and values in all; a Large model with its optimizer has some 5,000
MAX_NAME_BYTES = 256
MAX_AXES = 8
MAX_CHUNKS = 1024
CHUNK_BYTES = 1 << 30  # longer arrays are written in pieces
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "int32": torch.int32}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_CHUNKED = "__msgpack_chunked_array__"
_ARRAY, _SCALAR = 1, 3


@dataclass(frozen=True)
class StoredArray:
    """An array that is still in its file: shape, dtype, and where its bytes are."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    pieces: tuple[memoryview, ...]

    def tensor(self) -> Tensor:
        """A copy of its own, in the dtype of the file, bit for bit. Little-endian, as the file is."""
        flat = torch.empty(prod(self.shape), dtype=self.dtype)
        if flat.numel():
            raw = flat.view(torch.uint8).numpy().data
            start = 0
            for piece in self.pieces:
                raw[start : start + len(piece)] = piece
                start += len(piece)
        return flat.view(self.shape)


Tree: TypeAlias = "dict[str, Tree] | StoredArray | int | float | bool | str | None"


def read_tree(path: Path) -> Tree:
    """The structure of a file; its arrays stay in the file until ``tensor`` is asked of them.

    Raises CheckpointError that names the file and the byte: it is missing, empty, cut short, goes on behind its end, or holds anything
    that a checkpoint does not.
    """
    if not path.is_file():  # a pipe would be waited for
        raise CheckpointError(f"{path}: no such file of weights")
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # ValueError: an empty file
        raise CheckpointError(f"{path}: cannot be read as a checkpoint ({error})") from error
    reader = _Reader(data, str(path))
    tree = reader.tree(0)
    if reader.place != len(data):
        raise reader.error(f"{len(data) - reader.place} bytes follow the end of the checkpoint")
    return tree


class _Reader:
    """A place in bytes that it will not leave."""

    def __init__(self, data: memoryview, source: str) -> None:
        self.data = data
        self.source = source
        self.place = 0
        self.entries = 0

    def error(self, problem: str) -> CheckpointError:
        return CheckpointError(
            f"{self.source} is no released checkpoint, or a damaged one, nothing was loaded: at byte {self.place:,} {problem}"
        )

    def take(self, count: int) -> memoryview:
        left = len(self.data) - self.place
        if count > left:
            raise self.error(f"{count:,} bytes should follow, but only {left:,} do")
        taken = self.data[self.place : self.place + count]
        self.place += count
        return taken

    def number(self, form: str) -> int | float:
        value: int | float = struct.unpack(">" + form, self.take(struct.calcsize(form)))[0]
        return value

    def length(self, kind: int, forms: Mapping[int, str]) -> int | None:
        """The length that stands behind the type byte ``kind``, or None if the kind is not among ``forms``."""
        return int(self.number(forms[kind])) if kind in forms else None

    def count(self) -> None:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise self.error(f"there are more than {MAX_ENTRIES:,} entries")

    def tree(self, depth: int) -> Tree:
        """A map, an array, or a plain value."""
        self.count()
        kind = int(self.number("B"))
        size = kind & 0x0F if kind >> 4 == 0x8 else self.length(kind, {0xDE: "H", 0xDF: "I"})
        if size is not None:
            return self.map(size, depth)
        extension = self.extension_length(kind)
        if extension is not None:
            return self.extension(extension)
        return self.plain(kind)

    def map(self, size: int, depth: int) -> Tree:
        if depth >= MAX_DEPTH:
            raise self.error(f"maps are nested deeper than {MAX_DEPTH}")
        content: dict[str, Tree] = {}
        for _ in range(size):
            self.count()
            name = self.text(int(self.number("B")))
            if name in content:
                raise self.error(f"{name!r} stands twice in one map")
            content[name] = self.tree(depth + 1)
        return self.joined(content) if _CHUNKED in content else content

    def text(self, kind: int) -> str:
        size = kind & 0x1F if kind >> 5 == 0b101 else self.length(kind, {0xD9: "B", 0xDA: "H", 0xDB: "I"})
        if size is None:
            raise self.error(f"a name should stand, but a value of type 0x{kind:02x} does")
        if size > MAX_NAME_BYTES:
            raise self.error(f"a name of {size:,} bytes stands; {MAX_NAME_BYTES} is the most")
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise self.error("a name is not UTF-8") from None

    def whole(self, kind: int) -> int | None:
        """A whole number, or None if the kind is none."""
        if kind < 0x80:
            return kind
        if kind >= 0xE0:
            return kind - 0x100
        forms = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
        return int(self.number(forms[kind])) if kind in forms else None

    def plain(self, kind: int) -> Tree:
        value = self.whole(kind)
        if value is not None:
            return value
        if kind in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
        if kind in (0xCA, 0xCB):
            return float(self.number("f" if kind == 0xCA else "d"))
        if kind >> 5 == 0b101 or kind in (0xD9, 0xDA, 0xDB):
            return self.text(kind)
        raise self.error(f"a value of type 0x{kind:02x} stands, which no checkpoint has")

    def extension_length(self, kind: int) -> int | None:
        fixed = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
        return fixed[kind] if kind in fixed else self.length(kind, {0xC7: "B", 0xC8: "H", 0xC9: "I"})

    def extension(self, size: int) -> StoredArray:
        kind = int(self.number("b"))
        if kind not in (_ARRAY, _SCALAR):
            raise self.error(f"an extension of kind {kind} stands, which is no array")
        end = self.place + size
        inside = _Reader(self.data[: self.place + len(self.take(size))], self.source)
        inside.place = end - size
        array = inside.array()
        if inside.place != end:
            raise inside.error(f"{end - inside.place:,} bytes follow the end of an array")
        return array

    def array(self) -> StoredArray:
        """What an array extension holds: [shape, dtype, bytes]."""
        if self.list_length(3) != 3:
            raise self.error("an array should have a shape, a dtype and bytes")
        shape = tuple(self.size() for _ in range(self.list_length(MAX_AXES)))
        name = self.text(int(self.number("B")))
        if name not in DTYPES:
            raise self.error(f"an array is of {name!r}; a checkpoint has {', '.join(DTYPES)}")
        kind = int(self.number("B"))
        size = self.length(kind, {0xC4: "B", 0xC5: "H", 0xC6: "I"})
        expected = prod(shape) * DTYPES[name].itemsize
        if size != expected:
            raise self.error(f"an array of shape {shape} and {name} needs {expected:,} bytes, but {size or 0:,} are given")
        return StoredArray(shape, DTYPES[name], (self.take(size),))

    def list_length(self, most: int) -> int:
        kind = int(self.number("B"))
        size = kind & 0x0F if kind >> 4 == 0x9 else self.length(kind, {0xDC: "H", 0xDD: "I"})
        if size is None or size > most:
            raise self.error(f"a list of at most {most} should stand")
        return size

    def size(self) -> int:
        value = self.whole(int(self.number("B")))
        if value is None or not 0 <= value < 1 << 40:
            raise self.error(f"{value} is no size of an axis")
        return value

    def joined(self, content: dict[str, Tree]) -> StoredArray:
        """A long array that was written in flat pieces: {marker: true, shape: {"0": ..}, chunks: {"0": ..}}."""
        shape, chunks = content.get("shape"), content.get("chunks")
        if set(content) != {_CHUNKED, "shape", "chunks"} or not isinstance(shape, dict) or not isinstance(chunks, dict):
            raise self.error("an array in pieces has something else than a shape and its pieces")
        sizes, pieces = _numbered(shape), _numbered(chunks)
        arrays = [piece for piece in pieces if isinstance(piece, StoredArray) and len(piece.shape) == 1]
        lengths = [size for size in sizes if type(size) is int and 0 <= size < 1 << 40]
        if not 0 < len(pieces) <= MAX_CHUNKS or len(arrays) != len(pieces) or len(lengths) != len(sizes) or len(sizes) > MAX_AXES:
            raise self.error("an array in pieces lacks pieces or sizes")
        dtypes = {array.dtype for array in arrays}
        if len(dtypes) != 1 or len(sizes) != len(shape) or len(pieces) != len(chunks):
            raise self.error("the pieces of an array are not numbered, or of several dtypes")
        if sum(array.shape[0] for array in arrays) != prod(lengths):
            raise self.error(f"the pieces of an array do not make its shape {tuple(lengths)}")
        return StoredArray(tuple(lengths), dtypes.pop(), tuple(piece for array in arrays for piece in array.pieces))


def _numbered(content: dict[str, Tree]) -> list[Tree]:
    """The values under "0", "1", ... as far as they go."""
    return [content[str(number)] for number in range(len(content)) if str(number) in content]


def write_tree(path: Path, tree: Mapping[str, Any], *, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Write nested maps of tensors (of a dtype in ``DTYPES``), whole numbers and None, as the released code writes them.

    Lengths take their shortest form. The file is whole or not there. Raises OSError as writing does.
    """
    with replacing(path) as beside, beside.open("wb") as file:
        _write(file, tree, chunk_bytes)


def _write(file: BinaryIO, value: Any, chunk_bytes: int) -> None:
    if isinstance(value, Mapping):
        file.write(_head(len(value), (0x80, 16), ((0xDE, "H"), (0xDF, "I"))))
        for name, inside in value.items():
            file.write(_text(name))
            _write(file, inside, chunk_bytes)
    elif isinstance(value, Tensor) and value.numel() * value.itemsize > chunk_bytes:
        pieces = torch.split(value.flatten(), max(1, chunk_bytes // value.itemsize))  # type: ignore[no-untyped-call]
        shape = {str(axis): size for axis, size in enumerate(value.shape)}
        chunks = {str(number): piece for number, piece in enumerate(pieces)}
        _write(file, {_CHUNKED: True, "shape": shape, "chunks": chunks}, chunk_bytes)
    elif isinstance(value, Tensor):
        _write_array(file, value)
    elif value is None or isinstance(value, bool):
        file.write(b"\xc0" if value is None else b"\xc3" if value else b"\xc2")
    else:
        file.write(_whole(value))


def _write_array(file: BinaryIO, tensor: Tensor) -> None:
    flat = tensor.detach().cpu().contiguous().flatten()
    size = flat.numel() * flat.itemsize
    shape = _head(tensor.ndim, (0x90, 16), ()) + b"".join(_whole(axis) for axis in tensor.shape)
    start = b"\x93" + shape + _text(_NAMES[tensor.dtype]) + _head(size, None, ((0xC4, "B"), (0xC5, "H"), (0xC6, "I")))
    file.write(_extension(len(start) + size) + bytes([_ARRAY]) + start)
    if size:
        file.write(flat.view(torch.uint8).numpy().data)


def _extension(size: int) -> bytes:
    fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
    return bytes([fixed[size]]) if size in fixed else _head(size, None, ((0xC7, "B"), (0xC8, "H"), (0xC9, "I")))


def _text(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _head(len(raw), (0xA0, 32), ((0xD9, "B"), (0xDA, "H"), (0xDB, "I"))) + raw


def _whole(value: int) -> bytes:
    if value < 0:
        return struct.pack(">b", value) if value >= -32 else b"\xd3" + struct.pack(">q", value)
    return bytes([value]) if value < 128 else _head(value, None, ((0xCC, "B"), (0xCD, "H"), (0xCE, "I"), (0xCF, "Q")))


def _head(size: int, short: tuple[int, int] | None, forms: tuple[tuple[int, str], ...]) -> bytes:
    """The shortest type byte and length: ``short`` is (base, how many lengths fit into the type byte)."""
    if short is not None and size < short[1]:
        return bytes([short[0] + size])
    for kind, form in forms:
        if size < 1 << 8 * struct.calcsize(form):
            return bytes([kind]) + struct.pack(">" + form, size)
    raise ValueError(f"{size:,} does not fit into a checkpoint")
