"""The released parameter names and layouts (flax paths, kernels as inputs x outputs) and ours, both ways (spec sections 2 and 7).

Ours are torch's: weights as outputs x inputs, heads flattened. The map is one to one and only moves numbers.
"""

from __future__ import annotations

import re
from math import prod

import torch
from torch import Tensor

__all__ = ["from_released", "our_name", "released_name", "released_shape", "to_released"]

# Ours -> released, the first that fits. What is left is "." for "/", "weight" for "kernel" of linear maps and "scale" of norms.
_RENAMED = (
    (r"^token_encoder\.weight$", "token_encoder/Embed_0/embedding"),
    (r"\.attn\.in_proj_weight$", "/attention_layer/qkv/kernel"),
    (r"\.attn\.in_proj_bias$", "/attention_layer/qkv/bias"),
    (r"\.attn\.out_proj\.weight$", "/attention_layer/attn_proj/kernel"),
    (r"\.mlp\.c_fc\.weight$", "/mlp_layer/intermediate/kernel"),
    (r"\.mlp\.c_fc\.bias$", "/mlp_layer/intermediate/bias"),
    (r"\.mlp\.c_proj\.weight$", "/mlp_layer/out/kernel"),
    (r"\.ln_1\.weight$", "/pre_attn_ln/scale"),
    (r"\.ln_1\.bias$", "/pre_attn_ln/bias"),
    (r"\.ln_2\.weight$", "/pre_mlp_ln/scale"),
    (r"\.ln_2\.bias$", "/pre_mlp_ln/bias"),
    (r"_ln\.weight$", "_ln/scale"),
    (r"\.weight$", "/kernel"),
)
_HEADS_AFTER_INPUTS = re.compile(r"/(qkv|query|key|value)/kernel$")  # (inputs, heads, head_size)
_HEADS_BEFORE_OUTPUTS = re.compile(r"/(attn_proj/kernel|seq_attnpool/out/kernel)$")  # (heads, head_size, outputs)
_HEADS_OF_BIAS = re.compile(r"/(qkv|query|key|value)/bias$")  # (heads, head_size)
_AUDIO_EMBEDDING = "audio_encoder/embedding/kernel"  # (frames of a patch, features, outputs), a convolution


def released_name(name: str) -> str:
    """``joint_transformer.layers.0.ln_1.weight`` -> ``joint_transformer/layer_00/pre_attn_ln/scale``."""
    name = re.sub(r"\.layers\.(\d+)", lambda match: f"/layer_{int(match[1]):02d}", name)
    for pattern, replacement in _RENAMED:
        name, count = re.subn(pattern, replacement, name)
        if count:
            break
    return name.replace(".", "/")


def our_name(name: str) -> str:
    """The inverse of ``released_name``; names that the release does not have come out changed all the same, and fit no model."""
    name = re.sub(r"/layer_(\d\d+)/", lambda match: f".layers.{int(match[1])}.", name)
    for old, new in (
        ("token_encoder/Embed_0/embedding", "token_encoder.weight"),
        ("attention_layer/qkv/kernel", "attn.in_proj_weight"),
        ("attention_layer/qkv/bias", "attn.in_proj_bias"),
        ("attention_layer/attn_proj", "attn.out_proj"),
        ("mlp_layer/intermediate", "mlp.c_fc"),
        ("mlp_layer/out", "mlp.c_proj"),
        ("pre_attn_ln", "ln_1"),
        ("pre_mlp_ln", "ln_2"),
    ):
        name = name.replace(old, new)
    return re.sub(r"/(kernel|scale)$", ".weight", name).replace("/", ".")


def released_shape(name: str, shape: torch.Size, head_size: int, audio_patch: int) -> tuple[int, ...]:
    """The released shape of the parameter with this released name, from ours.

    Weight decay goes by it: the released optimizer decays what has more than one axis, biases of query, key and value included.
    """
    if name == _AUDIO_EMBEDDING:
        return audio_patch, shape[1] // audio_patch, shape[0]
    if _HEADS_AFTER_INPUTS.search(name):
        return shape[1], shape[0] // head_size, head_size
    if _HEADS_BEFORE_OUTPUTS.search(name):
        return shape[1] // head_size, head_size, shape[0]
    if _HEADS_OF_BIAS.search(name):
        return shape[0] // head_size, head_size
    return tuple(reversed(shape)) if name.endswith("/kernel") else tuple(shape)


def to_released(name: str, tensor: Tensor, head_size: int, audio_patch: int) -> Tensor:
    """Our parameter in the layout of the released one with this released name; the same numbers, contiguous."""
    shape = released_shape(name, tensor.shape, head_size, audio_patch)
    return (tensor.T if name.endswith("/kernel") else tensor).reshape(shape).contiguous()


def from_released(name: str, tensor: Tensor) -> Tensor:
    """A released parameter in our layout; the same numbers, contiguous."""
    return _flat(name, tensor).contiguous()


def _flat(name: str, tensor: Tensor) -> Tensor:
    if _HEADS_OF_BIAS.search(name):
        return tensor.flatten()
    if not name.endswith("/kernel") or tensor.ndim < 2:
        return tensor
    inputs = tensor.shape[0] if _HEADS_AFTER_INPUTS.search(name) else prod(tensor.shape[:-1])
    return tensor.reshape(inputs, -1).T
