"""Examples of VCR, made from the published files as they are asked for: to finetune on, and to measure."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ..errors import ConfigError
from ..reserve.draws import record_draws
from ..reserve.examples import Pictures
from ..reserve.images import Grid, patches
from ..text.reserve import default_tokenizer
from .order import Position
from .vcr_files import NUM_CHOICES, TERMS, WHERE, VcrItem, VcrItems
from .vcr_pictures import marked_picture
from .vcr_texts import LENGTH, Names, VcrTexts

__all__ = ["AS_IT_IS", "AT_RANDOM", "VcrExamples", "with_pictures"]

AT_RANDOM = Pictures(zoom=(1.0, 1.1))
"""How pictures are changed in training (spec section 17.1), beside being mirrored by a coin."""

AS_IT_IS = Pictures(zoom=(1.0, 1.0), kernels=("bilinear",))
"""For measuring; tall pictures are turned here too, as finetuned weights have only seen them so."""


def with_pictures(items: VcrItems) -> VcrItems:
    """Those items whose picture is there; how many are not is a warning. ConfigError if none is."""
    missing = items.missing_files()
    if len(missing) == len(items):
        raise ConfigError(f"{missing[0]} and all other pictures are missing: unpack vcr1images.zip from {WHERE} ({TERMS})")
    if not missing:
        return items
    files = sorted(set(missing.values()))
    message = f"{items.path}: {len(missing)} of {len(items)} questions are left out; missing are {len(files)} files, the first {files[0]}"
    warnings.warn(message, UserWarning, stacklevel=2)
    return items.only([index for index in range(len(items)) if index not in missing])


class VcrExamples(Dataset[dict[str, Any]]):
    """Examples as of ``ChoiceProgram``, of two sets: the answers, and the rationales given the right answer.

    With ``pictures`` at random a picture is also mirrored by a fair coin, unless a text tells left from right; each example is a function
    of (seed, epoch, item). ``released_flip``: see ``marked_picture``.
    """

    sets = ("answer", "rationale")

    def __init__(
        self,
        items: VcrItems,
        *,
        grid: Grid,
        pictures: Pictures = AS_IT_IS,
        mirror: bool = False,
        released_flip: bool = False,
        length: int = LENGTH,
        seed: int = 0,
    ) -> None:
        self.items, self.grid, self.pictures, self.length, self.seed = items, grid, pictures, length, seed
        self.mirror, self.released_flip = mirror, released_flip
        self.tokenizer = default_tokenizer()

    @classmethod
    def for_training(cls, items: VcrItems, *, grid: Grid, seed: int, **options: Any) -> VcrExamples:
        """Pictures changed and mirrored at random."""
        return cls(items, grid=grid, pictures=AT_RANDOM, mirror=True, seed=seed, **options)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        item = self.items[index]
        answer, rationale = self.items.labels(item, index)
        return {**self._read(item, (answer,), epoch), "label": np.array([answer, rationale])}

    def for_leaderboard(self, index: int) -> dict[str, Any]:
        """``images`` and ``tokens`` (5, 4, L): the answers, then the rationales given each of the answers. No label is needed."""
        return self._read(self.items[index], range(NUM_CHOICES), epoch=0)

    def _read(self, item: VcrItem, given: Any, epoch: int) -> dict[str, Any]:
        objects = self.items.read_objects(item)
        names = Names(objects.names or ())
        texts = VcrTexts.of(item, names)
        draws = record_draws(self.seed, epoch, item.annot_id)
        mirrored = self.mirror and draws.coin("mirror") and not texts.tell_sides
        picture = marked_picture(self.items.read_picture(item), objects, names.drawn, mirrored=mirrored, released_flip=self.released_flip)
        return {
            "images": patches(self.pictures.draw(picture, self.grid, draws)),
            "tokens": texts.sequences(self.tokenizer, given, self.length),
        }
