"""Texts about the playground that nobody speaks: what web text is to real videos."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from watchword.playground.chatter import chatter
from watchword.playground.setting import generator
from watchword.playground.world import Split, combinations, phrase, with_article

NUM_SENTENCES: Final = (6, 24)
"""Fewest and most sentences of a document."""

_ABOUT_SHARE: Final = 0.7
_STREAM: Final = 14


def documents(seed: int, *, split: Split | None = None) -> Iterator[str]:
    """Documents without end, the same for the same seed: what shapes of a split do and what colour they are, and talk of other things."""
    choices = combinations(split=split, heard=True)
    for number in count():
        rng = generator(seed, _STREAM, number)
        sentences = []
        for _ in range(int(rng.integers(NUM_SENTENCES[0], NUM_SENTENCES[1] + 1))):
            shape, colour, action = choices[int(rng.integers(len(choices)))]
            told = (
                phrase(shape, colour, action),
                f"the {shape} that {action.name} is {colour}",
                f"{with_article(shape)} which is {colour} {action.name}",
            )
            sentences.append(told[int(rng.integers(len(told)))] if rng.random() < _ABOUT_SHARE else " ".join(chatter(rng)))
        yield ". ".join(sentences) + "."
