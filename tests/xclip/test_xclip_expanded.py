"""Image-text models of open_clip as video models: they begin as the mean of their frames, and learn what a mean cannot."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

from tiny_clips import write_video
from watchword import Tagger
from watchword.errors import ConfigError, DownloadError, InputError, LabelError
from watchword.xclip import Preprocessing, XClip, frame_transform, save_huggingface, to_tensor
from watchword.xclip.expanded import ExpandedXClip, expanded_config
from watchword.xclip.model import is_new_part
from watchword.xclip.open_clip_towers import build_image_text

open_clip = pytest.importorskip("open_clip")

TEXT: dict[str, Any] = {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1}
VIT: dict[str, Any] = {"image_size": 32, "patch_size": 16, "width": 64, "layers": 2, "head_width": 32}


def timm(name: str, image_size: int, pool: str, proj: str | None) -> dict[str, Any]:
    return {"timm_model_name": name, "image_size": image_size, "timm_pool": pool, "timm_proj": proj}


TOWERS: dict[str, dict[str, Any]] = {
    "own ViT": {"vision_cfg": VIT},
    "own ViT, QuickGELU, mean of the tokens": {"vision_cfg": {**VIT, "pool_type": "avg", "no_ln_pre": True}, "quick_gelu": True},
    "SigLIP: no class token, attention pooling": {
        "embed_dim": 96,
        "vision_cfg": timm("test_vit4", 160, "map", "none"),
        "init_logit_bias": -10,
        "text_cfg": {**TEXT, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
    },
    "EVA02: rotary positions, SwiGLU": {"vision_cfg": timm("eva02_tiny_patch14_224", 56, "token", None)},
    "PE-Core: rotary positions, attention pooling": {"vision_cfg": timm("vit_pe_core_tiny_patch16_384", 64, "map", None)},
    "ConvNeXt": {"vision_cfg": timm("test_convnext", 64, "", "linear")},
    "Swin": {"vision_cfg": timm("swin_tiny_patch4_window7_224", 64, "", "linear")},
}


# timm fits Swin's position table to another input size in ways that torch remarks on; released models are used at their own size
pytestmark = [pytest.mark.filterwarnings("ignore:torch.searchsorted"), pytest.mark.filterwarnings("ignore:Using a non-tuple")]


def architecture_of(tower: str) -> dict[str, Any]:
    return {"embed_dim": 64, "text_cfg": TEXT, **deepcopy(TOWERS[tower])}


def expanded(architecture: dict[str, Any], *, num_frames: int = 3, **changes: Any) -> tuple[Any, ExpandedXClip]:
    """The image-text model with weights away from its beginning, and the same expanded."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        image_text = build_image_text(architecture).eval()
        for parameter in image_text.parameters():
            if parameter.ndim:
                parameter.data += 0.05 * torch.randn_like(parameter)
        size = architecture["vision_cfg"]["image_size"]
        preprocessing = Preprocessing(crop_size=size, short_side=size, interpolation="pillow_bicubic")
        config = expanded_config(image_text, architecture, num_frames=num_frames, preprocessing=preprocessing, **changes)
        return image_text, ExpandedXClip(config, deepcopy(image_text)).eval()


def clips_for(model: XClip, count: int = 2) -> torch.Tensor:
    config = model.config
    return torch.randn(count, config.num_frames, 3, config.image_size, config.image_size, generator=torch.Generator().manual_seed(0))


