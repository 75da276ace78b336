"""CLIP's byte-pair encoding: texts to the token ids that X-CLIP's text encoder reads.

The vocabulary and the merging are open_clip's (its file equals the official one byte for byte); what is ours is the rule
for texts that are too long. Source: x-clip spec section 4.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, LabelError

START_TOKEN = 49406
END_TOKEN = 49407
VOCAB_SIZE = 49408
CONTEXT_LENGTH = 77


def clean(text: str) -> str:
    """The text as the vocabulary sees it: repaired, HTML entities unescaped, single spaces, lower case."""
    return str(_bpe().clean_fn(text))


def encode(text: str) -> list[int]:
    """Token ids of one text, without the start and end tokens."""
    return [int(token) for token in _bpe().encode(text)]


def tokenize(texts: str | Sequence[str], *, context_length: int = CONTEXT_LENGTH, truncate: bool = False) -> Tensor:
    """Token ids of the texts: int64 (texts, context_length), each row start token, text, end token, then zeros.

    A text may have at most ``context_length - 2`` tokens. A longer one is an error, or with ``truncate`` is cut to its first
    ``context_length - 1`` ids and the end token, with one warning for all texts of the call.

    Raises:
        LabelError: a text is too long and ``truncate`` is off.
        InputError: the texts are no list or an element is not a string, or ``context_length`` leaves no room for a token.
    """
    if not isinstance(context_length, int) or context_length < 3:
        raise InputError(f"context_length is {context_length!r}, but start token, text and end token need at least 3")
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(f"texts are {type(texts).__name__}, but must be a string or a list of strings")
    texts = [texts] if isinstance(texts, str) else list(texts)
    rows = torch.zeros(len(texts), context_length, dtype=torch.int64)
    too_long: list[str] = []
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {position + 1} is {type(text).__name__}, but must be a string")
        ids = [START_TOKEN, *encode(text), END_TOKEN]
        if len(ids) > context_length:
            if not truncate:
                raise LabelError(
                    f"text {position + 1} has {len(ids) - 2} tokens, but at most {context_length - 2} fit: "
                    f"{shown(text)}; shorten it, or ask for truncation (truncate=True, --truncate)"
                )
            too_long.append(text)
            ids = [*ids[: context_length - 1], END_TOKEN]
        rows[position, : len(ids)] = torch.tensor(ids)
    if too_long:
        others = f" and {len(too_long) - 1} more" if len(too_long) > 1 else ""
        warnings.warn(f"cut to the first {context_length - 2} tokens: {shown(too_long[0])}{others}", UserWarning, stacklevel=2)
    return rows


def shown(text: str) -> str:
    """The beginning of a text, for messages."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


@lru_cache(maxsize=1)
def _bpe() -> Any:
    return tokenizer_module().SimpleTokenizer(context_length=CONTEXT_LENGTH)


def tokenizer_module() -> ModuleType:
    """open_clip's tokenizer module, loaded from its file: importing the package around it costs seconds (all its models)."""
    if "open_clip.tokenizer" in sys.modules:
        return sys.modules["open_clip.tokenizer"]
    package = importlib.util.find_spec("open_clip")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("open_clip_torch is not installed, but carries the vocabulary of the text encoder")
    spec = importlib.util.spec_from_file_location("watchword._open_clip_tokenizer", Path(package.origin).with_name("tokenizer.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
