"""The authors' checkpoint files: what is in them, and a model from them and back (spec section 7)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt, prod
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import CheckpointError, ConfigError
from ..weights.folders import WithoutRandomNumbers
from ..weights.states import require_match
from .config import GRIDS, OPTIONAL_PARTS, ReserveConfig, kind_of, size_of
from .model import Reserve
from .msgpack_file import StoredArray, Tree, read_tree, write_tree
from .names import from_released, released_name, released_shape, to_released

__all__ = ["ReleasedFile", "load_released", "read_released", "save_released"]

MAX_LAYERS = 1000
JOINT_KERNEL = "joint_transformer/layer_00/attention_layer/qkv/kernel"


@dataclass(frozen=True)
class ReleasedFile:
    """A checkpoint whose structure was read and whose numbers were not.

    Attributes:
        step: of the training that it is from.
        params: arrays by path, ``joint_transformer/final_ln/scale``.
        optimizer: the optimizer's state as nested maps by the same paths; None in files without.
        source: the file's path.
    """

    step: int
    params: dict[str, StoredArray]
    optimizer: Tree
    source: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Which optional parts of a model it has."""
        return tuple(part for part in OPTIONAL_PARTS if any(name.startswith(f"{part}/") for name in self.params))

    @property
    def kind(self) -> str:
        """``pretrained``, ``finetuned on VCR``, ``finetuned on TVQA``, or ``custom`` for another set of parts."""
        return kind_of(self.parts)

    @property
    def size(self) -> str:
        """``base``, ``large``, or ``custom`` for a model of other sizes."""
        return size_of(self.config())

    def config(self, grid: tuple[int, int] | None = None) -> ReserveConfig:
        """The configuration that the shapes tell (spec section 1). No shape tells the grid of a frame's patches: without ``grid`` it is
        (18, 32) for finetuned weights and files named ``resadapt``, as their makers used them, and else (12, 20).

        Raises CheckpointError if the shapes are not those of a model.
        """
        if grid is None:
            adapted = "proj" in self.parts or "resadapt" in str(self.source)
            grid = GRIDS[1] if adapted else GRIDS[0]
        vocab_size, width = self._shape("token_encoder/Embed_0/embedding", 2)
        patch_features = self._shape("vision_encoder/embedding/kernel", 2, width)[0]
        changes: dict[str, Any] = {}
        if "audio_encoder" in self.parts:
            audio_patch, audio_features, _ = self._shape("audio_encoder/embedding/kernel", 3, width)
            changes = {"audio_patch": audio_patch, "audio_features": audio_features}
        if "joint_transformer/pe" in self.params:
            changes["learned_positions"] = self._shape("joint_transformer/pe", 2, width)[0]
        for name in ("vision", "audio", "span", "joint"):
            part = "joint_transformer" if name == "joint" else f"{name}_encoder/transformer"
            layers = {match[1] for path in self.params if (match := re.match(rf"{part}/layer_(\d+)/", path))}
            if layers:
                changes[f"{name}_layers"] = len(layers)
        try:
            return ReserveConfig(
                width=width,
                head_size=self._shape(JOINT_KERNEL, 3)[2],
                grid=grid,
                patch_size=isqrt(patch_features // 3),
                vocab_size=vocab_size,
                parts=self.parts,
                weights=f"{Path(self.source).name} (released format, step {self.step})",
                **changes,
            )
        except ConfigError as error:
            raise CheckpointError(f"{self.source} does not hold a MERLOT Reserve model: {error}") from error

    def _shape(self, name: str, axes: int, width: int | None = None) -> tuple[int, ...]:
        """The shape of an array with so many axes, the last of which is ``width``."""
        array = self.params.get(name)
        if array is None or len(array.shape) != axes or width not in (None, array.shape[-1]):
            raise CheckpointError(f"{self.source} does not hold a MERLOT Reserve model: no {name} of {axes} axes that fits is in it")
        return array.shape


def read_released(path: str | Path) -> ReleasedFile:
    """Read the structure of a released file; memory does not grow with it. Raises CheckpointError for anything else, see ``read_tree``."""
    tree = read_tree(Path(path))
    held = tree.get("params") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or set(tree) - {"step", "params", "opt_state"} or not isinstance(held, dict):
        raise CheckpointError(f"{path} is no released checkpoint: it should hold step, params and opt_state")
    step = tree.get("step", 0)
    if isinstance(step, StoredArray) and step.shape == () and step.dtype == torch.int32:
        step = int(step.tensor())
    if type(step) is not int:
        raise CheckpointError(f"{path} is no released checkpoint: its step is no whole number")
    params: dict[str, StoredArray] = {}
    _collect(held, "", params, str(path))
    return ReleasedFile(step=step, params=params, optimizer=tree.get("opt_state"), source=str(path))


def load_released(path: str | Path, *, grid: tuple[int, int] | None = None) -> Reserve:
    """A model, float32 on the CPU, from a released file. Names and shapes are checked before any number is read.

    Half precision becomes float32 exactly. Numbers that are not finite, which the authors' saving makes of values beyond float16, are
    warned of. Raises CheckpointError if anything is missing, extra or misshapen; ``grid`` see ``ReleasedFile.config``.
    """
    file = read_released(path)
    config = file.config(grid)
    # What a model of these sizes has at least. A lying file must not make us ask for more memory than it has numbers.
    layers = config.vision_layers + config.joint_layers
    layers += sum(getattr(config, f"{part}_layers") for part in ("audio", "span") if f"{part}_encoder" in config.parts)
    if layers > MAX_LAYERS:
        raise CheckpointError(f"{path} does not hold a MERLOT Reserve model: {layers:,} layers are in it; {MAX_LAYERS:,} is the most")
    if 12 * config.width**2 * layers > sum(prod(array.shape) for array in file.params.values()):
        raise CheckpointError(
            f"{path} does not hold a MERLOT Reserve model: it has too few numbers for width {config.width}, {layers} layers"
        )
    with WithoutRandomNumbers():
        model = Reserve(config)
    expected = {
        released_name(name): torch.Size(released_shape(released_name(name), tensor.shape, config.head_size, config.audio_patch))
        for name, tensor in model.state_dict().items()
    }
    require_match(expected, file.params, str(path))
    whole = [name for name, array in file.params.items() if not array.dtype.is_floating_point]
    if whole:
        raise CheckpointError(f"{path} does not fit the model, nothing was loaded: {whole[0]} is of whole numbers")
    state: dict[str, Tensor] = {}
    infinite = []
    for name in model.state_dict():
        path_in_file = released_name(name)
        tensor = file.params[path_in_file].tensor().float()
        if not tensor.isfinite().all():
            infinite.append(path_in_file)
        state[name] = from_released(path_in_file, tensor)
    if infinite:
        warnings.warn(f"{path}: {len(infinite)} of the arrays hold numbers that are not finite, {infinite[0]} first", stacklevel=2)
    model.load_state_dict(state, assign=True)
    return model


def save_released(model: Reserve, path: str | Path, *, step: int = 0, dtype: Literal["float16", "float32"] = "float16") -> None:
    """Write the file that the authors' code reads, without optimizer.

    ``float16`` is what their own saving writes, rounded to the nearest; ``float32`` keeps every number, twice the size, and is read alike.

    Raises CheckpointError for what their code could not run or hold: standard rotary positions, named classes, numbers beyond
    float16.
    """
    config = model.config
    if config.rotary != "released":
        raise CheckpointError("the authors' code has no standard rotary positions, so these weights would give other numbers there")
    if config.class_names:
        raise CheckpointError("the authors' format has no place for class names, so these weights would mean nothing there")
    target = torch.float16 if dtype == "float16" else torch.float32
    params: dict[str, Any] = {}
    for name, tensor in sorted((released_name(name), tensor) for name, tensor in model.state_dict().items()):
        stored = to_released(name, tensor, config.head_size, config.audio_patch).to(target)
        if not stored.isfinite().all():
            raise CheckpointError(f"{name} holds a number that float16 cannot: write float32 (dtype='float32')")
        *parents, leaf = name.split("/")
        branch = params
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = stored
    write_tree(Path(path), {"step": step, "params": params, "opt_state": None})


def _collect(tree: Mapping[str, Tree], prefix: str, params: dict[str, StoredArray], source: str) -> None:
    for name, value in tree.items():
        if isinstance(value, dict):
            _collect(value, f"{prefix}{name}/", params, source)
        elif isinstance(value, StoredArray):
            params[prefix + name] = value
        else:
            raise CheckpointError(f"{source} is no released checkpoint: parameter {prefix}{name} is no array")
