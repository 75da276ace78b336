"""The authors' checkpoint files against what their own code loads: every checkpoint fixture in the folder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from reserve_fixtures import FOLDER, difference, entries, read, seeded_state
from watchword.reserve.checkpoints import load, read_released, save_released
from watchword.reserve.msgpack_file import StoredArray, Tree, read_tree, write_tree
from watchword.reserve.names import released_name, to_released

UNIT = 2e-6


def sha256(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().flatten().view(torch.uint8).numpy().data).hexdigest()


def loaded(tree: Tree) -> Any:
    """All arrays read, as the file has them."""
    if isinstance(tree, dict):
        return {name: loaded(value) for name, value in tree.items()}
    return tree.tensor() if isinstance(tree, StoredArray) else tree


def at(tree: Any, path: str) -> Any:
    for name in path.split("/"):
        tree = tree[name]
    return tree


@pytest.mark.parametrize("entry", entries("checkpoint"))
def test_parameters_are_bit_equal(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, manifest = read(entry["expected"])["params_only"], read(entry["manifest"])
    file = read_released(FOLDER / entry["params_only"])
    assert (file.step, file.optimizer) == (expected["step"], expected["opt_state"])
    assert set(file.params) == set(expected["params"]) == {p["name"] for p in manifest["params"]}

    model = load(FOLDER / entry["params_only"])
    config, state = model.config, model.state_dict()
    assert file.kind == "pretrained"
    for name, tensor in state.items():
        path = released_name(name)
        stored = to_released(path, tensor, config.head_size, config.audio_patch)
        assert list(stored.shape) == expected["params"][path]["shape"]
        assert sha256(stored) == expected["params"][path]["sha256_float32_le"], path
    seeded = seeded_state(manifest, seeded_weights)
    for name in state.keys() - {"head.bias"}:  # of which some numbers were set by hand; the rest their saving rounded to float16
        assert torch.allclose(state[name], seeded[name], rtol=1e-3, atol=1e-4), name

    with torch.no_grad():
        vectors = model.embed_spans(torch.tensor(expected["text_spans"]))
    assert difference(vectors, torch.tensor(expected["embed_text_spans_only"])) <= UNIT


@pytest.mark.parametrize("entry", entries("checkpoint"))
def test_the_optimizers_state_is_bit_equal(entry: dict[str, Any]) -> None:
    expected = read(entry["expected"])["with_optimizer"]
    tree = loaded(read_tree(FOLDER / entry["with_optimizer"]))
    leaves: list[str] = []

    def walk(branch: Any, prefix: str) -> None:
        for name, value in branch.items():
            walk(value, f"{prefix}{name}/") if isinstance(value, dict) and value else leaves.append(prefix + name)

    walk(tree, "")
    assert set(leaves) == set(expected)
    for path, known in expected.items():
        value = at(tree, path)
        if known.get("empty_map"):
            assert value == {}
        elif "scalar" in known:
            assert int(value) == known["scalar"]
            assert known["type"] != "ndarray:int32" or (value.dtype == torch.int32 and value.shape == ())
        else:
            value = value.float() if value.dtype == torch.float16 else value  # as their loading does
            assert str(value.dtype) == f"torch.{known['dtype_after_load']}"
            assert list(value.shape) == known["shape"]
            assert sha256(value) == known["sha256_bytes_le"], path


@pytest.mark.parametrize("entry", entries("checkpoint"))
def test_what_we_write_is_their_file_byte_for_byte(entry: dict[str, Any], tmp_path: Path) -> None:
    written = tmp_path / "written"
    theirs = FOLDER / entry["params_only"]
    save_released(load(theirs), written, step=read_released(theirs).step)
    assert written.read_bytes() == theirs.read_bytes()
    for name in (entry["params_only"], entry["with_optimizer"]):
        write_tree(written, loaded(read_tree(FOLDER / name)))
        assert written.read_bytes() == (FOLDER / name).read_bytes()
