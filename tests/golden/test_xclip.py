"""X-CLIP against numbers of the authors' code: every configuration in the fixture folder, whatever its size."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import Tensor, nn

from shared_folders import GOLDEN_ROOT
from watchword.text import tokenize
from watchword.weights.states import fill
from watchword.xclip import Preprocessing, XClip, XClipConfig
from watchword.xclip.huggingface import huggingface_names, state_from_huggingface, state_to_huggingface
from watchword.xclip.inputs import frame_transform, three_crops, to_tensor
from watchword.xclip.resize import centre_box, rescaled_size, resize, three_boxes
from watchword.xclip.sampling import crop_choices, draw_crop, evaluation_indices, train_indices, train_support
from watchword.xclip.state_files import config_of_state

FOLDER = GOLDEN_ROOT / "xclip"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is not there: set $WATCHWORD_GOLDEN to the folder of fixtures")

FEATURE_TOLERANCE = 5e-5
LOGIT_TOLERANCE = 2e-4
FULL_SIZE_LOGIT_TOLERANCE = 5e-4


def matching(pattern: str) -> list[str]:
    """What stands for the star in the names of the files that match, one parameter each."""
    before, after = pattern.split("*")
    return sorted(path.name.removeprefix(before).removesuffix(after) for path in FOLDER.glob(pattern))


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def config_of(values: dict[str, Any]) -> XClipConfig:
    assert values["transformer_heads"] * 64 == values["transformer_width"]
    return XClipConfig(
        image_size=values["image_resolution"],
        patch_size=values["vision_patch_size"],
        vision_width=values["vision_width"],
        vision_layers=values["vision_layers"],
        embed_dim=values["embed_dim"],
        text_width=values["transformer_width"],
        text_layers=values["transformer_layers"],
        vocab_size=values["vocab_size"],
        context_length=values["context_length"],
        num_frames=values["T"],
        mit_layers=values["mit_layers"],
        prompt_layers=values["prompts_layers"],
        prompt_alpha=values["prompts_alpha"],
        preprocessing=Preprocessing.official(values["image_resolution"]),
    )


def seeded_model(name: str, weights: ModuleType) -> XClip:
    manifest = read(f"{name}_manifest.json")
    model = XClip(config_of(manifest["config"]))
    fill(model, {key: torch.from_numpy(np.asarray(value)) for key, value in weights.make(manifest).items()}, name)
    return model.eval()


def difference(ours: Tensor, theirs: Any) -> float:
    expected = torch.as_tensor(theirs)
    assert ours.shape == expected.shape
    return float((ours.detach() - expected).abs().max())


class Recorder:
    """Keeps what named submodules were given and gave, by the fixtures' names."""

    def __init__(self, model: XClip) -> None:
        self.arrays: dict[str, Tensor] = {}
        modules = dict(model.named_modules())
        self.keep_output(modules["visual.conv1"], "conv1")
        self.keep_output(modules["visual.ln_pre"], "embed_ln_pre")
        modules["visual.ln_pre"].register_forward_pre_hook(lambda _, inputs: self.arrays.update(embed_sum=inputs[0]))
        modules["visual"].register_forward_hook(lambda _, __, out: self.arrays.update(frame_cls=out[0], patch_tokens=out[1]))
        self.keep_output(modules["prompts_visual_ln"], "patch_ln")
        self.keep_output(modules["prompts_generator.norm"], "content_ln")
        self.keep_output(modules["prompts_generator"], "prompt_out")
        for ours, inside, theirs in (
            ("visual.transformer.resblocks", "message_fc", "block{}.message_in"),
            ("visual.transformer.resblocks", "message_attn", "block{}.message_attn_out"),
            ("visual.transformer.resblocks", "", "block{}.out"),
            ("mit.resblocks", "", "mit.block{}.out"),
            ("transformer.resblocks", "", "text.block{}.out"),
            ("prompts_generator.decoder", "cross_attn", "prompt.block{}.cross_attn_out"),
            ("prompts_generator.decoder", "", "prompt.block{}.out"),
        ):
            for index in range(len(modules[ours])):  # type: ignore[arg-type]
                self.keep_output(modules[f"{ours}.{index}.{inside}".rstrip(".")], theirs.format(index))

    def keep_output(self, module: nn.Module, name: str) -> None:
        module.register_forward_hook(lambda _, __, out: self.arrays.update({name: out}))


