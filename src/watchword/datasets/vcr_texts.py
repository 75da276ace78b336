"""The words of VCR as MERLOT Reserve reads them: objects by name in place of numbers, words joined to sentences, sequences to score.

Source: merlot-reserve-data spec section 17.1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..reserve.choices import blanks_behind
from ..text.reserve import ReserveTokenizer
from .vcr_files import Tokens, VcrItem

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer

__all__ = ["LENGTH", "Names", "VcrTexts", "sentence"]

LENGTH = 144
"""Token ids of a sequence in training; the released script for the leaderboard cuts to 140."""

_NAMED_TOGETHER = 2  # of a tag that points to more objects, the others are left out
# What the detokeniser leaves, in order. Behind a word an apostrophe and a lone s are joined whoever owns what, as in the release.
_REPAIRS = (
    (re.compile(" n't|n' t"), "n't"),
    (re.compile(r"\s([',.?])"), r"\1"),
    (re.compile(r"\b'\ss"), "'s"),
    (re.compile("-;"), " "),
    (re.compile(r"\s+"), " "),
)


class Names:
    """The names of a picture's objects: "the car" where there is one car, else "Car 2", counted from 1.

    ``drawn``: by number, the names of the objects that get a box: those that are the only ones of their class, and those that texts
    have pointed to by now.
    """

    def __init__(self, objects: Sequence[str]) -> None:
        total, so_far = Counter(objects), Counter[str]()
        self._names = []
        for kind in objects:
            so_far[kind] += 1
            self._names.append(f"the {kind}" if total[kind] == 1 else f"{kind.capitalize()} {so_far[kind]}")
        self._drawn = {number for number, kind in enumerate(objects) if total[kind] == 1}

    def of(self, tag: Sequence[int]) -> str:
        """What a tag is called, which is remembered as pointed to. InputError if there are not so many objects."""
        pointed = tag[:_NAMED_TOGETHER]
        if wrong := [number for number in pointed if not 0 <= number < len(self._names)]:
            raise InputError(f"a text points to object {wrong[0]}, but the picture has {len(self._names)}")
        self._drawn.update(pointed)
        return " and ".join(self._names[number] for number in pointed)

    @property
    def drawn(self) -> Mapping[int, str]:
        return {number: self._names[number] for number in sorted(self._drawn)}


def sentence(tokens: Tokens, names: Names) -> str:
    """Words and tags as one plain sentence. Colons in words become spaces, but for a word "Answer:"."""
    words = [names.of(token) if isinstance(token, list) else _without_colon(token) for token in tokens]
    text: str = _moses().detokenize(words)
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    return text.strip()


def _without_colon(word: str) -> str:
    return word if word == "Answer:" else word.replace(":", " ")


@cache
def _moses() -> MosesDetokenizer:
    from sacremoses import MosesDetokenizer  # takes a second to import

    return MosesDetokenizer(lang="en")


@dataclass(frozen=True)
class VcrTexts:
    """The sentences of an item: four answers, and four rationales for the right one."""

    question: str
    answers: tuple[str, ...]
    rationales: tuple[str, ...]

    @classmethod
    def of(cls, item: VcrItem, names: Names) -> VcrTexts:
        """InputError for a text that points to an object that is not there."""
        answers, rationales = ([sentence(choice, names) for choice in choices] for choices in (item.answer_choices, item.rationale_choices))
        return cls(sentence(item.question, names), tuple(answers), tuple(rationales))

    @property
    def tell_sides(self) -> bool:
        """Whether a text has "left" or "right" in it, even within a word, so that it would be wrong of the mirrored picture."""
        everything = " ".join((self.question, *self.answers, *self.rationales))
        return "left" in everything or "right" in everything

    def given(self, answer: int) -> str:
        """The question and one of the answers: what a rationale is asked for."""
        return f"{self.question} Answer: {self.answers[answer]}"

    def sequences(self, tokenizer: ReserveTokenizer, given: Sequence[int], length: int = LENGTH) -> npt.NDArray[np.int64]:
        """(1 + len(given), 4, length) token ids: the answers, then the rationales for each of the answers ``given``. Padded with 0."""
        sets = [(self.question, "answer: ", self.answers), *((self.given(answer), "rationale: ", self.rationales) for answer in given)]

        def ids(text: str) -> list[int]:
            return tokenizer.encode(text, special=False)

        rows = [[*ids(query), *ids(between), *ids(choice)] for query, between, choices in sets for choice in choices]
        return blanks_behind(rows, length).reshape(len(sets), -1, length)