def token_ids(model: XClip, count: int = 4) -> torch.Tensor:
    ids = torch.randint(1, 40000, (count, model.config.context_length), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[:, 9] = 49406, 49407
    return ids


def train_step(model: XClip, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    logits = model(clips_for(model), token_ids(model)).logits
    F.cross_entropy(logits, torch.tensor([1, 3])).backward()
    optimizer.step()


@pytest.fixture(scope="module", params=TOWERS)
def pair(request: pytest.FixtureRequest) -> tuple[Any, ExpandedXClip]:
    return expanded(architecture_of(request.param))


@torch.no_grad()
def test_it_begins_as_the_mean_of_the_frames(pair: tuple[Any, ExpandedXClip]) -> None:
    image_text, model = pair
    clips, ids = clips_for(model), token_ids(model)
    images, texts = image_text.encode_image(clips.flatten(0, 1)).unflatten(0, clips.shape[:2]), image_text.encode_text(ids)
    out = model(clips, ids)
    scale = images.abs().max()
    assert torch.allclose(out.features.frames, images, atol=1e-6 * scale)
    assert torch.allclose(out.features.video, images.mean(dim=1), atol=1e-5 * scale)
    assert torch.allclose(out.text, texts, atol=1e-5)
    cosine = F.normalize(images.mean(dim=1), dim=-1) @ F.normalize(texts, dim=-1).T
    logits = image_text.logit_scale.exp() * cosine + (image_text.logit_bias if image_text.logit_bias is not None else 0)
    assert torch.allclose(out.logits, logits, atol=1e-4)
    assert out.features.content.shape == (2, model.config.num_patches, model.config.embed_dim)
    assert out.features.content.isfinite().all() and out.features.content.std() > 0


def test_training_changes_it_and_reaches_every_part(pair: tuple[Any, ExpandedXClip]) -> None:
    model = deepcopy(pair[1])
    clips, ids = clips_for(model), token_ids(model)
    with torch.no_grad():
        before = model(clips, ids)
    new = [parameter for name, parameter in model.named_parameters() if is_new_part(name)]
    optimizer = torch.optim.SGD(new, lr=0.5)
    train_step(model, optimizer)
    first = {name for name, weight in model.named_parameters() if is_new_part(name) and weight.grad is not None and weight.grad.any()}
    assert any("message_out" in name for name in first)
    assert {"mit.resblocks.0.attn.out_proj.weight", "mit.resblocks.0.mlp.c_proj.weight", "prompts_generator.alpha"} <= first
    with torch.no_grad():
        after = model(clips, ids)
    assert not torch.allclose(before.features.frames, after.features.frames, atol=1e-4)
    assert not torch.allclose(before.features.video, after.features.video, atol=1e-4)
    train_step(model, optimizer)  # past the zeros, every weight matters
    idle = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not [name for name in idle if is_new_part(name)]
    assert "logit_scale" not in idle and not [name for name in idle if name.startswith("text.transformer")]


def test_frames_hear_of_one_another_only_within_their_video(pair: tuple[Any, ExpandedXClip]) -> None:
    model = deepcopy(pair[1])
    for name, parameter in model.named_parameters():
        if "message_out" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    clips = clips_for(model)
    with torch.no_grad():
        whole = model.encode_video(clips).frames
        alone = torch.cat([model.encode_video(clip[None]).frames for clip in clips])
        other = clips.clone()
        other[0, 2] += 1
        changed = model.encode_video(other).frames
    scale = whole.abs().max()
    assert torch.allclose(whole, alone, atol=1e-4 * scale)
    assert (changed[0, 0] - whole[0, 0]).abs().max() > 1e-4 * scale
    assert torch.allclose(changed[1], whole[1], atol=1e-4 * scale)


@pytest.mark.parametrize("tower", ["own ViT, QuickGELU, mean of the tokens", "SigLIP: no class token, attention pooling", "ConvNeXt"])
def test_saved_and_loaded(tower: str, tmp_path: Path) -> None:
    _, model = expanded(architecture_of(tower))
    torch.nn.init.normal_(model.prompts_generator.alpha)
    model.save_pretrained(tmp_path / "model")
    again = XClip.from_pretrained(tmp_path / "model")
    assert isinstance(again, ExpandedXClip) and again.config == model.config and not again.training
    with torch.no_grad():
        assert torch.equal(again(clips_for(model), token_ids(model)).logits, model(clips_for(model), token_ids(model)).logits)
    alone = XClip.from_pretrained(tmp_path / "model" / "model.safetensors")
    assert torch.equal(alone.text_parameters()[0], model.text_parameters()[0])
    with pytest.raises(InputError, match="cannot be written for transformers"):
        save_huggingface(model, tmp_path / "hf")


def test_the_layers_of_integration_are_the_papers() -> None:
    assert expanded(architecture_of("ConvNeXt"))[1].config.mit_layers == 4
    assert expanded(architecture_of("own ViT"))[1].config.mit_layers == 1


def test_another_number_of_frames(tmp_path: Path) -> None:
    _, model = expanded(architecture_of("own ViT"))
    model.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="made for clips of 3 frames"):
        XClip.from_pretrained(tmp_path, num_frames=5)
    with pytest.warns(UserWarning, match="interpolated from 3 to 5"):
        longer = XClip.from_pretrained(tmp_path, num_frames=5, temporal_interpolation=True)
    assert longer.encode_video(clips_for(longer)).frames.shape == (2, 5, 64)
    _, plain = expanded(architecture_of("own ViT"), mit_layers=0)
    plain.save_pretrained(tmp_path / "plain")
    assert XClip.from_pretrained(tmp_path / "plain", num_frames=7).encode_video(torch.zeros(1, 7, 3, 32, 32)).video.shape == (1, 64)


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(48, 85), (200, 131), (32, 32)])
def test_frames_are_prepared_as_open_clip_prepares_images(squash: bool, interpolation: str, size: tuple[int, int]) -> None:
    from open_clip.transform import PreprocessCfg, image_transform_v2

    frame = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    theirs = image_transform_v2(
        PreprocessCfg(
            size=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), interpolation=interpolation, resize_mode="squash" if squash else "shortest"
        ),
        is_train=False,
    )(Image.fromarray(frame))
    ours = Preprocessing(
        crop_size=32, short_side=32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), interpolation=f"pillow_{interpolation}", squash=squash
    )
    assert torch.allclose(to_tensor(frame_transform(ours)(frame), ours), theirs, atol=1e-5)


