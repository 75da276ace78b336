"""Learning anew how automatic captions mistime their words, and how much that helps on words that were not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..media.subtitles import Word
from ..reserve.timing import SpokenTranscript, TimingRegressor, fit_timing

__all__ = ["LearnedTiming", "learn_timing"]

HELD_OUT_SHARE = 0.2


@dataclass(frozen=True)
class LearnedTiming:
    """before, after: mean absolute error in seconds of starts and ends, over the ``num_held_out`` words, as captioned and as corrected."""

    regressor: TimingRegressor
    before: float
    after: float
    num_words: int
    num_held_out: int


def learn_timing(transcripts: Sequence[SpokenTranscript], *, seed: int = 0) -> LearnedTiming:
    """Learn from all transcripts but some, a fifth of the words, on which the error is measured; of a single transcript its last fifth.

    Raises InputError if fewer than two words are left to learn from.
    """
    learned, held_out = _parts(transcripts, seed)
    regressor = fit_timing(learned, seed=seed)
    errors = [(_error(part, part.words), _error(part, regressor.correct(part.words))) for part in held_out]
    before, after = (float(np.concatenate(parts).mean()) for parts in zip(*errors, strict=True))
    counts = [sum(len(part.words) for part in parts) for parts in (learned, held_out)]
    return LearnedTiming(regressor, before, after, sum(counts), counts[1])


def _parts(transcripts: Sequence[SpokenTranscript], seed: int) -> tuple[list[SpokenTranscript], list[SpokenTranscript]]:
    num_words = sum(len(transcript.words) for transcript in transcripts)
    if len(transcripts) < 2:
        kept = num_words - max(1, round(num_words * HELD_OUT_SHARE))
        if kept < 1:
            raise InputError(f"{num_words} words to learn timing from; give at least 3")
        (one,) = transcripts
        return [SpokenTranscript(one.words[:kept], one.spoken[:kept])], [SpokenTranscript(one.words[kept:], one.spoken[kept:])]
    order = np.random.default_rng(seed).permutation(len(transcripts)).tolist()
    held_out = [order.pop()]
    while len(order) > 1 and sum(len(transcripts[i].words) for i in held_out) < HELD_OUT_SHARE * num_words:
        held_out.append(order.pop())
    return [transcripts[i] for i in sorted(order)], [transcripts[i] for i in sorted(held_out)]


def _error(transcript: SpokenTranscript, words: Sequence[Word]) -> np.ndarray:
    timed = np.array([(word.start, word.end) for word in words])
    return np.asarray(np.abs(timed - np.array(transcript.spoken)))
