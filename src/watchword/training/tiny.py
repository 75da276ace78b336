"""The switch that runs any recipe on the playground in a minute: the same program, losses, schedule and data's way, everything small."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ..xclip.expand import PREFIX

__all__ = ["shrink"]

_SIZES = {
    "image_size": 32,
    "patch_size": 16,
    "vision_width": 64,
    "vision_layers": 2,
    "embed_dim": 64,
    "text_width": 64,
    "text_layers": 1,
    "context_length": 32,
}
# An image-text model of timm's tower, without class token, with attention pooling and a bias of the scores, as SigLIP's are.
_ARCHITECTURE = {
    "embed_dim": 96,
    "init_logit_bias": -10,
    "vision_cfg": {"timm_model_name": "test_vit3", "image_size": 32, "timm_pool": "map", "timm_proj": "none"},
    "text_cfg": {
        "context_length": 32, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1, "no_causal_mask": True, "proj_bias": True,
        "pool_type": "last",
    },
}  # fmt: skip
_RESERVE_SIZES = {
    "width": 64, "head_size": 32, "vision_layers": 1, "audio_layers": 1, "span_layers": 1, "joint_layers": 2, "grid": [2, 4],
}  # fmt: skip
_MAX_FRAMES = 4
_NUM_STEPS, _BATCH_SIZE = 6, 4


def shrink(values: dict[str, Any]) -> dict[str, Any]:
    """A recipe's values with a tiny model that starts from nothing, a few clips of the playground, and a few steps.

    What the recipe is about stays: what is trained and how it is scored, mixing, augmentation, schedule, accumulation and precision.
    """
    tiny = deepcopy(values)
    if tiny.get("program") == "pretraining":
        return _shrink_pretraining(tiny)
    if tiny.get("program") == "choices":
        data = {"kind": "playground_questions", "num_stills": 32, "num_held_out": 24, "frame_size": 32}
        if "vcr" in str(tiny.get("data", {}).get("kind")):
            kept = {key: value for key, value in tiny["data"].items() if key in ("length", "released_flip")}
            data = {"kind": "playground_vcr", "num_questions": 16, "num_held_out": 8, **kept}
        if "tvqa" in str(tiny.get("data", {}).get("kind")):
            data = {"kind": "playground_tvqa", "num_questions": 6, "num_held_out": 3, "num_scenes": 1, "scene_seconds": 2, "frame_size": 32}
        small = _shrink_training(tiny.get("training", {}))
        return tiny | {"start": None, "model": _RESERVE_SIZES, "data": data, "training": small}
    if tiny.get("program") == "classes":
        data = {"kind": "playground_sounds", "num_clips": 8, "num_held_out": 4, "frame_size": 32}
        return tiny | {"start": None, "model": _RESERVE_SIZES, "data": data, "training": _shrink_training(tiny.get("training", {}))}
    model, data, training = (tiny.get(key) or {} for key in ("model", "data", "training"))
    expanded = str(tiny.pop("start", None)).startswith(PREFIX) or "architecture" in model
    tiny.pop("evaluations", None)
    sizes = {"architecture": _ARCHITECTURE} if expanded else _SIZES
    frames = min(int(model.get("num_frames", 8)), _MAX_FRAMES)
    tiny["model"] = {key: value for key, value in model.items() if key != "preprocessing"} | sizes | {"num_frames": frames}
    if data.get("kind") == "playground_stills":
        tiny["data"] = {**data, "num_stills": 16}
    else:
        tiny["data"] = {"kind": "playground_clips", "num_clips": 16, "num_held_out": 8}
    tiny["training"] = _shrink_training(training)
    return tiny


def _shrink_pretraining(tiny: dict[str, Any]) -> dict[str, Any]:
    """Kept are masking, draws and optimizer; each process's frames have as many patches as the others'."""
    tiny.pop("start", None)
    grids = [[2, 4], [4, 2]][: len(tiny.get("grids", ()))]
    lengths = {"joint_length": 192, "text_length": min(int(tiny.get("masking", {}).get("text_length", 640)), 192), "web_masks": 0}
    training = {key: value for key, value in tiny.get("training", {}).items() if key != "moments_from"}
    return tiny | {
        "model": _RESERVE_SIZES,
        "grids": grids,
        "masking": tiny.get("masking", {}) | lengths,
        "pretraining": tiny.get("pretraining", {}) | {"spans_per_example": 12},
        "data": {"kind": "playground_films", "num_films": 2, "num_held_out": 4, "frame_size": 32},
        "training": _shrink_training(training) | {"compile": False},
    }


def _shrink_training(training: dict[str, Any]) -> dict[str, Any]:
    length = {"num_steps": _NUM_STEPS, "batch_size": _BATCH_SIZE, "evaluate_every": None, "checkpoint_every": _NUM_STEPS, "num_workers": 0}
    optimizer = {key: value for key, value in training.get("optimizer", {}).items() if not key.startswith("warmup")} | {"warmup_steps": 1}
    small = {key: value for key, value in training.items() if key != "num_epochs"} | length | {"optimizer": optimizer}
    if "keep_best" in training:
        small["evaluate_every"] = _NUM_STEPS // 2
    if "accumulation" in training:
        small["accumulation"] = min(int(training["accumulation"]), 2)
    return small
