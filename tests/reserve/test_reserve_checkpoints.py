"""Reserve's weights in and out, whole or not at all: our folders, and the authors' format."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from tiny_clips import tiny_model
from watchword import Reserve
from watchword.errors import CheckpointError, ConfigError, DownloadError, InputError
from watchword.reserve import ReserveConfig
from watchword.reserve.checkpoints import (
    RELEASED_NAMES,
    ReleasedFile,
    holds_reserve,
    load,
    own_tokenizer,
    read_released,
    save_released,
)
from watchword.reserve.config import kind_of
from watchword.reserve.msgpack_file import StoredArray, read_tree, write_tree
from watchword.reserve.names import from_released, our_name, released_name, released_shape
from watchword.text.reserve import default_tokenizer

SMALL = ReserveConfig(width=64, head_size=32, vision_layers=2, audio_layers=1, span_layers=1, joint_layers=1, grid=(4, 6), vocab_size=50)


def small_model(config: ReserveConfig = SMALL) -> Reserve:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Reserve(config).eval()
        for parameter in model.parameters():  # also the zeros and ones, so that nothing can be exchanged unnoticed
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def model() -> Reserve:
    return small_model()


@pytest.fixture
def released(model: Reserve, tmp_path: Path) -> Path:
    path = tmp_path / "ckpt_77"
    save_released(model, path, step=77)
    return path


def equal(left: Reserve, right: Reserve) -> bool:
    others = right.state_dict()
    return left.state_dict().keys() == others.keys() and all(
        torch.equal(tensor, others[name]) for name, tensor in left.state_dict().items()
    )


def edited(path: Path, change: Any) -> None:
    """Write the file again with its nested arrays changed by ``change(params)``."""

    def loaded(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: loaded(value) for name, value in tree.items()}
        return tree.tensor() if isinstance(tree, StoredArray) else tree

    tree = loaded(read_tree(path))
    change(tree["params"])
    write_tree(path, tree)


def test_our_folder_there_and_back(model: Reserve, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "folder")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir() if path.suffix != ".md") == ["config.json", "model.safetensors"]
    for source in (tmp_path / "folder", tmp_path / "folder" / "model.safetensors"):
        again = Reserve.from_pretrained(source)
        assert equal(again, model) and again.config == model.config and not again.training
    other = Reserve.from_pretrained(tmp_path / "folder", grid=(6, 4))
    assert equal(other, model) and other.config.grid == (6, 4)


@pytest.mark.parametrize("parts", [("audio_encoder", "span_encoder", "head"), ("proj",), ("head",)])
def test_the_card_says_what_the_weights_are(tmp_path: Path, parts: tuple[str, ...]) -> None:
    model = small_model(dataclasses.replace(SMALL, parts=parts, weights="mine | of today"))
    if "span_encoder" in parts:  # scales that stand where training begins
        model.contrastive_scales.data.fill_(1)
        model.save_pretrained(tmp_path / "begun")
        assert "untrained, mine" in (tmp_path / "begun" / "README.md").read_text()
        model.contrastive_scales.data += 0.1
    model.save_pretrained(tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text()
    assert f"{kind_of(parts)}, mine \\| of today" in card and "4 x 6 of 16-pixel patches: 64 x 96 pixels" in card and "SHA-256" not in card
    assert ("span 1" in card) is ("span_encoder" in parts) and "untrained" not in card
    (tmp_path / "folder" / "README.md").write_text("my own")
    small_model().save_pretrained(tmp_path / "folder")
    assert (tmp_path / "folder" / "README.md").read_text() == "my own"
    small_model().save_pretrained(tmp_path / "random")
    assert "**untrained: random numbers**" in (tmp_path / "random" / "README.md").read_text()


def test_a_folder_has_a_tokenizer_of_as_many_tokens(tmp_path: Path) -> None:
    model = small_model(dataclasses.replace(SMALL, vocab_size=len(default_tokenizer())))
    model.save_pretrained(tmp_path / "folder")
    own = own_tokenizer(tmp_path / "folder")
    assert own is not None and own.encode("a plain line") == default_tokenizer().encode("a plain line")
    assert Tokenizer.from_file(str(tmp_path / "folder" / "tokenizer.json")).get_vocab_size() == model.config.vocab_size
    small_model().save_pretrained(tmp_path / "small")
    assert own_tokenizer(tmp_path / "small") is None


def test_whose_weights_a_file_holds_shows_in_its_content(model: Reserve, released: Path, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path / "ours")
    tiny_model().save_pretrained(tmp_path / "xclip")
    for suffix in ("", ".pth", ".bin"):
        shutil.copy(released, tmp_path / f"renamed{suffix}")
        assert holds_reserve(tmp_path / f"renamed{suffix}")
    torch.save({"params": torch.ones(3)}, tmp_path / "pickled")
    (tmp_path / "text").write_text("step")
    for name in ("run", "empty"):
        (tmp_path / name).mkdir()
    shutil.copy(released, tmp_path / "run" / "ckpt_9")
    for name in ("ours", "ours/model.safetensors", "run"):
        assert holds_reserve(tmp_path / name)
    for name in ("xclip", "xclip/model.safetensors", "pickled", "text", "missing", "empty", "n" * 300):
        assert not holds_reserve(tmp_path / name)
    assert holds_reserve("ckpts/base_resadapt") and holds_reserve("gs://merlotreserve/ckpts/base") and not holds_reserve("nobody/base")


def test_a_configuration_edited_beside_the_weights_is_noticed(model: Reserve, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    stated = json.loads((tmp_path / "config.json").read_text())
    for changes, error in (
        ({"rotary": "standard"}, CheckpointError),
        ({"colour": 1}, ConfigError),
        ({"model_type": "clip"}, CheckpointError),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**stated, **changes}))
        with pytest.raises(error, match=next(iter(changes))):
            load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**stated, "grid": [6, 4]}))
    assert load(tmp_path).config.grid == (6, 4)


def test_the_released_format_there_and_back(model: Reserve, tmp_path: Path) -> None:
    for dtype in ("float32", "float16"):
        path = tmp_path / dtype
        save_released(model, path, step=5, dtype=dtype)
        again = load(path, grid=SMALL.grid)
        assert dataclasses.replace(again.config, weights="random") == SMALL
        assert "step 5" in again.config.weights
        exact = {name: tensor if dtype == "float32" else tensor.half().float() for name, tensor in model.state_dict().items()}
        assert all(torch.equal(tensor, exact[name]) for name, tensor in again.state_dict().items())
    again.save_pretrained(tmp_path / "ours")
    assert equal(load(tmp_path / "ours"), again)
    save_released(load(tmp_path / "ours"), tmp_path / "back", step=5)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "float16").read_bytes()


def test_what_their_code_could_not_hold_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="rotary"):
        save_released(small_model(dataclasses.replace(SMALL, rotary="standard")), tmp_path / "a")
    large = small_model()
    large.head.bias.data[3] = 70000  # type: ignore[union-attr]
    with pytest.raises(CheckpointError, match="head/bias"):
        save_released(large, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    save_released(large, tmp_path / "a", dtype="float32")
    assert equal(load(tmp_path / "a"), large)


@pytest.mark.parametrize(
    ("parts", "file_name", "kind", "grid"),
    [
        (SMALL.parts, "base", "pretrained", (12, 20)),
        (SMALL.parts, "base_resadapt", "pretrained", (18, 32)),
        (("proj",), "anything", "finetuned on VCR", (18, 32)),
        (("audio_encoder", "proj"), "anything", "finetuned on TVQA", (18, 32)),
        (("audio_encoder", "span_encoder"), "anything", "custom", (12, 20)),
    ],
)
def test_what_a_file_is_shows_in_its_content(
    tmp_path: Path, parts: tuple[str, ...], file_name: str, kind: str, grid: tuple[int, int]
) -> None:
    model = small_model(dataclasses.replace(SMALL, parts=parts))
    save_released(model, tmp_path / file_name, dtype="float32")
    file = read_released(tmp_path / file_name)
    assert (file.kind, file.size, file.config().grid) == (kind, "custom", grid)
    again = load(tmp_path / file_name)
    assert equal(again, model) and again.config.grid == grid and set(again.config.parts) == set(parts)


@pytest.mark.parametrize("size", ["base", "large"])
def test_the_papers_sizes_are_recognised(size: str) -> None:
    config = ReserveConfig.named(size)
    with torch.device("meta"):
        state = Reserve(config).state_dict()
    shapes = {(path := released_name(name)): released_shape(path, tensor.shape, 64, 2) for name, tensor in state.items()}
    params = {name: StoredArray(shape, torch.float16, ()) for name, shape in shapes.items()}
    file = ReleasedFile(step=1, params=params, optimizer=None, source="file")
    assert (file.size, file.kind) == (size, "pretrained")
    assert dataclasses.replace(file.config(), weights="random") == config


def test_learned_positions_are_found(tmp_path: Path) -> None:
    model = small_model(dataclasses.replace(SMALL, learned_positions=30))
    save_released(model, tmp_path / "a", dtype="float32")
    assert load(tmp_path / "a").config.learned_positions == 30


def drop(params: Any) -> None:
    del params["joint_transformer"]["final_ln"]["bias"]


def add(params: Any) -> None:
    params["span_encoder"]["extra"] = torch.zeros(3)


def misshape(params: Any) -> None:
    kernel = params["vision_encoder"]["seq_attnpool"]["out"]["kernel"]
    params["vision_encoder"]["seq_attnpool"]["out"]["kernel"] = kernel.flatten(0, 1)


def make_whole(params: Any) -> None:
    params["head"]["bias"] = params["head"]["bias"].int()


def forget_the_words(params: Any) -> None:
    del params["token_encoder"]


def put_a_number(params: Any) -> None:
    params["contrastive_scales"] = 3


def lie_about_width(params: Any) -> None:
    params["token_encoder"]["Embed_0"]["embedding"] = torch.zeros(1, 1 << 16)
    params["vision_encoder"]["embedding"]["kernel"] = torch.zeros(3, 1 << 16)
    params["audio_encoder"]["embedding"]["kernel"] = torch.zeros(2, 1, 1 << 16)


def lie_about_patches(params: Any) -> None:
    params["vision_encoder"]["embedding"]["kernel"] = torch.zeros(3 << 20, 1)


def pile_up_layers(params: Any) -> None:
    params["vision_encoder"]["transformer"] |= {f"layer_{number:04d}": {"a": torch.zeros(1)} for number in range(3, 2000)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lie_about_patches, "no vision_encoder/embedding/kernel of 2 axes that fits"),
        (drop, "1 missing: joint_transformer/final_ln/bias"),
        (add, "1 unexpected: span_encoder/extra"),
        (misshape, "vision_encoder/seq_attnpool/out/kernel 64 x 64 instead of 2 x 32 x 64"),
        (make_whole, "head/bias is of whole numbers"),
        (forget_the_words, "token_encoder"),
        (put_a_number, "contrastive_scales is no array"),
        (lie_about_width, "too few numbers for width 65536"),
    ],
)
def test_a_file_that_is_no_whole_model_is_refused(released: Path, change: Any, message: str) -> None:
    edited(released, change)
    with pytest.raises(CheckpointError, match=message):
        load(released)


def test_a_file_of_countless_tiny_layers_is_refused(tmp_path: Path) -> None:
    tiny = ReserveConfig(width=8, head_size=8, vision_layers=1, audio_layers=1, span_layers=1, joint_layers=1, vocab_size=300_000)
    save_released(small_model(tiny), tmp_path / "file")
    edited(tmp_path / "file", pile_up_layers)
    with pytest.raises(CheckpointError, match=r"2,00\d layers are in it"):
        load(tmp_path / "file")


@pytest.mark.parametrize("content", [b"\x80", b"\xc0", b"\x82\xa6params\x80\xa3pip\xc0", b"\x82\xa6params\x80\xa4step\xa1a", b"PK\x03\x04"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CheckpointError, match="file is no released checkpoint"):
        load(tmp_path / "file")


def test_numbers_that_are_not_finite_are_warned_of(released: Path) -> None:
    def overflow(params: dict[str, Tensor]) -> None:
        params["contrastive_scales"][1] = float("inf")

    edited(released, overflow)
    with pytest.warns(UserWarning, match="contrastive_scales"):
        load(released)


def test_the_last_checkpoint_of_a_folder_is_taken(model: Reserve, tmp_path: Path) -> None:
    for step in (9, 10):
        save_released(model, tmp_path / f"ckpt_{step}", step=step)
    assert "step 10)" in load(tmp_path).config.weights
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="or the authors"):
        load(tmp_path / "empty")


@pytest.mark.parametrize("name", [*RELEASED_NAMES, "base", "tvqa_finetune_large", "gs://merlotreserve/ckpts/base"])
def test_the_dead_addresses_are_not_asked(name: str) -> None:
    with pytest.raises(DownloadError, match="no longer be downloaded; if you still have the file, give its path"):
        load(name)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is at .nowhere"):
        load("nowhere")
    with pytest.raises(CheckpointError, match="missing"):
        load(tmp_path / "missing")
    with pytest.raises(DownloadError, match="someone/reserve is not on this machine"):
        load("someone/reserve", offline=True)


def test_released_names_are_one_to_one(model: Reserve) -> None:
    state = small_model(dataclasses.replace(SMALL, parts=(*SMALL.parts, "proj"), learned_positions=9)).state_dict()
    released = [released_name(name) for name in state]
    assert len(set(released)) == len(state)
    assert [our_name(name) for name in released] == list(state)
    assert "joint_transformer/layer_00/attention_layer/qkv/kernel" in released and "joint_transformer/pe" in released
    for name, tensor in state.items():
        shape = released_shape(released_name(name), tensor.shape, 32, 2)
        assert from_released(released_name(name), torch.empty(shape)).shape == tensor.shape
