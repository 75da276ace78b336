"""What a narrator says besides the phrases of the scenes: words around a phrase, and talk that has nothing to do with it.

None of it has a word of a phrase in it but the articles, so that a phrase is told by its words alone.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

OPENERS: Final = (
    *("", "", "look", "now", "look now", "see", "here", "oh look", "okay so", "and now", "and then", "so", "this time", "notice how"),
    *("here we see", "you can see", "now watch", "all of a sudden", "as you see", "what a surprise"),
)
CLOSERS: Final = (
    *(
        "",
        "",
        "",
        "",
        "",
        "wonderful",
        "how lovely",
        "there you go",
        "that was nice",
        "did you see",
        "just like that",
        "not bad",
        "amazing",
    ),
)
"""What is said before and after a phrase while its scene is on."""

OPENERS_BEFORE: Final = ("next", "soon", "in a moment", "wait for it", "get ready")
OPENERS_AFTER: Final = ("just now", "before that", "as we saw", "a moment ago", "earlier")
"""What is said before a phrase whose scene is still to come, or over."""

_SLOTS: Final[dict[str, tuple[str, ...]]] = {
    "who": (
        *("my sister", "our neighbour", "the teacher", "grandma", "the baker", "a friend of mine", "my uncle", "the doctor", "someone"),
        *("my boss", "the driver", "nobody", "his cousin"),
    ),
    "past": ("yesterday", "this morning", "last week", "on monday", "last summer", "before lunch", "an hour ago", "again", ""),
    "future": ("tomorrow", "tonight", "next week", "on friday", "in the spring", "after work", "some day", ""),
    "food": ("soup", "coffee", "toast", "pancakes", "noodles", "a sandwich", "rice and beans", "tea with milk", "fresh bread", "cake"),
    "place": ("the market", "school", "the beach", "the office", "the station", "the library", "the garden", "the kitchen", "the lake"),
    "thing": ("the window", "my bike", "the phone", "a new lamp", "the old car", "my keys", "the table", "an umbrella", "the printer"),
    "mood": ("happy", "tired", "hungry", "a bit cold", "quite busy", "excited", "sleepy", "late again", "sorry"),
    "number": ("two", "three", "five", "ten", "twenty", "a hundred"),
}

_SENTENCES: Final = (
    "{who} went to {place} {past}",
    "{who} was {mood} {past}",
    "{who} forgot {thing} at {place}",
    "{who} told me about {thing}",
    "{who} fixed {thing} {past}",
    "{who} bought {thing} for {number} dollars",
    "{who} will clean {thing} {future}",
    "i had {food} {past}",
    "i think {who} is {mood}",
    "i will be at {place} {future}",
    "i am {mood} today",
    "we need {food} from {place}",
    "we cooked {food} {past}",
    "we might sell {thing} {future}",
    "it rained near {place} {past}",
    "it took {number} minutes to get to {place}",
    "there were {number} people at {place}",
    "please remember to bring {thing}",
    "where did i put {thing}",
    "do you like {food}",
    "have you been to {place}",
    "the weather was good {past}",
    "thanks for watching",
    "do not forget to subscribe",
    "let me know what you think",
    "you know what i mean",
    "give me a second",
    "let us go on",
    "so that is that",
    "well okay then",
    "anyway",
)


def chatter(rng: np.random.Generator) -> list[str]:
    """The words of a random sentence, one to ten."""

    def choice(slot: re.Match[str]) -> str:
        choices = _SLOTS[slot[1]]
        return choices[rng.integers(len(choices))]

    return re.sub(r"\{(\w+)\}", choice, _SENTENCES[rng.integers(len(_SENTENCES))]).split()


def vocabulary() -> frozenset[str]:
    """Every word that is said besides the phrases."""
    texts = (*OPENERS, *CLOSERS, *OPENERS_BEFORE, *OPENERS_AFTER, *(choice for choices in _SLOTS.values() for choice in choices))
    told = " ".join((*texts, *(re.sub(r"\{\w+\}", "", sentence) for sentence in _SENTENCES)))
    return frozenset(told.split())
