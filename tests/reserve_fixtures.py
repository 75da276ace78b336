"""Reserve's fixture folder: its index, its models with seeded weights, its seeded inputs. Sizes come from the index, never from names."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from shared_folders import GOLDEN_ROOT
from watchword.reserve import Reserve, ReserveConfig
from watchword.reserve.config import PRETRAINED_PARTS
from watchword.reserve.names import from_released, our_name
from watchword.weights.states import fill

FOLDER = GOLDEN_ROOT / "reserve"
ABSENT = f"{FOLDER} has no fixtures.json: set $WATCHWORD_GOLDEN to the folder of fixtures"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def arrays(name: str) -> dict[str, Tensor]:
    """The tensors of a fixture; whole numbers are int64, as indices must be."""
    return {key: value if value.is_floating_point() else value.long() for key, value in load_file(FOLDER / name).items()}


def index() -> dict[str, Any]:
    return read("fixtures.json") if (FOLDER / "fixtures.json").is_file() else {"models": {}, "fixtures": []}


def entries(kind: str) -> list[Any]:
    """One test parameter for each fixture of the kind; one that skips with the reason if there is none."""
    found = [entry for entry in index()["fixtures"] if entry["kind"] == kind]
    if not found:
        reason = f"{FOLDER} has no fixture of kind {kind}" if index()["fixtures"] else ABSENT
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(entry, id=f"{entry.get('model', kind)}-{number}") for number, entry in enumerate(found)]


def config_of(name: str, **changes: Any) -> ReserveConfig:
    values = index()["models"][name]
    return ReserveConfig(
        width=values["hidden_size"],
        head_size=values["size_per_head"],
        grid=tuple(values["output_grid"]),
        patch_size=values["vit_patch_size"],
        pooling=values["vit_pooling_ratio"],
        audio_frames=values["audio_seq_length"],
        audio_patch=values["audio_patch_size"],
        audio_tokens=values["audio_token_length"],
        span_length=values["text_span_length"],
        **{key: values[key] for key in ("vision_layers", "audio_layers", "span_layers", "joint_layers", "vocab_size")},
        **{"parts": PRETRAINED_PARTS, **changes},
    )


def seeded_state(manifest: Any, seeded_weights: ModuleType) -> dict[str, Tensor]:
    """The weights of a manifest, in our names and layouts."""
    released = {name: torch.from_numpy(np.asarray(value)) for name, value in seeded_weights.make(manifest).items()}
    return {our_name(name): from_released(name, tensor) for name, tensor in released.items()}


def seeded_model(name: str, seeded_weights: ModuleType) -> Reserve:
    model = Reserve(config_of(name))
    fill(model, seeded_state(read(index()["models"][name]["manifest"]), seeded_weights), name)
    return model.eval()


def seeded_input(name: str, seeded_weights: ModuleType) -> Tensor:
    """An input of ``seeded_inputs.json``, checked against what is recorded of it, before any zeroing."""
    entry = next(entry for entry in read("seeded_inputs.json")["inputs"] if entry["name"] == name)
    values = seeded_weights.tensor(name, tuple(entry["shape"]), entry["mean"], entry["std"])
    if entry["kind"] == "audio":
        values[..., -1] = 1.0
    assert np.allclose(values.reshape(-1)[: len(entry["first"])], entry["first"], atol=1e-6)
    return torch.from_numpy(values)


def difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours.detach().float() - theirs.float()).abs().max())
