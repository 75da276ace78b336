"""Weights from every source that there is, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from watchword.errors import CheckpointError, ConfigError, InputError
from watchword.weights.states import fill, read_state
from watchword.xclip import Preprocessing, XClip, XClipConfig

SMALL = XClipConfig(
    image_size=32,
    patch_size=16,
    vision_width=64,
    vision_layers=2,
    embed_dim=64,
    text_width=64,
    text_layers=2,
    vocab_size=100,
    context_length=16,
    num_frames=4,
    preprocessing=Preprocessing.official(32),
)
State = dict[str, Tensor]


def small_model(config: XClipConfig = SMALL, seed: int = 0) -> XClip:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = XClip(config).eval()
        for parameter in model.parameters():  # also the zeros and ones, so that nothing can be exchanged unnoticed
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def model() -> XClip:
    return small_model()


def example(config: XClipConfig, batch: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    video = torch.randn(batch, config.num_frames, 3, config.image_size, config.image_size, generator=generator)
    token_ids = torch.randint(1, config.vocab_size - 2, (3, config.context_length), generator=generator)
    token_ids[:, 0], token_ids[:, 5] = config.vocab_size - 2, config.vocab_size - 1
    return video, token_ids


@torch.no_grad()
def logits(model: XClip) -> Tensor:
    return model(*example(model.config)).logits


def same_weights(one: XClip, other: XClip) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


# The zoo of checkpoint shapes (bug case 13)


def transposed_views(state: State) -> State:
    return {name: tensor.T.contiguous().T if tensor.ndim == 2 else tensor for name, tensor in state.items()}


def a_tied_tensor(state: State) -> State:
    state["ln_final.weight"] = state["visual.ln_post.weight"]
    return state


def a_large_storage(state: State) -> State:
    return {name: torch.stack([tensor, tensor])[1] for name, tensor in state.items()}


FORMS: dict[str, Callable[[State], Any]] = {
    "plain": lambda state: state,
    "under model": lambda state: {"model": state, "epoch": 3, "max_accuracy": 80.4, "optimizer": {"state": {}}},
    "under state_dict": lambda state: {"state_dict": state},
    "nested twice": lambda state: {"state_dict": {"model": state, "epoch": 1}},
    "module.": lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
    "_orig_mod.": lambda state: {f"_orig_mod.{name}": tensor for name, tensor in state.items()},
    "both prefixes": lambda state: {"model": {f"module._orig_mod.{name}": tensor for name, tensor in state.items()}},
    "parameters": lambda state: {name: torch.nn.Parameter(tensor) for name, tensor in state.items()},
    "transposed views": transposed_views,
    "views of larger storages": a_large_storage,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_zoo_of_files(form: str, model: XClip, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    torch.save(FORMS[form](dict(model.state_dict())), path)
    loaded = XClip.from_pretrained(path)
    assert same_weights(loaded, model) and not loaded.training
    assert loaded.config == replace(SMALL, weights="weights.pth")
    assert all(parameter.is_contiguous() and parameter.requires_grad for parameter in loaded.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_types_become_float32_exactly(dtype: torch.dtype, model: XClip, tmp_path: Path) -> None:
    halves = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    halves["visual.class_embedding"][:4] = torch.tensor([1.0, -2.5, 6.0e4, 6.0e-8], dtype=dtype)
    if dtype is torch.bfloat16:
        halves["visual.class_embedding"][:4] = torch.tensor([1.0, -2.5, 3.3895e38, 1e-40], dtype=dtype)
    torch.save(halves, tmp_path / "half.pth")
    save_file(halves, tmp_path / "half.safetensors")
    for name in ("half.pth", "half.safetensors"):
        loaded = XClip.from_pretrained(tmp_path / name).state_dict()
        for key, tensor in halves.items():
            assert loaded[key].dtype == torch.float32
            if dtype is torch.bfloat16:
                bits = (tensor.view(torch.int16).to(torch.int32) << 16).view(torch.float32)
                assert torch.equal(loaded[key], bits)
            else:
                assert torch.equal(loaded[key], tensor.float())


def test_tied_tensors_are_untied(model: XClip, tmp_path: Path) -> None:
    state = a_tied_tensor(dict(model.state_dict()))
    torch.save(state, tmp_path / "tied.pth")
    loaded = XClip.from_pretrained(tmp_path / "tied.pth")
    assert torch.equal(loaded.ln_final.weight, loaded.visual.ln_post.weight)
    with torch.no_grad():
        loaded.ln_final.weight += 1
    assert not torch.equal(loaded.ln_final.weight, loaded.visual.ln_post.weight)
    loaded.save_pretrained(tmp_path / "saved")


def test_a_model_with_tied_and_transposed_parameters_can_be_saved(tmp_path: Path) -> None:
    tied = small_model()
    tied.ln_final.weight = tied.visual.ln_post.weight
    tied.text_projection.data = tied.text_projection.data.T.contiguous().T
    tied.save_pretrained(tmp_path)
    assert same_weights(XClip.from_pretrained(tmp_path), tied)


def without(name: str) -> Callable[[State], State]:
    return lambda state: {key: tensor for key, tensor in state.items() if key != name}


BROKEN: dict[str, tuple[Callable[[State], State], str]] = {
    "missing": (without("mit.resblocks.0.ln_1.weight"), "1 missing: mit.resblocks.0.ln_1.weight"),
    "extra": (lambda state: {**state, "head.weight": torch.zeros(2, 3)}, "1 unexpected: head.weight"),
    "misshapen": (
        lambda state: {**state, "visual.proj": torch.zeros(64, 128)},
        r"1 of another shape: visual.proj 64 x 128 instead of 64 x 64",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_does_not_fit_is_one_table_and_nothing_is_loaded(fault: str, model: XClip, tmp_path: Path) -> None:
    spoil, message = BROKEN[fault]
    path = tmp_path / "broken.pth"
    torch.save(spoil(dict(model.state_dict())), path)
    with pytest.raises(CheckpointError, match=message) as caught:
        XClip.from_pretrained(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    (table,) = caught.value.__notes__
    assert len(table.splitlines()) == 2 and table.startswith("problem")

    target = small_model(seed=5)
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    with pytest.raises(CheckpointError):
        fill(target, read_state(path), str(path))
    assert all(torch.equal(before[name], tensor) for name, tensor in target.state_dict().items())


@pytest.mark.parametrize("name", list(small_model().state_dict()))
def test_each_missing_tensor_is_named(name: str, model: XClip, tmp_path: Path) -> None:
    save_file(without(name)(dict(model.state_dict())), tmp_path / "weights.safetensors")
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        XClip.from_pretrained(tmp_path / "weights.safetensors")


def test_many_faults_stay_one_line_with_the_whole_table_as_note(model: XClip) -> None:
    with pytest.raises(CheckpointError, match=r"and \d+ more") as caught:
        fill(small_model(), {f"other.{name}": tensor for name, tensor in model.state_dict().items()}, "file")
    assert "\n" not in str(caught.value) and len(caught.value.__notes__[0].splitlines()) == 2 * len(model.state_dict()) + 1


class Command:
    """Pickled into a file, this would run a command when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def test_nothing_in_a_file_is_run(model: XClip, tmp_path: Path) -> None:
    torch.save({"model": dict(model.state_dict()), "config": Command(tmp_path / "pwned")}, tmp_path / "hostile.pth")
    with pytest.raises(CheckpointError, match=r"holds a (posix|nt)\.system, which is no weight"):
        XClip.from_pretrained(tmp_path / "hostile.pth")
    assert not (tmp_path / "pwned").exists()


