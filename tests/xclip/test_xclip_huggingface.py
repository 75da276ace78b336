"""X-CLIP as transformers writes and reads it. transformers is only the oracle here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from watchword.errors import CheckpointError, InputError
from watchword.xclip import Preprocessing, XClip, XClipConfig, save_huggingface

transformers = pytest.importorskip("transformers")

TEXT = dict(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=1, vocab_size=120, max_position_embeddings=16)
VISION = dict(
    hidden_size=128,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=2,
    image_size=32,
    patch_size=16,
    num_frames=4,
    mit_hidden_size=64,
    mit_intermediate_size=256,
    mit_num_attention_heads=1,
)


def their_model(*, text: dict[str, Any] | None = None, vision: dict[str, Any] | None = None, **changes: Any) -> Any:
    """A small model of theirs with random weights, none of which is zero or one."""
    config = transformers.XCLIPConfig(
        text_config={**TEXT, "eos_token_id": 119, **(text or {})},
        vision_config={**VISION, **(vision or {})},
        **{"projection_dim": 64, "prompt_num_attention_heads": 1, **changes},
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.XCLIPModel(config).eval()
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def example(config: XClipConfig) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    video = torch.randn(2, config.num_frames, 3, config.image_size, config.image_size, generator=generator)
    token_ids = torch.randint(1, config.vocab_size - 2, (3, 9), generator=generator)
    token_ids[:, 0], token_ids[:, -1] = config.vocab_size - 2, config.vocab_size - 1
    return video, token_ids


@torch.no_grad()
def both_logits(theirs: Any, ours: XClip) -> tuple[Tensor, Tensor]:
    video, token_ids = example(ours.config)
    out = theirs(input_ids=token_ids, pixel_values=video, attention_mask=torch.ones_like(token_ids))
    return out.logits_per_video, ours(video, token_ids).logits


def assert_equal_logits(theirs: Any, ours: XClip) -> None:
    expected, found = both_logits(theirs, ours)
    assert expected.shape == found.shape == (2, 3)
    assert float((expected - found).abs().max()) < 1e-4
    assert float(expected.std()) > 1e-3


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vision": {"num_frames": 8, "mit_num_hidden_layers": 2}, "prompt_layers": 1, "prompt_alpha": 0.5},
        {"vision": {"image_size": 48, "hidden_act": "gelu"}, "text": {"hidden_act": "gelu"}, "prompt_hidden_act": "gelu"},
    ],
)
def test_their_folder_gives_their_logits(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = their_model(**changes)
    theirs.save_pretrained(tmp_path)
    ours = XClip.from_pretrained(tmp_path)
    assert_equal_logits(theirs, ours)
    assert not ours.training and ours.config.num_frames == theirs.config.vision_config.num_frames
    assert ours.config.activation == theirs.config.prompt_hidden_act


LARGE: dict[str, Any] = {  # the joint size of the large models with everything else small
    "projection_dim": 768,
    "vision": {"mit_hidden_size": 768, "mit_intermediate_size": 3072, "mit_num_attention_heads": 8},
    "prompt_num_attention_heads": 8,
}


def test_the_head_counts_of_the_large_models(tmp_path: Path) -> None:
    """Their published files say 8 heads, by which transformers runs; the weights were trained with 12 (spec section 9)."""
    theirs = their_model(**LARGE)
    theirs.save_pretrained(tmp_path)
    ours = XClip.from_pretrained(tmp_path)
    assert (ours.mit.resblocks[0].attn.num_heads, ours.prompts_generator.decoder[0].cross_attn.num_heads) == (12, 12)
    expected, found = both_logits(theirs, ours)
    assert float((expected - found).abs().max()) > 1e-4
    assert_equal_logits(theirs, XClip.from_pretrained(tmp_path, huggingface_heads=True))

    twelve = their_model(**{**LARGE, "vision": {**LARGE["vision"], "mit_num_attention_heads": 12}, "prompt_num_attention_heads": 12})
    twelve.load_state_dict(theirs.state_dict())
    assert_equal_logits(twelve, ours)


def test_the_eight_head_reading_survives_saving(tmp_path: Path) -> None:
    theirs = their_model(**LARGE)
    theirs.save_pretrained(tmp_path / "theirs")
    XClip.from_pretrained(tmp_path / "theirs", huggingface_heads=True).save_pretrained(tmp_path / "ours")
    assert_equal_logits(theirs, XClip.from_pretrained(tmp_path / "ours"))


def test_an_old_file_with_buffers(tmp_path: Path) -> None:
    theirs = their_model()
    theirs.save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    state["text_model.embeddings.position_ids"] = torch.arange(16)[None]
    state["vision_model.embeddings.position_ids"] = torch.arange(5)[None]
    torch.save(state, tmp_path / "pytorch_model.bin")
    assert_equal_logits(theirs, XClip.from_pretrained(tmp_path))


def test_half_precision_files(tmp_path: Path) -> None:
    theirs = their_model().to(torch.bfloat16)
    theirs.save_pretrained(tmp_path)
    assert_equal_logits(theirs.float(), XClip.from_pretrained(tmp_path))


def test_what_does_not_fit_is_a_table_in_their_names(tmp_path: Path) -> None:
    their_model().save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state["extra"] = state.pop("mit.position_embedding")
    state["logit_scale"] = torch.zeros(2)
    save_file(state, tmp_path / "model.safetensors")
    message = r"1 missing: mit\.position_embedding; 1 unexpected: extra; 1 of another shape: logit_scale 2"
    with pytest.raises(CheckpointError, match=message) as caught:
        XClip.from_pretrained(tmp_path)
    assert len(caught.value.__notes__[0].splitlines()) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vision": {"layer_norm_eps": 1e-6}}, "vision layer_norm_eps 1e-5"),
        ({"text": {"num_attention_heads": 2}}, "text heads of size 64, but found 2 heads"),
        ({"prompt_hidden_act": "gelu"}, "one activation for all parts"),
    ],
)
def test_models_that_x_clip_cannot_be_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    their_model(**changes).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=message):
        XClip.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"vision_config": [1]},
        {"text_config": "x"},
        {"id2label": [1]},
        {"projection_dim": None},
        {"prompt_layers": "2"},
        {"prompt_alpha": "x"},
    ],
)
def test_a_value_of_another_type_is_named(changes: dict[str, Any], tmp_path: Path) -> None:
    their_model().save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, **changes}))
    (name,) = changes
    with pytest.raises(InputError, match={"projection_dim": "embed_dim"}.get(name, name)):
        XClip.from_pretrained(tmp_path)


def test_their_preprocessing_is_taken_over(tmp_path: Path) -> None:
    their_model().save_pretrained(tmp_path)
    assert XClip.from_pretrained(tmp_path).config.preprocessing == Preprocessing.official(32)
    processor = transformers.VideoMAEImageProcessor(
        size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}, image_mean=[0.4, 0.5, 0.6], image_std=[0.1, 0.2, 0.3]
    )
    processor.save_pretrained(tmp_path)
    assert XClip.from_pretrained(tmp_path).config.preprocessing == Preprocessing(
        crop_size=32, short_side=40, mean=(0.4, 0.5, 0.6), std=(0.1, 0.2, 0.3), interpolation="antialiased_bilinear"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"size": 32}, Preprocessing(crop_size=32, short_side=32, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="antialiased_bilinear")),
        ({"size": 32, "crop_size": 32, "resample": 3}, "bilinear resizing"),
        ({"size": 224, "crop_size": 224}, "crop_size 32, the model's image_size"),
        ({"size": {"height": 32, "width": 32}}, "size with shortest_edge"),
        ({"size": {"shortest_edge": "a"}}, "size with shortest_edge"),
        ({"size": 32, "image_mean": 5}, "mean is 5"),
        ({"size": 32, "do_center_crop": False}, "do_center_crop"),
    ],
)
def test_forms_of_their_preprocessing(values: dict[str, Any], expected: Preprocessing | str, tmp_path: Path) -> None:
    their_model().save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    if isinstance(expected, Preprocessing):
        assert XClip.from_pretrained(tmp_path).config.preprocessing == expected
    else:
        with pytest.raises(InputError, match=expected):
            XClip.from_pretrained(tmp_path)


OURS = XClipConfig(
    image_size=32,
    patch_size=16,
    vision_width=128,
    vision_layers=2,
    embed_dim=128,
    text_width=64,
    text_layers=2,
    vocab_size=120,
    context_length=16,
    num_frames=4,
    preprocessing=Preprocessing.official(32),
    class_names=("making coffee", "going backpacking"),
)


def test_our_export_is_read_by_transformers_and_by_us(tmp_path: Path) -> None:
    ours = XClip(OURS).eval()
    save_huggingface(ours, tmp_path)
    theirs, report = transformers.XCLIPModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    # transformers pools the text at the row's end token as its configuration names it; the default 2 means the largest id
    assert_equal_logits(theirs.eval(), ours)
    assert transformers.VideoMAEImageProcessor.from_pretrained(tmp_path).crop_size == {"height": 32, "width": 32}

    back = XClip.from_pretrained(tmp_path)
    assert all(torch.equal(tensor, ours.state_dict()[name]) for name, tensor in back.state_dict().items())
    assert back.config == replace(OURS, weights=tmp_path.name)


@pytest.mark.parametrize(
    ("changes", "part"), [({"message": "off"}, "messages"), ({"mit_layers": 0}, "MIT"), ({"prompt_layers": 0}, "prompt")]
)
def test_variants_that_their_class_cannot_be_are_not_exported(changes: dict[str, Any], part: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=part):
        save_huggingface(XClip(replace(OURS, **changes)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
