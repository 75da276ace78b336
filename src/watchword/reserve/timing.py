"""Correction of the word times of automatic captions by a small network: released parameters, or ours trained anew.

Automatic captions show a word a little before or after it is spoken. The network looks at each word and its two neighbours and says how
far its start and end are off. Source: merlot-reserve-data spec section 5; the file is the release's `offset_model_params.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import CheckpointError, InputError
from ..files import write_text
from ..media.subtitles import Word
from ..text.reserve import ReserveTokenizer, default_tokenizer

__all__ = ["NUM_FEATURES", "SpokenTranscript", "TimingRegressor", "fit_timing", "word_features"]

Values = npt.NDArray[np.float64]

# What stands for a neighbour that there is not, one number a quantity.
_DEFAULTS = (1.0, 0.0, 0.0, 0.1, 0.0, 0.0)
NUM_FEATURES = 3 * len(_DEFAULTS)
MAX_SHIFT_SECONDS = 0.5
_MAX_FILE_BYTES = 8 << 20
_LAYERS = ("mapping.0", "mapping.2", "mapping.4")
_VOWELS = frozenset("aeiou")
_HIDDEN = 32
_REACH = 1.5  # tanh comes to its ends only slowly


def word_features(words: Sequence[Word], tokenizer: ReserveTokenizer | None = None) -> Values:
    """(words, 18): six quantities of each word, its left and its right neighbour, as the network takes them before standardising.

    The quantities: characters, token ids, whether it begins upper case, duration in seconds, vowels, characters that are not of a word.
    """
    tokenizer = tokenizer or default_tokenizer()
    num_ids = lru_cache(maxsize=None)(lambda text: len(tokenizer.encode(text, special=False)))
    own = np.array(
        [
            (
                len(word.text),
                num_ids(word.text),
                word.text[:1].isupper(),
                word.end - word.start,
                sum(letter in _VOWELS for letter in word.text.lower()),
                len(re.findall(r"\W", word.text)),
            )
            for word in words
        ],
        np.float64,
    ).reshape(-1, len(_DEFAULTS))
    padded = np.concatenate([[_DEFAULTS], own, [_DEFAULTS]])
    return np.stack([own, padded[:-2], padded[2:]], axis=-1).reshape(-1, NUM_FEATURES)


@dataclass(frozen=True, eq=False)
class TimingRegressor:
    """The network: 18 features, hidden layers with ReLU, then tanh(.) x exp(temperature) + bias, in seconds.

    weights, biases: of its three layers, float64 (out, in) and (out,).  mean, std: (18,) of the features.
    temperature, bias: (2,) for start and end.
    """

    weights: tuple[Values, Values, Values]
    biases: tuple[Values, Values, Values]
    mean: Values
    std: Values
    temperature: Values
    bias: Values

    @classmethod
    def load(cls, path: str | PathLike[str]) -> TimingRegressor:
        """Read a parameter file in the released format. Raises CheckpointError if it cannot be read or does not fit together."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(_MAX_FILE_BYTES + 1)
            if len(data) > _MAX_FILE_BYTES:
                raise ValueError(f"more than {_MAX_FILE_BYTES} bytes")
            return cls._from_lists(json.loads(data))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"{str(path)!r}: not parameters of the word-timing network ({error}); give the release's offset_model_params.json, "
                "or a file written by TimingRegressor.save"
            ) from None

    @classmethod
    def _from_lists(cls, lists: Any) -> TimingRegressor:
        names = [*(f"{layer}.{part}" for layer in _LAYERS for part in ("weight", "bias")), "mean", "std", "temp", "bias"]
        if not isinstance(lists, dict) or set(lists) != set(names):
            raise ValueError(f"its keys must be {', '.join(names)}")
        arrays = {}
        for name in names:
            try:
                arrays[name] = np.asarray(lists[name], np.float64).reshape(-1)
            except (TypeError, OverflowError):
                raise ValueError(f"{name} is not a list of numbers") from None
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} has a number that is not finite")
        sizes = [NUM_FEATURES, *(len(arrays[f"{layer}.bias"]) for layer in _LAYERS)]
        expected = {f"{layer}.weight": sizes[i] * sizes[i + 1] for i, layer in enumerate(_LAYERS)}
        expected |= {"mapping.4.bias": 2, "mean": NUM_FEATURES, "std": NUM_FEATURES, "temp": 2, "bias": 2}
        for name, size in expected.items():
            if len(arrays[name]) != size:
                raise ValueError(f"{name} has {len(arrays[name])} numbers, but {size} are needed")
        if not (arrays["std"] > 0).all():
            raise ValueError("std must be positive")
        return cls(
            weights=tuple(arrays[f"{layer}.weight"].reshape(sizes[i + 1], sizes[i]) for i, layer in enumerate(_LAYERS)),  # type: ignore[arg-type]
            biases=tuple(arrays[f"{layer}.bias"] for layer in _LAYERS),  # type: ignore[arg-type]
            mean=arrays["mean"],
            std=arrays["std"],
            temperature=arrays["temp"],
            bias=arrays["bias"],
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the parameters in the released format, whole or not at all."""
        lists = {"temp": self.temperature, "bias": self.bias, "mean": self.mean, "std": self.std}
        for layer, weight, bias in zip(_LAYERS, self.weights, self.biases, strict=True):
            lists |= {f"{layer}.weight": weight, f"{layer}.bias": bias}
        write_text(Path(path), json.dumps({name: array.reshape(-1).tolist() for name, array in lists.items()}))

    def offsets(self, features: Values) -> Values:
        """(words, 2) seconds to add to the start and end of each word, from its (words, 18) features."""
        hidden = (features - self.mean) / self.std
        for weight, bias in zip(self.weights[:2], self.biases[:2], strict=True):
            hidden = np.maximum(hidden @ weight.T + bias, 0)
        return np.asarray(np.tanh(hidden @ self.weights[2].T + self.biases[2]) * np.exp(self.temperature) + self.bias)

    def correct(self, words: Sequence[Word], tokenizer: ReserveTokenizer | None = None) -> list[Word]:
        """The words with corrected times. Where two words meet they still do: the boundary moves by the mean of both answers."""
        if not words:
            return []
        shifts = boundary_shifts(self.offsets(word_features(words, tokenizer)))
        return [replace(word, start=word.start + float(shifts[i]), end=word.end + float(shifts[i + 1])) for i, word in enumerate(words)]


def boundary_shifts(offsets: Values) -> Values:
    """(words + 1,) seconds by which each boundary moves, from (words, 2) offsets of starts and ends; at most half a second either way."""
    starts, ends = np.append(offsets[:, 0], offsets[-1, 1]), np.insert(offsets[:, 1], 0, offsets[0, 0])
    return np.clip((starts + ends) / 2, -MAX_SHIFT_SECONDS, MAX_SHIFT_SECONDS)


@dataclass(frozen=True)
class SpokenTranscript:
    """What the network learns from. words: as the captions time them.  spoken: (start, end) seconds at which each is really heard."""

    words: tuple[Word, ...]
    spoken: tuple[tuple[float, float], ...]


def fit_timing(
    transcripts: Sequence[SpokenTranscript],
    tokenizer: ReserveTokenizer | None = None,
    *,
    steps: int = 1000,
    learning_rate: float = 0.01,
    seed: int = 0,
) -> TimingRegressor:
    """Train the network anew on transcripts whose true word times are known (from a forced aligner, say).

    All words form one batch; the absolute error in seconds is made small. The same transcripts and seed give the same parameters.

    Raises InputError if there are fewer than two words, or a transcript has not one true time for each word.
    """
    for number, transcript in enumerate(transcripts, 1):
        if len(transcript.words) != len(transcript.spoken):
            raise InputError(f"transcript {number} has {len(transcript.words)} words, but {len(transcript.spoken)} true times")
    inputs = np.concatenate([np.empty((0, NUM_FEATURES)), *(word_features(transcript.words, tokenizer) for transcript in transcripts)])
    wanted = np.array(
        [
            (start - word.start, end - word.end)
            for transcript in transcripts
            for word, (start, end) in zip(transcript.words, transcript.spoken, strict=True)
        ]
    ).reshape(-1, 2)
    if len(wanted) < 2 or not (np.isfinite(inputs).all() and np.isfinite(wanted).all()):
        raise InputError(f"{len(wanted)} words to learn timing from; give at least 2, with finite times")
    std = inputs.std(axis=0)
    start = _initial(inputs.mean(axis=0), np.where(std > 0, std, 1.0), wanted, seed)
    return _trained(start, inputs, wanted, steps, learning_rate)


def _initial(mean: Values, std: Values, wanted: Values, seed: int) -> TimingRegressor:
    """Answers lie around the median of the wanted offsets, within reach of nearly all of them."""
    draw = np.random.default_rng(seed)
    sizes = (NUM_FEATURES, _HIDDEN, _HIDDEN, 2)
    weights = tuple(draw.normal(0, np.sqrt(2 / old), (new, old)) for old, new in pairwise(sizes))
    bias = np.median(wanted, axis=0)
    reach = np.clip(_REACH * np.quantile(np.abs(wanted - bias), 0.99, axis=0), 0.01, MAX_SHIFT_SECONDS)
    return TimingRegressor(weights, tuple(np.zeros(size) for size in sizes[1:]), mean, std, np.log(reach), bias)  # type: ignore[arg-type]


def _trained(start: TimingRegressor, inputs: Values, wanted: Values, steps: int, learning_rate: float) -> TimingRegressor:
    scaled = torch.from_numpy((inputs - start.mean) / start.std)
    targets = torch.from_numpy(wanted)
    parameters = [torch.tensor(array, requires_grad=True) for array in (*start.weights, *start.biases, start.temperature, start.bias)]
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (_answers(scaled, parameters) - targets).abs().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    arrays = [parameter.detach().numpy() for parameter in parameters]
    return replace(start, weights=tuple(arrays[:3]), biases=tuple(arrays[3:6]), temperature=arrays[6], bias=arrays[7])  # type: ignore[arg-type]


def _answers(scaled: Tensor, parameters: list[Tensor]) -> Tensor:
    hidden = scaled
    for weight, bias in zip(parameters[:2], parameters[3:5], strict=True):
        hidden = torch.relu(hidden @ weight.T + bias)
    return torch.tanh(hidden @ parameters[2].T + parameters[5]) * parameters[6].exp() + parameters[7]