@pytest.mark.parametrize("name", matching("*_manifest.json"))
def test_names_and_shapes_of_every_size(name: str) -> None:
    manifest = read(f"{name}_manifest.json")
    if "T" not in manifest["config"]:  # the names of Hugging Face's model; the mapping between the two is tested below
        expected = {parameter["name"]: parameter["shape"] for parameter in manifest["params"]}
        with torch.device("meta"):
            model = XClip(config_of(read(f"{name.removesuffix('_hf')}_manifest.json")["config"]))
        found = {key: list(tensor.shape) for key, tensor in state_to_huggingface(model.state_dict()).items()}
        assert found == expected
        return
    with torch.device("meta"):
        model = XClip(config_of(manifest["config"]))
    state = model.state_dict()
    assert {key: list(tensor.shape) for key, tensor in state.items()} == {p["name"]: p["shape"] for p in manifest["params"]}
    assert sum(tensor.numel() for tensor in state.values()) == manifest["total_parameters"]
    assert config_of_state(state, "random") == config_of(manifest["config"])


@pytest.mark.parametrize("name", matching("*_hf_mapping.json"))
def test_the_table_of_hugging_face_names_both_ways(name: str, seeded_weights: ModuleType) -> None:
    entries = read(f"{name}_hf_mapping.json")["entries"]
    with torch.device("meta"):
        model = XClip(config_of(read(f"{name}_manifest.json")["config"]))
    shapes = {key: tensor.shape for key, tensor in model.state_dict().items()}
    theirs: dict[str, list[tuple[str, list[int] | None]]] = {}
    for entry in entries:
        theirs.setdefault(entry["official"], []).append((entry["hf"], entry.get("rows")))
    for official, targets in theirs.items():
        ordered = sorted(targets, key=lambda target: target[1] or [0])
        assert huggingface_names(official) == [target[0] for target in ordered]
        if len(ordered) > 1:
            third = shapes[official][0] // 3
            assert [target[1] for target in ordered] == [[0, third], [third, 2 * third], [2 * third, 3 * third]]
    assert set(theirs) == set(shapes)

    small = {key: torch.randn([min(6, size) if size % 3 == 0 else min(4, size) for size in shape]) for key, shape in shapes.items()}
    converted = state_to_huggingface(small)
    assert set(converted) == {entry["hf"] for entry in entries}
    for entry in entries:
        if entry.get("op") == "transpose":
            assert torch.equal(converted[entry["hf"]], small[entry["official"]].T)
    back = state_from_huggingface(converted, list(small))
    assert all(torch.equal(back[key], small[key]) for key in small) and len(back) == len(small)


