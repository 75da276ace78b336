"""A question made ready for the model: its blanks found and its options read, all that can be refused before any video is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..text.reserve import MASK, ReserveTokenizer, default_tokenizer
from .answers import Question
from .inputs import query_ids, token_sequence
from .options import Options, read_options

__all__ = ["PreparedQuestion", "prepare"]


@dataclass(frozen=True, eq=False)
class PreparedQuestion:
    """ids: token ids of the text.  options: of each blank."""

    question: Question
    ids: list[int]
    options: list[Options]


def prepare(
    question: Question, tokenizer: ReserveTokenizer | None = None, known: dict[tuple[str, ...], Options] | None = None
) -> PreparedQuestion:
    """known: lists of options that were read before; new ones are added.

    Raises InputError if there is no blank, the blanks are too far apart, or there are not as many lists of options as blanks; LabelError
    as ``read_options`` does.
    """
    tokenizer = tokenizer or default_tokenizer()
    known = {} if known is None else known
    ids = query_ids(question.text, tokenizer)
    token_sequence([[]], tokenizer, before={0: ids})  # whether its blanks fit
    num_blanks = ids.count(MASK)
    given: Any = question.options
    one_each = not isinstance(given, str) and len(given) and not any(isinstance(item, str) for item in given)
    lists = list(given) if one_each else [given] * num_blanks
    if len(lists) != num_blanks:
        raise InputError(f"{len(lists)} lists of options for {num_blanks} blanks: give one for each, or one list for all")
    keys = [tuple(option if isinstance(option, str) else "" for option in options) for options in lists]  # what is no string is refused
    for key, options in zip(keys, lists, strict=True):
        if key not in known:
            known[key] = read_options(options, tokenizer)
    return PreparedQuestion(question, ids, [known[key] for key in keys])
