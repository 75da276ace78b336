"""The reader of released files against what a stranger may send: the whole or a CheckpointError, and no memory on trust."""

from __future__ import annotations

import contextlib
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from watchword.errors import CheckpointError
from watchword.reserve.msgpack_file import MAX_DEPTH, MAX_ENTRIES, StoredArray, Tree, read_tree, write_tree

EXAMPLE: dict[str, Any] = {
    "step": 70000,
    "params": {
        "a": {"kernel": torch.arange(12, dtype=torch.float16).view(3, 4), "bias": torch.tensor([0.0, -0.0, float("inf")])},
        "long name " * 4: torch.arange(300, dtype=torch.int32),
        "b": torch.tensor([1.5, -2.0]).bfloat16(),
        "none": torch.empty(0, 3),
        "scalar": torch.tensor(-7, dtype=torch.int32),
    },
    "opt_state": None,
}
FIXED = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def loaded(tree: Tree) -> Any:
    if isinstance(tree, dict):
        return {name: loaded(value) for name, value in tree.items()}
    return tree.tensor() if isinstance(tree, StoredArray) else tree


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return isinstance(right, dict) and list(left) == list(right) and all(equal(left[name], right[name]) for name in left)
    if isinstance(left, Tensor):
        same = isinstance(right, Tensor) and left.dtype == right.dtype and left.shape == right.shape
        return same and torch.equal(left.flatten().view(torch.uint8), right.flatten().view(torch.uint8))
    return type(left) is type(right) and bool(left == right)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("example") / "file"
    write_tree(path, EXAMPLE)
    return path.read_bytes()


def array(shape: bytes, dtype: bytes = b"\xa7float16", data: bytes = b"\xc4\x02\0\0") -> bytes:
    inside = b"\x93" + shape + dtype + data
    return b"\xc7" + bytes([len(inside), 1]) + inside


def test_what_is_written_is_read_again(path: Path) -> None:
    write_tree(path, EXAMPLE)
    assert equal(loaded(read_tree(path)), EXAMPLE)


def test_long_arrays_in_pieces(path: Path) -> None:
    tree = {"a": torch.randn(7, 5), "b": {"c": torch.arange(100, dtype=torch.int32)}}
    write_tree(path, tree, chunk_bytes=24)
    assert b"__msgpack_chunked_array__" in path.read_bytes()
    assert equal(loaded(read_tree(path)), tree)


sizes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-32, 2**63 - 1),
    st.builds(
        lambda shape, dtype: (torch.randn(shape) * 9).to(dtype), sizes, st.sampled_from([torch.float16, torch.bfloat16, torch.int32])
    ),
)
trees = st.dictionaries(
    st.text(max_size=40), st.recursive(leaves, lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=20)), max_size=20
)


@settings(FIXED, max_examples=30)
@given(tree=trees, chunk_bytes=st.sampled_from([8, 1 << 30]))
def test_any_tree_survives(path: Path, tree: dict[str, Any], chunk_bytes: int) -> None:
    write_tree(path, tree, chunk_bytes=chunk_bytes)
    assert equal(loaded(read_tree(path)), tree)


@FIXED
@given(data=st.data())
def test_a_file_cut_anywhere_is_refused(path: Path, example: bytes, data: st.DataObject) -> None:
    path.write_bytes(example[: data.draw(st.integers(0, len(example) - 1))])
    with pytest.raises(CheckpointError, match=str(path)):
        read_tree(path)


@FIXED
@given(data=st.data())
def test_a_file_with_changed_bytes_is_read_or_refused(path: Path, example: bytes, data: st.DataObject) -> None:
    changed = bytearray(example)
    for place in data.draw(st.lists(st.integers(0, len(changed) - 1), min_size=1, max_size=4)):
        changed[place] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(changed))
    with contextlib.suppress(CheckpointError):
        loaded(read_tree(path))