@pytest.mark.parametrize("name", matching("*_forward.safetensors"))
def test_every_intermediate_of_a_small_model(name: str, seeded_weights: ModuleType, xclip_inputs: ModuleType) -> None:
    expected = {key: torch.from_numpy(value) for key, value in load_file(FOLDER / f"{name}_forward.safetensors").items()}
    model = seeded_model(name, seeded_weights)
    recorder = Recorder(model)
    with torch.no_grad():
        out = model(expected["video"], expected["token_ids"])
    ours = recorder.arrays
    ends = expected["token_ids"].argmax(-1)
    batch, time = expected["video"].shape[:2]
    ours["patch_embed"] = ours.pop("conv1").flatten(2).transpose(1, 2).unflatten(0, (batch, time))
    for key in ("embed_sum", "embed_ln_pre"):
        ours[key] = ours[key].unflatten(0, (batch, time))
    for index in range(model.config.vision_layers):
        ours[f"block{index}.message_out"] = ours[f"block{index}.message_in"] + ours[f"block{index}.message_attn_out"]
    ours["patch_feature"] = ours["patch_ln"] @ model.prompts_visual_proj
    ours |= {"video_feature": out.features.video, "content": out.features.content, "text_feature": out.text, "logits": out.logits}
    ours["video_text"] = ours["text_feature"] + ours["prompt_out"]
    ours["cosine"] = out.logits / model.logit_scale.exp()
    ours["text.ln_final"] = model.ln_final(ours[f"text.block{model.config.text_layers - 1}.out"])
    computed = int(ends.max()) + 1  # our text encoder leaves out the columns behind the last end token
    for key in expected:
        if key.startswith("text."):
            expected[key] = expected[key][:, :computed]
    inputs = {"video", "token_ids"}
    assert set(expected) - inputs <= set(ours), "an intermediate of the fixture is not compared"
    worst = {key: difference(ours[key], expected[key]) for key in expected if key not in inputs}
    print(name, max(worst.items(), key=lambda item: item[1]), "logits", worst["logits"])
    assert {key: value for key, value in worst.items() if value > (LOGIT_TOLERANCE if key == "logits" else FEATURE_TOLERANCE)} == {}


@pytest.mark.parametrize("name", matching("*_forward.safetensors"))
def test_the_inputs_of_a_small_model_are_the_seeded_ones(name: str, xclip_inputs: ModuleType) -> None:
    expected = load_file(FOLDER / f"{name}_forward.safetensors")
    config = config_of(read(f"{name}_manifest.json")["config"])
    assert expected["video"].shape[1:] == (config.num_frames, 3, config.image_size, config.image_size)
    if name == "tiny":
        assert np.array_equal(expected["video"], xclip_inputs.video(20220804, 2, 4, 64, 16))
        assert np.array_equal(expected["token_ids"], xclip_inputs.tokens(7, 7, 1000))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in matching("*_forward.json") if not (FOLDER / f"{name}_forward.safetensors").exists()])
def test_a_full_size_model(name: str, seeded_weights: ModuleType, xclip_inputs: ModuleType) -> None:
    expected = read(f"{name}_forward.json")
    model = seeded_model(name, seeded_weights)
    token_ids = torch.zeros(len(expected["token_ids"]), model.config.context_length, dtype=torch.int64)
    for row, ids in zip(token_ids, expected["token_ids"], strict=True):
        row[: len(ids)] = torch.tensor(ids)
    if model.config.vocab_size == 49408:
        assert torch.equal(tokenize(expected["class_names"], context_length=model.config.context_length), token_ids)
    recorder = Recorder(model)
    with torch.no_grad():
        video = torch.from_numpy(xclip_inputs.video(**expected["video"]))
        out = model(video, token_ids)
    features = {
        "video_feature": difference(out.features.video, expected["video_feature"]),
        "text_feature": difference(out.text[:, :16], expected["text_feature_first16_per_class"]),
    }
    logits = {
        "logits": difference(out.logits, expected["logits"]),
        "cosine": difference(out.logits / model.logit_scale.detach().exp(), expected["cosine"]),
    }
    ours = recorder.arrays | {"video_feature": out.features.video, "content": out.features.content, "text_feature": out.text}
    for key, values in expected["first16"].items():
        if key in ours:
            features[f"first16 of {key}"] = difference(ours[key].flatten()[:16], values)
    for key, stats in expected["stats"].items():
        if key in ours and list(ours[key].shape) == stats["shape"]:
            features[f"mean of {key}"] = abs(float(ours[key].detach().mean()) - stats["mean"])
    print(name, "worst feature", max(features.items(), key=lambda item: item[1]), logits)
    assert {key: value for key, value in features.items() if value > FEATURE_TOLERANCE} == {}
    assert {key: value for key, value in logits.items() if value > FULL_SIZE_LOGIT_TOLERANCE} == {}