def test_a_model_scored_by_a_sigmoid_judges_each_label_by_itself(tmp_path: Path) -> None:
    _, model = expanded(architecture_of("SigLIP: no class token, attention pooling"))
    clip = write_video(tmp_path / "clip.mp4", num_frames=5)
    labels = ["a dog", "a cat", "something else"]
    tags = {tag.label: tag for tag in model.tag(clip, labels)}
    alone = model.tag(clip, ["a cat"])[0]
    assert alone.score == pytest.approx(tags["a cat"].score, rel=1e-4)
    for tag in tags.values():
        assert tag.score == tag.match
        logit = model.logit_scale.exp().item() * tag.similarity + model.logit_bias.item()
        assert tag.score == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-3)
    assert sum(tag.score for tag in tags.values()) != pytest.approx(1, abs=0.1)


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny configuration that open_clip knows by name for the length of a test."""
    from open_clip import factory

    monkeypatch.setattr(factory, "_MODEL_CONFIG_PATHS", list(factory._MODEL_CONFIG_PATHS))
    monkeypatch.setattr(factory, "_MODEL_CONFIGS", dict(factory._MODEL_CONFIGS))
    path = tmp_path / "watchword-tiny.json"
    path.write_text(json.dumps(architecture_of("own ViT")))
    open_clip.add_model_config(path)
    return "watchword-tiny"


def test_a_name_of_open_clip_with_a_file_of_weights(registered: str, tmp_path: Path) -> None:
    theirs = open_clip.create_model(registered).eval()  # of the older form, text tower at the top
    save_file(theirs.state_dict(), tmp_path / "clip.safetensors")
    model = XClip.from_pretrained(f"open_clip:{registered}/{tmp_path}/clip.safetensors", num_frames=4)
    assert model.config.num_frames == 4 and "untrained" in model.config.weights and not model.training
    clips, ids = clips_for(model), token_ids(model)
    with torch.no_grad():
        images = theirs.encode_image(clips.flatten(0, 1)).unflatten(0, (2, 4))
        assert torch.allclose(model.encode_video(clips).video, images.mean(dim=1), atol=1e-5)
        assert torch.allclose(model.encode_text(ids), theirs.encode_text(ids), atol=1e-5)
    clip = write_video(tmp_path / "clip.mp4", num_frames=6)
    tags = model.tag(clip, ["a dog", "a cat"])
    assert sum(tag.score for tag in tags) == pytest.approx(1)


def test_random_weights_only_where_they_are_asked_for(registered: str) -> None:
    with pytest.raises(InputError, match=r"lists no weights.*ask for random weights"):
        XClip.from_pretrained(f"open_clip:{registered}")
    state = torch.get_rng_state()
    first, again, other = (
        XClip.from_pretrained(f"open_clip:{registered}", random_weights=True, seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["visual.tower.conv1.weight"], other["visual.tower.conv1.weight"])
    with pytest.raises(InputError, match="random weights are for open_clip: names"):
        XClip.from_pretrained("playground", random_weights=True)


def test_names_that_cannot_be_expanded() -> None:
    with pytest.raises(InputError, match="near it: open_clip:ViT-B-32"):
        XClip.from_pretrained("open_clip:ViT-B-33")
    with pytest.raises(InputError, match="weights that open_clip lists for EVA02-B-16: merged2b_s8b_b131k"):
        XClip.from_pretrained("open_clip:EVA02-B-16/openai")
    with pytest.raises(InputError, match="ends in -quickgelu"):
        XClip.from_pretrained("open_clip:ViT-B-32/openai", activation="gelu")
    with pytest.raises(InputError, match="captioning model"):
        XClip.from_pretrained("open_clip:coca_ViT-B-32", random_weights=True)
    with pytest.raises(InputError, match="xlm-roberta-base of the Hub"):
        XClip.from_pretrained("open_clip:xlm-roberta-base-ViT-B-32", random_weights=True)
    with pytest.raises(InputError, match="ModifiedResNet has no transformer"):
        expanded({"embed_dim": 64, "text_cfg": TEXT, "vision_cfg": {"image_size": 32, "layers": [1, 1, 1, 1], "width": 16}})


@pytest.mark.parametrize("name", ["ViT-B-16-SigLIP2", "PE-Core-B-16/meta"])
def test_what_is_not_in_the_cache_is_not_downloaded_offline(name: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"timm/.* is not on this machine and downloads are off") as caught:
        XClip.from_pretrained(f"open_clip:{name}", offline=True, cache_dir=tmp_path)
    assert "\n" not in str(caught.value)


def test_weights_trained_with_quick_gelu_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from watchword.xclip.expand import _stated

    assert _stated("open_clip:ViT-B-32/openai", False)[2]["quick_gelu"] is True
    assert not _stated("open_clip:ViT-B-32/laion2b_s34b_b79k", False)[2].get("quick_gelu")


def tokenizer_folder(folder: Path) -> Path:
    """A word-level tokenizer in the Hub's form: lower-case words, padded on the right, end token 1."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, "a": 3, "dog": 4, "cat": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_a_tokenizer_from_the_hub_travels_with_the_model(tmp_path: Path) -> None:
    architecture = architecture_of("SigLIP: no class token, attention pooling")
    architecture["text_cfg"] |= {"hf_tokenizer_name": "nobody/tokenizer", "tokenizer_kwargs": {"clean": "canonicalize"}}
    _, model = expanded(architecture)
    model.tokenizer_folder = tokenizer_folder(tmp_path / "tokenizer")
    assert model.tokenize(["A dog!", "a cat  cat"]).tolist() == [[3, 4, 1] + [0] * 13, [3, 5, 5, 1] + [0] * 12]
    with pytest.raises(LabelError, match="text 2 has 21 tokens"):
        model.tokenize(["a dog", "cat " * 20])
    with pytest.warns(UserWarning, match="cut to the first 16 tokens"):
        assert model.tokenize(["cat " * 20], truncate=True).shape == (1, 16)
    model.save_pretrained(tmp_path / "model")
    again = XClip.from_pretrained(tmp_path / "model")
    assert torch.equal(again.tokenize(["a dog"]), model.tokenize(["a dog"]))
    clip = write_video(tmp_path / "clip.mp4", num_frames=5)
    assert {tag.label for tag in Tagger(again).tag(clip, ["a dog", "a cat"])} == {"a dog", "a cat"}


def test_a_tokenizer_that_is_not_here_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    architecture = architecture_of("own ViT")
    architecture["text_cfg"] = {**TEXT, "hf_tokenizer_name": "nobody/tokenizer"}
    _, model = expanded(architecture)
    with pytest.raises(DownloadError, match="nobody/tokenizer is not on this machine"):
        model.tokenize(["a dog"])