def test_the_settings_object_in_official_files_is_read_as_a_dict(model: XClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Official files pickle a yacs CfgNode, which is a dict with attributes of its own."""
    module = types.ModuleType("yacs.config")
    node = type("CfgNode", (dict,), {"__module__": "yacs.config"})
    module.CfgNode = node  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "yacs", types.ModuleType("yacs"))
    monkeypatch.setitem(sys.modules, "yacs.config", module)
    config = node(MODEL=node(ARCH="ViT-B/32"))
    config.__dict__["__immutable__"] = True
    torch.save({"model": dict(model.state_dict()), "config": config, "epoch": 29, "max_accuracy": 80.4}, tmp_path / "k400_32_8.pth")
    monkeypatch.undo()
    loaded = XClip.from_pretrained(tmp_path / "k400_32_8.pth")
    assert same_weights(loaded, model)
    assert loaded.config.weights == "xclip_base_patch32.k400_8f"


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.pth", b""), ("b.pth", b"hello"), ("c.safetensors", b""), ("d.safetensors", b"x" * 100), ("e.pth", b"PK\x03\x04" + b"0" * 50)],
)
def test_damaged_files_are_named(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name) as caught:
        XClip.from_pretrained(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_file_cut_in_half_is_named(model: XClip, tmp_path: Path) -> None:
    for name, write in (("a.pth", torch.save), ("b.safetensors", save_file)):
        path = tmp_path / name
        write(dict(model.state_dict()), path)  # type: ignore[operator]
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(CheckpointError, match=name):
            XClip.from_pretrained(path)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, {"model": 3}, {}, {"a": "b", "w": torch.zeros(1)}])
def test_a_file_without_a_state_dict_is_named(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(CheckpointError, match=r"odd\.pth: holds no state dict"):
        XClip.from_pretrained(tmp_path / "odd.pth")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        XClip.from_pretrained(tmp_path / "nowhere.pth")
    with pytest.raises(InputError, match="no folder or file is at 'nonsense'"):
        XClip.from_pretrained("nonsense")


# Our own folders (bug case 12)


def test_everything_survives_saving_into_another_process(tmp_path: Path) -> None:
    numbers = dict(mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    preprocessing = Preprocessing(crop_size=32, short_side=40, interpolation="antialiased_bilinear", **numbers)  # type: ignore[arg-type]
    config = replace(
        SMALL, num_frames=16, preprocessing=preprocessing, class_names=("déjà vu", 'a "b"'), weights="own run", drop_path=0.1, mit_heads=2
    )
    written = [small_model(replace(config, activation=activation)) for activation in ("quick_gelu", "gelu")]
    for index, saved in enumerate(written):
        saved.save_pretrained(tmp_path / str(index))
    torch.save([*example(config), *map(logits, written)], tmp_path / "expected.pt")
    code = """if True:
        import sys, torch
        from watchword import XClip
        video, token_ids, *expected = torch.load(sys.argv[1] + "/expected.pt")
        for index in range(2):
            model = XClip.from_pretrained(f"{sys.argv[1]}/{index}")
            with torch.no_grad():
                assert torch.equal(model(video, token_ids).logits, expected[index])
            print(repr(model.config))
    """
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, encoding="utf-8", env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [repr(saved.config) for saved in written]
    assert not torch.equal(logits(written[0]), logits(written[1]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("activation", "gelu"),
        ("prompt_heads", 2),
        ("num_frames", 8),
        ("message", "off"),
        ("preprocessing", {"crop_size": 32, "short_side": 33}),
    ],
)
def test_an_edited_configuration_is_reported(field: str, value: object, model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, field: value}))
    with pytest.raises(CheckpointError, match=f"config.json says {field} is"):
        XClip.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_frames", "eight"),
        ("num_frames", 8.5),
        ("vision_width", None),
        ("preprocessing", 5),
        ("preprocessing", {"mean": ["a", "b", "c"]}),
        ("activation", ["gelu"]),
        ("class_names", 5),
        ("class_names", [1, 2]),
        ("prompt_alpha", "x"),
        ("image_size", True),
    ],
)
def test_a_value_of_another_type_is_named(field: str, value: object, model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, field: value}))
    with pytest.raises(ConfigError, match="mean" if isinstance(value, dict) else field):
        XClip.from_pretrained(tmp_path)


def test_class_names_may_be_edited(model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "class_names": ["Kochen", "Wandern"]}))
    assert XClip.from_pretrained(tmp_path).config.class_names == ("Kochen", "Wandern")


def test_an_unknown_key_in_the_configuration_is_named(model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "num_frame": 4}))
    with pytest.raises(ConfigError, match="num_frame"):
        XClip.from_pretrained(tmp_path)


def test_weights_from_elsewhere_in_our_folder_are_taken_with_a_warning(model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    save_file(load_file(tmp_path / "model.safetensors"), tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="taken on trust"):
        assert same_weights(XClip.from_pretrained(tmp_path), model)


def test_the_weights_alone_know_their_configuration(tmp_path: Path) -> None:
    config = replace(SMALL, activation="gelu", class_names=("a", "b"))
    saved = small_model(config)
    saved.save_pretrained(tmp_path)
    loaded = XClip.from_pretrained(tmp_path / "model.safetensors")
    assert loaded.config == config and same_weights(loaded, saved)
    with pytest.raises(InputError, match="states its activation"):
        XClip.from_pretrained(tmp_path / "model.safetensors", activation="gelu")


def test_saving_again_replaces_and_leaves_nothing_behind(model: XClip, tmp_path: Path) -> None:
    small_model(seed=3).save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    assert same_weights(XClip.from_pretrained(tmp_path), model)
    assert {path.name for path in tmp_path.iterdir()} <= {"config.json", "model.safetensors", "README.md"}


@pytest.mark.parametrize("config", [None, "{", "[]", "{}", '{"model_type": "bert"}', '{"model_type": "xclip"}'])
def test_other_folders_are_refused(config: str | None, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
        (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        XClip.from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("changes", [{"message": "off"}, {"mit_layers": 0}, {"mit_layers": 3, "prompt_layers": 1}, {"prompt_layers": 0}])
def test_variants_survive_bare_files(changes: dict[str, Any], tmp_path: Path) -> None:
    variant = small_model(replace(SMALL, **changes))
    torch.save(variant.state_dict(), tmp_path / "variant.pth")
    loaded = XClip.from_pretrained(tmp_path / "variant.pth", num_frames=4)
    assert same_weights(loaded, variant) and torch.equal(logits(loaded), logits(variant))


def test_the_activation_of_a_bare_file_can_be_given(model: XClip, tmp_path: Path) -> None:
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    assert XClip.from_pretrained(tmp_path / "weights.pth", activation="gelu").config.activation == "gelu"


# The number of frames (bug case 9)


def test_another_number_of_frames_is_an_error_that_names_both(tmp_path: Path) -> None:
    small_model(replace(SMALL, num_frames=32)).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=r"32 frames, not 8.*temporal_interpolation"):
        XClip.from_pretrained(tmp_path, num_frames=8)
    assert XClip.from_pretrained(tmp_path, num_frames=32).config.num_frames == 32


def test_temporal_positions_are_interpolated_when_asked(model: XClip, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="interpolated from 4 to 8 frames"):
        longer = XClip.from_pretrained(tmp_path, num_frames=8, temporal_interpolation=True)
    positions, before = longer.mit.positional_embedding[0], model.mit.positional_embedding[0]
    assert torch.equal(positions[0], before[0]) and torch.equal(positions[-1], before[-1])
    assert torch.allclose(positions[1], 0.75 * before[0] + 0.25 * before[1])
    video, token_ids = example(longer.config, batch=3)
    with torch.no_grad():
        together = longer(video, token_ids).logits
        alone = torch.cat([longer(clip[None], token_ids).logits for clip in video])
    assert float((together - alone).abs().max()) < 1e-5
    longer.save_pretrained(tmp_path / "longer")
    assert torch.equal(logits(XClip.from_pretrained(tmp_path / "longer")), logits(longer))


@pytest.mark.parametrize("num_frames", [2, 6, 8, 16])
def test_a_clip_of_another_length_is_refused_before_computing(model: XClip, num_frames: int) -> None:
    with pytest.raises(InputError, match=rf"clips of 4 frames.*has {num_frames} frames"):
        model.encode_video(torch.zeros(2, num_frames, 3, 32, 32))