def test_token_ids() -> None:
    fixture = read("tokenization.json")
    for example in fixture["examples"]:
        row = tokenize(example["text"], context_length=fixture["context"])[0].tolist()
        assert row[: len(example["ids"])] == example["ids"], example["text"]
        assert set(row[len(example["ids"]) :]) <= {fixture["pad"]}
    body = fixture["longest_accepted_body_tokens"]
    assert tokenize(" ".join(["swimming"] * body))[0, -1] == fixture["end_token"]
    cut = fixture["truncation"]
    with pytest.warns(UserWarning, match="cut to the first"):
        row = tokenize(" ".join(["swimming"] * cut["body_tokens"]), truncate=True)[0].tolist()
    assert row[: len(cut["truncated_ids_head"])] == cut["truncated_ids_head"]
    assert row[-len(cut["truncated_ids_tail"]) :] == cut["truncated_ids_tail"]


def test_frame_sampling() -> None:
    for entry in read("frame_sampling.json")["entries"]:
        total, num_frames = entry["total_frames"], entry["T"]
        assert evaluation_indices(total, num_frames)[0].tolist() == entry["test_single_view"]
        assert train_support(total, num_frames).tolist() == entry["train_support"]
        for seed, drawn in entry["train_seeded"].items():
            assert train_indices(total, num_frames, np.random.RandomState(int(seed))).tolist() == drawn
        for seed, clips in entry["multiview4_seeded"].items():
            random = np.random.RandomState(int(seed))
            assert [train_indices(total, num_frames, random).tolist() for _ in clips] == clips


def test_training_crops() -> None:
    for case in read("train_crop_support.json")["cases"]:
        choices = crop_choices(case["w"], case["h"], case["input_size"])
        found = [{"crop_wh": [c.width, c.height], "offsets_xy": [list(offset) for offset in c.offsets]} for c in choices]
        assert found == case["choices"]
        possible = {(x, y, c.width, c.height) for c in choices for x, y in c.offsets}
        random = np.random.default_rng(0)
        assert {draw_crop(case["w"], case["h"], case["input_size"], random) for _ in range(2000)} == possible


@pytest.mark.parametrize("name", matching("*_transform.safetensors"))
def test_evaluation_transforms(name: str, xclip_inputs: ModuleType) -> None:
    fixture, arrays = read(f"{name}_transform.json"), load_file(FOLDER / f"{name}_transform.safetensors")
    side = fixture["input_size"]
    preprocessing = Preprocessing.official(side)
    assert preprocessing.short_side == fixture["scale_resize"]
    assert np.allclose(255 * np.array(preprocessing.mean), fixture["mean"])
    assert np.allclose(255 * np.array(preprocessing.std), fixture["std"])
    for size, arguments in fixture["frames"].items():
        frames = xclip_inputs.frames_u8(**arguments)
        height, width = frames.shape[1:3]
        for kind, short in (("center_crop", preprocessing.short_side), ("three_crop", side)):
            new_width, new_height = rescaled_size(width, height, short)
            resized = np.stack([resize(frame, new_width, new_height) for frame in frames])
            assert np.array_equal(resized, arrays[f"{size}/{kind}/resized_u8"])
            boxes = [centre_box(new_width, new_height, side)] if kind == "center_crop" else three_boxes(new_width, new_height, side)
            assert [[x, y, x + w, y + h] for x, y, w, h in boxes] == fixture["cases"][f"{size}/{kind}"]["crop_boxes_x1y1x2y2"]
        centre = np.stack([frame_transform(preprocessing)(frame) for frame in frames])
        crops = np.stack([three_crops(frame, preprocessing) for frame in frames], axis=1).reshape(-1, side, side, 3)
        for kind, prepared in (("center_crop", centre), ("three_crop", crops)):
            off = difference(to_tensor(prepared, preprocessing), arrays[f"{size}/{kind}/tensor"])
            print(size, kind, off)
            assert off <= 5e-7


def test_rescaled_sizes() -> None:
    for path in FOLDER.glob("*_transform.json"):
        for row in json.loads(path.read_text())["rescale_table"]:
            assert list(rescaled_size(row["w"], row["h"], row["short"])) == row["out"], row
