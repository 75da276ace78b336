"""X-CLIP as Hugging Face's ``XCLIPModel`` stores it, read and written (spec sections 9 and 13.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import CheckpointError
from .config import HEAD_SIZE, Preprocessing, XClipConfig

__all__ = [
    "config_from_huggingface",
    "config_to_huggingface",
    "huggingface_shapes",
    "preprocessing_from_huggingface",
    "preprocessing_to_huggingface",
    "section",
    "state_from_huggingface",
    "state_to_huggingface",
]

MODEL_TYPE = "xclip"
PILLOW_BILINEAR = 2
INTERPOLATION_KEY = "watchword_interpolation"  # ours; Hugging Face's processor ignores it

_BLOCKS = {
    "visual.transformer.resblocks": "vision_model.encoder.layers",
    "transformer.resblocks": "text_model.encoder.layers",
    "mit.resblocks": "mit.encoder.layers",
}
_IN_BLOCK = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}
_SINGLE = {
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layernorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layernorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "visual.proj": "visual_projection.weight",
    "text_projection": "text_projection.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "prompts_visual_ln.weight": "prompts_visual_layernorm.weight",
    "prompts_visual_ln.bias": "prompts_visual_layernorm.bias",
    "prompts_visual_proj": "prompts_visual_projection",
    "mit.positional_embedding": "mit.position_embedding",
    "prompts_generator.norm.weight": "prompts_generator.layernorm.weight",
    "prompts_generator.norm.bias": "prompts_generator.layernorm.bias",
}
_TRANSPOSED = {"visual.proj", "text_projection"}
_BUFFERS = re.compile(r".*\.position_ids")
_BLOCK_NAME = re.compile(r"(.*resblocks)\.(\d+)\.(.*)")
_PACKED = re.compile(r"(.*attn)\.in_proj_(weight|bias)")


def huggingface_names(official: str) -> list[str]:
    """Hugging Face's name of an official parameter; for a packed attention projection those of query, key and value."""
    if block := _BLOCK_NAME.fullmatch(official):
        stack, index, inside = block.groups()
        if packed := _PACKED.fullmatch(inside):
            attention = "message_attn" if packed[1] == "message_attn" else "self_attn"
            return [f"{_BLOCKS[stack]}.{index}.{attention}.{part}_proj.{packed[2]}" for part in "qkv"]
        module, _, kind = inside.rpartition(".")
        return [f"{_BLOCKS[stack]}.{index}.{_IN_BLOCK.get(module, module)}.{kind}"]
    return [_SINGLE.get(official, official)]


def state_to_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """An official state dict under Hugging Face's names, attention projections split and the two projections transposed."""
    converted: dict[str, Tensor] = {}
    for official, tensor in state.items():
        names = huggingface_names(official)
        parts = tensor.chunk(len(names)) if len(names) > 1 else [tensor.T if official in _TRANSPOSED else tensor]
        converted.update(zip(names, parts, strict=True))
    return converted


