"""From a recipe of MERLOT Reserve's pretraining to what is trained: the records, the model as it begins, and the program around both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import torch

from .. import processes
from ..datasets.film_records import film_records
from ..datasets.records import RecordExamples, Records
from ..errors import ConfigError
from ..fields import checked_fields
from ..reserve import Reserve, ReserveConfig
from ..reserve.ablations import TokenProgram
from ..reserve.examples import Pictures
from ..reserve.initialisation import begin_small
from ..reserve.masking import Masking
from ..reserve.pretraining import PretrainingConfig
from ..reserve.recipe import PretrainingProgram
from ..reserve.shards import RecordShards
from .loop import Program
from .schema import FilmsData, PretrainingRecipe, ReserveBeginning

__all__ = ["pretraining"]


T = TypeVar("T")
_HELD_OUT_SEED = 1000


def pretraining(recipe: PretrainingRecipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on. Raises ConfigError, naming the key, for values that cannot be."""
    model = _model(recipe)
    masking, config = _made(Masking, recipe.masking, "masking"), _made(PretrainingConfig, recipe.pretraining, "pretraining")
    config = replace(config, mask_rate=masking.mask_rate)
    masking = replace(masking, mask_tokens=recipe.objective == "masked_tokens")
    grid = model.config.grid
    pictures = Pictures.of_adaptation(grid) if recipe.pictures == "adaptation" else _made(Pictures, recipe.pictures, "pictures")
    training, held_out = _records(recipe, beside)

    def examples(records: Records, pictures: Pictures, seed: int) -> RecordExamples:
        return RecordExamples(records, grid=grid, masking=masking, pretraining=config, pictures=pictures, seed=seed)

    data = examples(training, pictures, recipe.training.seed)
    if recipe.beginning is not None and recipe.start is None:
        _begin(model, data, recipe.beginning)
    measured = examples(held_out, Pictures.unchanged(), _HELD_OUT_SEED) if len(held_out) else None
    if recipe.objective == "spans":
        program = PretrainingProgram(model, data, config=config, held_out=measured)
    else:
        program = TokenProgram(model, data, config=config, objective=recipe.objective, held_out=measured)
    return program, {"protocol": f"{len(held_out)} held-out records of {recipe.data.kind}"}


def _model(recipe: PretrainingRecipe) -> Reserve:
    """The model as it begins, with the grid that is this process's."""
    values = dict(recipe.model)
    start = None if recipe.start is None else Reserve.from_pretrained(recipe.start)
    if start is not None and "size" not in values:
        known = start.config.as_dict()
    else:
        known = ReserveConfig.named(values.pop("size", "base")).as_dict()
    config = ReserveConfig.from_dict({**known, **values, "weights": recipe.name})
    for name, value in {} if start is None else start.config.as_dict().items():
        if getattr(config, name) != value and name not in ("grid", "weights"):
            raise ConfigError(f"model.{name} is {getattr(config, name)}, but the weights of start have {value}; only the grid can change")
    if len({prod(grid) for grid in recipe.grids}) > 1:
        raise ConfigError("grids must all be of the same number of patches, or the processes' batches differ in length")
    if recipe.grids:
        config = replace(config, grid=recipe.grids[processes.rank() % len(recipe.grids)])
    model = Reserve(config)
    if start is not None:
        model.load_state_dict(start.state_dict())
    return model


def _begin(model: Reserve, data: RecordExamples, beginning: ReserveBeginning) -> None:
    some = [data[0, number] for number in range(min(beginning.num_records, len(data)))]
    patches, clips = (torch.cat([torch.from_numpy(example[name]) for example in some]) for name in ("images", "audio_clips"))
    clips = clips.reshape(-1, model.config.audio_frames, model.config.audio_features)
    begin_small(model, patches, clips, whitening_floor=beginning.whitening, token_std=beginning.token_std, scale=beginning.scale)


def _records(recipe: PretrainingRecipe, beside: Path) -> tuple[Records, Records]:
    data, cache = recipe.data, beside / "cache"
    if isinstance(data, FilmsData):
        sizes: dict[str, Any] = dict(
            num_segments=data.segments_per_record, frame_size=data.frame_size, text_length=data.text_length, cache_folder=cache
        )
        training = film_records(data.num_films, split="train", seed=data.seed, **sizes)
        # A film of 24 scenes makes three records or more.
        held_out = film_records(max(1, -(-data.num_held_out // 3)), split="unseen", seed=data.seed + 1, **sizes)
    else:
        training, held_out = RecordShards(data.folder), RecordShards(data.folder, split="validation")
    return training, _First(held_out, data.num_held_out)


class _First:
    """The first so many of some records."""

    def __init__(self, records: Records, count: int) -> None:
        self.records, self.count = records, min(count, len(records))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.records[index]


def _made(kind: type[T], values: Mapping[str, Any], key: str) -> T:
    try:
        return kind(**checked_fields(kind, values))
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
