"""MERLOT Reserve's byte-pair encoding: texts to the token ids that its span and joint encoders read.

The vocabulary is the released file, read as it is by the `tokenizers` library; a copy comes with the package, and a folder of weights may
bring its own. Text is lower-cased and stripped of accents by the file's own rules. Source: merlot-reserve-data spec section 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from ..errors import CheckpointError, InputError

__all__ = [
    "AUDIOSPAN",
    "END",
    "LTOVPOOL",
    "MASK",
    "MASKAUDIO",
    "MASK_TEXT",
    "PADDING",
    "RESETCTX",
    "SPAN_LENGTH",
    "START",
    "UNKNOWN",
    "ReserveTokenizer",
    "default_tokenizer",
]

PADDING, START, END, MASK, MASKAUDIO, AUDIOSPAN, LTOVPOOL, _UNUSED, UNKNOWN, RESETCTX = range(10)
MASK_TEXT = "<|MASK|>"
SPAN_LENGTH = 15
"""Most token ids of a span (an answer option, a masked stretch of text)."""

_NAMES = ("PAD", "START", "END", "MASK", "MASKAUDIO", "AUDIOSPAN", "LTOVPOOL", "unused0", "UNK", "RESETCTX")
_BUNDLED = Path(__file__).parent / "merlot_reserve" / "lowercase_encoder.json"
_MAX_FILE_BYTES = 64 << 20
_WORDS_ALONE = re.compile(r"[A-Za-z0-9 ']+")


class ReserveTokenizer:
    """Encodes and decodes text.

    Every piece of text gets a leading space before it is encoded, so decoded text starts with one. Bytes that have no id (some control
    characters, unusual scripts) are dropped without a word, as in the release.

    Args:
        path: a vocabulary file in the JSON format of `tokenizers`; None for the released one, which comes with the package.

    Raises:
        CheckpointError: the file cannot be read as a vocabulary, or its special tokens are not Reserve's.
    """

    def __init__(self, path: str | PathLike[str] | None = None) -> None:
        self.path = _BUNDLED if path is None else Path(path)
        self.json = _read(self.path)
        self._tokenizer = _parse(self.json, self.path)
        for expected, name in enumerate(_NAMES):
            if self._tokenizer.token_to_id(f"<|{name}|>") != expected:
                raise CheckpointError(
                    f"{str(self.path)!r}: <|{name}|> is not token {expected}; give MERLOT Reserve's lowercase_encoder.json"
                )
        self._plain = _parse(self.json, self.path)
        self._plain.encode_special_tokens = True

    def __len__(self) -> int:
        """Number of token ids."""
        return int(self._tokenizer.get_vocab_size())

    def __reduce__(self) -> tuple[Any, ...]:
        return ReserveTokenizer, (None if self.path == _BUNDLED else self.path,)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of one text; nothing is added at its ends.

        special: `<|MASK|>` and its like become their tokens. Turn it off for text of others, such as subtitles: there they are
        ordinary characters. A space before a special token becomes a token of its own, which the model has rarely seen.

        Raises InputError if it is not a string.
        """
        if not isinstance(text, str):
            raise InputError(f"text is {type(text).__name__}, but must be a string")
        return list((self._tokenizer if special else self._plain).encode(text).ids)

    def decode(self, ids: Iterable[int], *, keep_special: bool = False) -> str:
        """The text of token ids. Special tokens are left out, unless they are kept. Raises InputError for an id that there is not."""
        ids = [int(i) for i in ids]
        if ids and not (min(ids) >= 0 and max(ids) < len(self)):
            raise InputError(f"token ids from {min(ids)} to {max(ids)}; they must be from 0 to {len(self) - 1}")
        return str(self._tokenizer.decode(ids, skip_special_tokens=not keep_special))

    def token(self, token_id: int) -> str:
        """A token as the vocabulary writes it (bytes as printable characters, a space as Ġ). Raises InputError if there is no such id."""
        token = self._tokenizer.id_to_token(token_id)
        if token is None:
            raise InputError(f"token id {token_id}; it must be from 0 to {len(self) - 1}")
        return str(token)

    def spans(self, texts: Sequence[str], *, length: int = SPAN_LENGTH) -> npt.NDArray[np.int64]:
        """Texts as the span encoder reads them: int64 (texts, length), cut to `length` ids or padded with 0."""
        rows = np.full((len(texts), length), PADDING, np.int64)
        for row, text in zip(rows, texts, strict=True):
            ids = self.encode(text)[:length]
            row[: len(ids)] = ids
        return rows

    @cached_property
    def span_valid(self) -> npt.NDArray[np.bool_]:
        """(ids,) which tokens may stay in a masked span of web text: letters, digits, spaces and apostrophes, not blank alone."""
        texts = [self.decode([i]) if i > 10 else "" for i in range(len(self))]
        return np.array([_WORDS_ALONE.fullmatch(text) is not None and not text.isspace() for text in texts])


@lru_cache(maxsize=1)
def default_tokenizer() -> ReserveTokenizer:
    """The tokenizer with the released vocabulary, made once."""
    return ReserveTokenizer()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise ValueError(f"more than {_MAX_FILE_BYTES} bytes")
        return data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{str(path)!r}: no vocabulary file can be read there ({error}); give a lowercase_encoder.json") from None


def _parse(text: str, path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"{str(path)!r}: not a vocabulary in the format of `tokenizers` ({error})") from None