def huggingface_shapes(state: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Names and shapes that Hugging Face's file of a model with this official state dict has."""
    return {name: tensor.shape for name, tensor in state_to_huggingface(state).items()}


def state_from_huggingface(state: Mapping[str, Tensor], official_names: list[str]) -> dict[str, Tensor]:
    """The inverse of ``state_to_huggingface``; all names must be there."""
    converted: dict[str, Tensor] = {}
    for official in official_names:
        parts = [state[name] for name in huggingface_names(official)]
        tensor = torch.cat(parts) if len(parts) > 1 else parts[0]
        converted[official] = tensor.T if official in _TRANSPOSED else tensor
    return converted


def without_buffers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state dict without the integer ``position_ids`` that old files hold."""
    return {name: tensor for name, tensor in state.items() if not _BUFFERS.fullmatch(name)}


def config_from_huggingface(
    values: Mapping[str, Any], preprocessing: Preprocessing | None = None, *, their_heads: bool = False
) -> XClipConfig:
    """Our configuration for a Hugging Face ``config.json``; keys that are absent have the defaults of ``XCLIPConfig``.

    Args:
        preprocessing: what ``preprocessing_from_huggingface`` gave; None means that of the official code.
        their_heads: take the file's head counts of MIT and prompt generator. The published conversions of the large models say
            8, but their weights were trained with heads of size 64 (12 of them), which is what we use by default.

    Raises CheckpointError for what X-CLIP's code cannot be, such as another layer-norm epsilon.
    """
    vision, text, labels = (section(values, key) for key in ("vision_config", "text_config", "id2label"))
    activations = {
        str(part.get(key, "quick_gelu")) for part, key in ((vision, "hidden_act"), (text, "hidden_act"), (values, "prompt_hidden_act"))
    }
    _require("one activation for all parts", len(activations) == 1, sorted(activations))
    vision_width, text_width = vision.get("hidden_size", 768), text.get("hidden_size", 512)
    for name, part, width, heads in (("vision", vision, vision_width, 12), ("text", text, text_width, 8)):
        heads = part.get("num_attention_heads", heads)
        _require(f"{name} heads of size {HEAD_SIZE}", heads * HEAD_SIZE == width, f"{heads} heads at width {width}")
        _require(f"{name} layer_norm_eps 1e-5", part.get("layer_norm_eps", 1e-5) == 1e-5, part.get("layer_norm_eps"))
    image_size = vision.get("image_size", 224)
    _require("image_size as a whole number", isinstance(image_size, int), repr(image_size))
    preprocessing = preprocessing or Preprocessing.official(image_size)
    class_names = tuple(map(str, labels.values()))
    return XClipConfig(
        image_size=image_size,
        patch_size=vision.get("patch_size", 32),
        vision_width=vision_width,
        vision_layers=vision.get("num_hidden_layers", 12),
        embed_dim=values.get("projection_dim", 512),
        text_width=text_width,
        text_layers=text.get("num_hidden_layers", 12),
        vocab_size=text.get("vocab_size", 49408),
        context_length=text.get("max_position_embeddings", 77),
        num_frames=vision.get("num_frames", 8),
        mit_layers=vision.get("mit_num_hidden_layers", 1),
        mit_heads=vision.get("mit_num_attention_heads", 8) if their_heads else None,
        prompt_layers=values.get("prompt_layers", 2),
        prompt_heads=values.get("prompt_num_attention_heads", 8) if their_heads else None,
        prompt_alpha=values.get("prompt_alpha", 0.1),
        activation=activations.pop(),
        preprocessing=preprocessing,
        class_names=() if all(re.fullmatch(r"LABEL_\d+", name) for name in class_names) else class_names,
    )


def section(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under this key of a ``config.json``, or under the key that old files use; empty if there is none."""
    found = values.get(key) or values.get(f"{key}_dict") or {}
    _require(f"an object as {key}", isinstance(found, Mapping), repr(found))
    return dict(found)


def config_to_huggingface(config: XClipConfig) -> dict[str, Any]:
    """``config.json`` of an ``XCLIPModel`` with this configuration, head counts included.

    Raises CheckpointError for variants that the class cannot be: without messages, MIT or prompts.
    """
    for part, there in (("messages", config.message == "on"), ("MIT layers", config.mit_layers), ("prompt layers", config.prompt_layers)):
        _require(part, bool(there), "none in this model")
    joint_heads = config.embed_dim // HEAD_SIZE
    values: dict[str, Any] = {
        "architectures": ["XCLIPModel"],
        "model_type": MODEL_TYPE,
        "projection_dim": config.embed_dim,
        "prompt_layers": config.prompt_layers,
        "prompt_alpha": config.prompt_alpha,
        "prompt_hidden_act": config.activation,
        "prompt_num_attention_heads": config.prompt_heads or joint_heads,
        "text_config": {
            "model_type": "xclip_text_model",
            "vocab_size": config.vocab_size,
            "hidden_size": config.text_width,
            "intermediate_size": 4 * config.text_width,
            "num_hidden_layers": config.text_layers,
            "num_attention_heads": config.text_width // HEAD_SIZE,
            "max_position_embeddings": config.context_length,
            "hidden_act": config.activation,
            "layer_norm_eps": 1e-5,
        },
        "vision_config": {
            "model_type": "xclip_vision_model",
            "hidden_size": config.vision_width,
            "intermediate_size": 4 * config.vision_width,
            "num_hidden_layers": config.vision_layers,
            "num_attention_heads": config.vision_width // HEAD_SIZE,
            "image_size": config.image_size,
            "patch_size": config.patch_size,
            "num_frames": config.num_frames,
            "mit_hidden_size": config.embed_dim,
            "mit_intermediate_size": 4 * config.embed_dim,
            "mit_num_hidden_layers": config.mit_layers,
            "mit_num_attention_heads": config.mit_heads or joint_heads,
            "hidden_act": config.activation,
            "layer_norm_eps": 1e-5,
        },
    }
    if config.class_names:
        values["id2label"] = {str(index): name for index, name in enumerate(config.class_names)}
    return values


def preprocessing_from_huggingface(values: Mapping[str, Any], image_size: int) -> Preprocessing:
    """What a ``preprocessor_config.json`` says, absent keys being those of ``VideoMAEImageProcessor`` except for the crop.

    The crop is ``image_size``, which is the only one that the model takes; a file that says otherwise is a CheckpointError.
    """
    for step in ("do_resize", "do_center_crop", "do_rescale", "do_normalize"):
        _require(f"{step} in preprocessor_config.json", values.get(step, True), False)
    _require("bilinear resizing (resample 2)", values.get("resample", PILLOW_BILINEAR) == PILLOW_BILINEAR, values.get("resample"))
    size = values.get("size", 224)
    short_side = size.get("shortest_edge", 0) if isinstance(size, Mapping) else size
    _require("size with shortest_edge", isinstance(short_side, int) and short_side > 0, size)
    crop = values.get("crop_size", image_size)
    crop = (crop.get("height"), crop.get("width")) if isinstance(crop, Mapping) else (crop, crop)
    _require(f"crop_size {image_size}, the model's image_size", crop == (image_size, image_size), crop)
    return Preprocessing.from_dict(
        {
            "crop_size": image_size,
            "short_side": short_side,
            "mean": values.get("image_mean", (0.5, 0.5, 0.5)),
            "std": values.get("image_std", (0.5, 0.5, 0.5)),
            "interpolation": values.get(INTERPOLATION_KEY, "antialiased_bilinear"),
        }
    )


def preprocessing_to_huggingface(preprocessing: Preprocessing) -> dict[str, Any]:
    """``preprocessor_config.json``. Hugging Face's processor resizes with antialiasing, whatever ours does (spec section 13.3)."""
    side = preprocessing.crop_size
    return {
        "image_processor_type": "VideoMAEImageProcessor",
        "do_resize": True,
        "size": {"shortest_edge": preprocessing.short_side},
        "resample": PILLOW_BILINEAR,
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
        INTERPOLATION_KEY: preprocessing.interpolation,
    }


def _require(what: str, holds: bool, found: object) -> None:
    if not holds:
        raise CheckpointError(f"a Hugging Face X-CLIP model must have {what}, but found {found}")
