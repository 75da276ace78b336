"""``watchword convert`` of MERLOT Reserve weights: the authors' file to our folder, with tokenizer and card, and back."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from reserve_fixtures import FOLDER, entries
from tiny_clips import tiny_model
from watchword import Reserve
from watchword.cli import main
from watchword.reserve import ReserveConfig
from watchword.reserve.checkpoints import read_released, save_released

SMALL = ReserveConfig(width=64, head_size=32, vision_layers=1, audio_layers=1, span_layers=1, joint_layers=1, vocab_size=32768)


def convert(*arguments: object) -> int:
    return main(["convert", *map(str, arguments)])


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("theirs") / "base_resadapt"
    save_released(Reserve(SMALL), path, step=77)
    return path


def test_their_file_becomes_a_folder_with_tokenizer_and_card_and_their_file_again(
    released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(released, tmp_path / "folder") == 0
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert "pretrained, grid 18 x 32" in capsys.readouterr().err
    card = (tmp_path / "folder" / "README.md").read_text()
    digest = hashlib.sha256(released.read_bytes()).hexdigest()
    assert f"`{digest}`" in card and f"`base_resadapt`, {released.stat().st_size:,} bytes, step 77" in card
    assert "no licence for the weights" in card and "grid 18 x 32" in card
    assert convert(tmp_path / "folder", tmp_path / "again", "--to", "released", "--half") == 0
    again, theirs = read_released(tmp_path / "again"), read_released(released)
    assert again.params.keys() == theirs.params.keys()
    assert all(torch.equal(again.params[name].tensor(), array.tensor()) for name, array in theirs.params.items())
    assert convert(released, tmp_path / "same", "--to", "released", "--half") == 0
    assert (tmp_path / "same").read_bytes() == released.read_bytes()


def test_the_grid_is_asked_for_and_half_is_half_the_size(released: Path, tmp_path: Path) -> None:
    assert convert(released, tmp_path / "whole", "--grid", "24x24") == 0
    assert convert(released, tmp_path / "half", "--half") == 0
    whole, half = (Reserve.from_pretrained(tmp_path / name) for name in ("whole", "half"))
    assert whole.config.grid == (24, 24) and half.config.grid == (18, 32)
    assert all(torch.equal(tensor, half.state_dict()[name]) for name, tensor in whole.state_dict().items())  # they were float16 before
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.55 * sizes[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["RELEASED", "OUT", "--to", "huggingface"], "X-CLIP's"),
        (["RELEASED", "OUT", "--num-frames", "4"], "X-CLIP's"),
        (["RELEASED", "OUT", "--grid", "big"], "ROWSxCOLUMNS"),
        (["RELEASED", "OUT", "--grid", "3x3"], "not two multiples"),
        (["RELEASED", "RELEASED", "--to", "released"], "there already"),
        (["XCLIP", "OUT", "--to", "released"], "no MERLOT Reserve weights"),
        (["XCLIP", "OUT", "--grid", "12x20"], "no MERLOT Reserve weights"),
        (["ckpts/base", "OUT"], "can no longer be downloaded"),
        (["CUT", "OUT"], "CUT"),
    ],
    ids=lambda value: " ".join(value[2:]) or value[0] if isinstance(value, list) else "",
)
def test_what_cannot_be_converted_is_one_line_and_writes_nothing(
    released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    tiny_model().save_pretrained(tmp_path / "xclip")
    (tmp_path / "CUT").write_bytes(released.read_bytes()[:-5000])
    places: dict[str, Any] = {"RELEASED": released, "XCLIP": tmp_path / "xclip", "OUT": tmp_path / "out", "CUT": tmp_path / "CUT"}
    before = released.read_bytes()
    assert convert(*(places.get(argument, argument) for argument in arguments)) == 2
    told = capsys.readouterr().err
    assert said in told and len(told.splitlines()) == 1
    assert not (tmp_path / "out").exists() and released.read_bytes() == before


@pytest.mark.parametrize("entry", entries("checkpoint"))
def test_the_authors_own_file_there_and_back(entry: dict[str, Any], tmp_path: Path) -> None:
    theirs = FOLDER / entry["params_only"]
    assert convert(theirs, tmp_path / "folder") == 0
    assert hashlib.sha256(theirs.read_bytes()).hexdigest() in (tmp_path / "folder" / "README.md").read_text()
    assert convert(tmp_path / "folder", tmp_path / "back", "--to", "released", "--half") == 0
    held, back = read_released(theirs).params, read_released(tmp_path / "back").params
    assert held.keys() == back.keys() and all(torch.equal(held[name].tensor(), back[name].tensor()) for name in held)
