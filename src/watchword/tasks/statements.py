"""Questions into statements with a blank, by rule: for question answering where no choices are given.

The rules look at the question word, the words that help a verb, words in -ing and prepositions, and know no grammar beyond. What they do
not understand keeps its words, with the blank behind them; so there is always exactly one blank.
"""

from __future__ import annotations

import re

__all__ = ["BLANK", "as_statement"]

BLANK = "<mask>"

_BE = {"is", "are", "was", "were", "am", "s"}
_DO = {"do", "does", "did"}
_PREPOSITIONS = {
    "about", "above", "across", "after", "against", "along", "around", "as", "at", "before", "behind", "below", "beside", "between", "by",
    "down", "during", "for", "from", "in", "inside", "into", "like", "near", "of", "off", "on", "onto", "out", "outside", "over", "past",
    "through", "throughout", "to", "towards", "under", "up", "upon", "with", "within", "without",
}  # fmt: skip
_NOT_VERBS = {
    "anything", "being", "building", "ceiling", "clothing", "during", "evening", "everything", "king", "morning", "nothing", "ring",
    "something", "spring", "string", "thing",
}  # fmt: skip
_BLANK_TEXT = re.compile(r"<\W*mask\W*>", re.IGNORECASE)


def as_statement(question: str) -> str:
    """``what is a man doing?`` is "a man is <mask>", ``who sings a song?`` "<mask> sings a song"."""
    words = _BLANK_TEXT.sub(" ", question.lower()).replace("?", " ").split()
    if not words:
        return BLANK
    first, *rest = words
    if first == "how" and rest[:1] in (["many"], ["much"]):
        return _joined(BLANK, *rest[1:])
    if first in ("who", "what", "which", "whom") and rest:
        return _of_things(rest)
    if first in ("where", "when") and rest:
        return _of_places(rest, "in" if first == "where" else "when")
    return _joined(*words, BLANK)


def _of_things(rest: list[str]) -> str:
    helper, *said = rest
    if helper in _DO and len(said) > 1:
        return _joined(*said[:-1], BLANK) if said[-1] == "do" else _joined(*said, BLANK)
    if helper not in _BE or not said:
        return _joined(BLANK, *rest)
    verb = _verb(said)
    if not verb:  # what is asked for does it itself: who is singing a song
        return _joined(BLANK, *rest)
    subject, behind = said[:verb], said[verb + 1 :]
    if said[verb] == "doing":
        return _joined(*subject, helper, BLANK, *behind)
    if behind and behind[-1] in _PREPOSITIONS:
        return _joined(*subject, helper, *said[verb:], BLANK)
    return _joined(*subject, helper, said[verb], BLANK, *behind)


def _of_places(rest: list[str], link: str) -> str:
    helper, *said = rest
    if helper in _DO and said:
        return _joined(*said, link, BLANK)
    if helper in _BE and said:
        verb = _verb(said)
        return _joined(*said[:verb], helper, *said[verb:], link, BLANK) if verb else _joined(*said, helper, link, BLANK)
    return _joined(*rest, link, BLANK)


def _verb(said: list[str]) -> int:
    """Where the first word in -ing stands that can be a verb; 0 if it is the first one, or there is none."""
    return next((n for n, word in enumerate(said) if len(word) > 4 and word.endswith("ing") and word not in _NOT_VERBS), 0)


def _joined(*words: str) -> str:
    return " ".join(words)
