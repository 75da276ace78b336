"""TVQA's questions as examples of ``reserve.sound_choices.SoundChoiceProgram``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from ..reserve.draws import RandomDraws, record_draws
from ..reserve.examples import Pictures
from ..reserve.images import Grid, patches
from ..reserve.sound_choices import SEQUENCE_LENGTH, choice_sequences, query_tokens
from ..reserve.spectrogram import subsegments
from ..text.reserve import ReserveTokenizer, default_tokenizer
from .order import Position
from .tvqa import TvqaExample, TvqaFolder, TvqaItem
from .tvqa_windows import NUM_WINDOWS

__all__ = ["TvqaExamples", "as_tensors", "shifted"]

_NOISE_HOPS = 4
_TRAINING, _MEASURING = Pictures(zoom=(1.0, 1.1)), Pictures(zoom=(1.0, 1.0), kernels=("bilinear",))


class TvqaExamples(Dataset[dict[str, Any]]):
    """``images`` (7, patches, 768), ``audio_clips`` (7, 3, 60, 65), ``sequences`` (2, 5, length, 2) and ``label`` of labelled questions.

    In training frames are a little enlarged and cropped, and sound is shifted, at random, anew in each epoch.
    """

    def __init__(self, folder: TvqaFolder, items: Sequence[TvqaItem], *, grid: Grid, training: bool, seed: int = 0) -> None:
        self.folder, self.grid, self.training, self.seed = folder, grid, training, seed
        self.items = [item for item in items if item.label is not None]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        """Raises InputError or MediaError, naming the clip, if its files cannot be read."""
        epoch, index = position
        item = self.items[index]
        draws = record_draws(self.seed, epoch, str(item.qid)) if self.training else None
        return as_tensors(item, self.folder.read(item), grid=self.grid, draws=draws) | {"label": item.label}


def as_tensors(
    item: TvqaItem,
    example: TvqaExample,
    *,
    grid: Grid,
    tokenizer: ReserveTokenizer | None = None,
    draws: RandomDraws | None = None,
    length: int = SEQUENCE_LENGTH,
) -> dict[str, Tensor]:
    """What the model reads of a question. Windows that are missing to seven have neither picture nor sound, but take their places.

    draws: what changes frames and sound at random; None leaves them as they are.
    """
    tokenizer = tokenizer or default_tokenizer()
    missing = NUM_WINDOWS - len(example.frames)
    pictures, drawn = (_TRAINING, draws) if draws is not None else (_MEASURING, RandomDraws(np.random.default_rng(0)))
    images = torch.stack([patches(pictures.draw(frame, grid, drawn)) for frame in example.frames])
    log_mels = example.log_mels if draws is None else shifted(example.log_mels, draws.generator)
    query = query_tokens(example.windows.located_text, item.question, tokenizer)
    sequences = choice_sequences(query, item.choices, [*example.texts, *[""] * missing], tokenizer, length=length)
    return {
        "images": functional.pad(images, (0, 0, 0, 0, 0, missing)),
        "audio_clips": subsegments(functional.pad(log_mels, (0, 0, 0, 0, 0, missing))),
        "sequences": torch.from_numpy(sequences),
    }


def shifted(log_mels: Tensor, generator: np.random.Generator) -> Tensor:
    """Sound (windows, 180, 64) up to four hops later or earlier: noise like the sound, band by band, stands at both ends, and as many
    hops as there were are taken from a random start on."""
    hops = log_mels.flatten(0, 1).numpy()
    noise = generator.normal(hops.mean(axis=0), hops.std(axis=0), (2 * _NOISE_HOPS, hops.shape[1])).astype(np.float32)
    start = int(generator.integers(_NOISE_HOPS + 1))
    longer = np.concatenate([noise[:_NOISE_HOPS], hops, noise[_NOISE_HOPS:]])
    return torch.from_numpy(longer[start : start + len(hops)]).view_as(log_mels)