@FIXED
@given(noise=st.binary(max_size=200))
def test_noise_is_read_or_refused(path: Path, noise: bytes) -> None:
    path.write_bytes(noise)
    with contextlib.suppress(CheckpointError):
        loaded(read_tree(path))


HUGE = struct.pack(">I", 2**32 - 1)
PIECES = b"\x83\xb9__msgpack_chunked_array__\xc3\xa5shape"
HOSTILE = {
    "a map that claims four billion entries": b"\xdf" + HUGE,
    "a map of more entries than bytes": b"\xde\xff\xff" + b"\xa0\xc0" * 100,
    "a name that claims four gigabytes": b"\x81\xdb" + HUGE + b"a",
    "a name of a kilobyte": b"\x81\xda\x04\x00" + b"a" * 1024 + b"\xc0",
    "a name that is no UTF-8": b"\x81\xa1\xff\xc0",
    "a name that is a number": b"\x81\x01\x01",
    "the same name twice": b"\x82\xa1a\xc0\xa1a\xc0",
    "maps nested without end": b"\x81\xa1a" * 100_000 + b"\xc0",
    "an array that claims four gigabytes": b"\x81\xa1a\xc9" + HUGE + b"\x01\x93",
    "a shape larger than its bytes": b"\x81\xa1a" + array(b"\x92\xce" + HUGE + b"\xce" + HUGE),
    "a shape smaller than its bytes": b"\x81\xa1a" + array(b"\x90", data=b"\xc4\x04\0\0\0\0"),
    "a negative size": b"\x81\xa1a" + array(b"\x91\xff"),
    "a shape of many axes": b"\x81\xa1a" + array(b"\x9f" + b"\x01" * 15),
    "a shape that claims four billion axes": b"\x81\xa1a" + array(b"\xdd" + HUGE),
    "bytes that claim four gigabytes": b"\x81\xa1a" + array(b"\x91\x01", data=b"\xc6" + HUGE),
    "an unknown dtype": b"\x81\xa1a" + array(b"\x91\x01", dtype=b"\xa6object"),
    "an array inside which something follows": b"\x81\xa1a" + array(b"\x91\x01", data=b"\xc4\x02\0\0\xc0"),
    "a complex number": b"\x81\xa1a\xd5\x02\x90\x90",
    "a list": b"\x81\xa1a\x91\xc0",
    "bare bytes": b"\x81\xa1a\xc4\x01\x00",
    "a reserved type": b"\x81\xa1a\xc1",
    "bytes behind the end": b"\x80\xc0",
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "pieces that do not make the shape": PIECES + b"\x81\xa10\xcf\0\0\0\x10\0\0\0\0" + b"\xa6chunks\x81\xa10" + array(b"\x91\x01"),
    "pieces without numbers": PIECES + b"\x81\xa1x\x01" + b"\xa6chunks\x81\xa10" + array(b"\x91\x01"),
    "pieces that are none": b"\x81\xb9__msgpack_chunked_array__\xc3",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_files_are_refused_in_little_memory(path: Path, name: str) -> None:
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=str(path)):
            read_tree(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_large_file_of_small_entries_is_refused(path: Path) -> None:
    count = 2 * MAX_ENTRIES
    path.write_bytes(b"\xdf" + struct.pack(">I", count) + b"".join(b"\xa5%05x\xc0" % number for number in range(count)))
    with pytest.raises(CheckpointError, match="entries"):
        read_tree(path)


def test_the_deepest_tree_that_is_read(path: Path) -> None:
    tree: dict[str, Any] = {}
    for _ in range(MAX_DEPTH - 1):
        tree = {"a": tree}
    write_tree(path, tree)
    assert equal(loaded(read_tree(path)), tree)
    write_tree(path, {"a": tree})
    with pytest.raises(CheckpointError, match="nested"):
        read_tree(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(CheckpointError, match=str(path)):
            read_tree(path)
