"""Multiple choice about single frames of the playground: what finetuning of small pretrained models is measured on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ..playground import COLOURS, SHAPES
from ..playground.world import with_article
from ..reserve.choices import choice_tokens
from ..reserve.images import Grid, fit, patches
from ..text.reserve import default_tokenizer
from .order import Position
from .playground import PlaygroundStills

__all__ = ["PlaygroundQuestions"]

QUESTION = "what is shown?"
NUM_CHOICES = 4
TOKEN_LENGTH = 16


class PlaygroundQuestions(Dataset[dict[str, Any]]):
    """A still and four choices such as "a red square": the right one, one of another colour, one of another shape, and one of both, in
    random order. Examples are as of ``ChoiceProgram``. Of ``num_stills`` those are asked about that show one shape.
    """

    sets = ("answer",)

    def __init__(self, num_stills: int, *, grid: Grid, frame_size: int, seed: int, cache_folder: Path) -> None:
        self.stills = PlaygroundStills(num_stills, size=frame_size, seed=seed, cache_folder=cache_folder)
        self.grid, self.seed = grid, seed
        single = [number for number, caption in enumerate(self.stills.captions) if caption in map(with_article, SHAPES)]
        self.places = np.flatnonzero(np.isin(self.stills.caption_numbers[:, 0], single))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        draw = np.random.default_rng((self.seed, index))
        still = self.stills[epoch, int(self.places[index])]
        colour, shape = self.stills.captions[still["captions"][1]].split()[-2:]
        colour_2, shape_2 = draw.choice([c for c in COLOURS if c != colour]), draw.choice([s for s in SHAPES if s != shape])
        choices = [(colour, shape), (colour_2, shape), (colour, shape_2), (colour_2, shape_2)]
        order = draw.permutation(NUM_CHOICES)
        texts = [with_article(f"{choices[i][0]} {choices[i][1]}") for i in order]
        return {
            "images": patches(fit(still["frames"][0], self.grid).pixels),
            "tokens": choice_tokens(QUESTION, texts, default_tokenizer(), TOKEN_LENGTH)[None],
            "label": np.flatnonzero(order == 0),
        }
