"""Tokenizers that come as a folder of files from the Hugging Face Hub, as open_clip's SigLIP and CLIPA models use them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import LabelError, MissingExtraError
from .clip import shown, tokenizer_module

__all__ = ["tokenize_with"]


def tokenize_with(
    folder: Path, texts: Sequence[str], *, context_length: int, truncate: bool = False, options: Mapping[str, Any] | None = None
) -> Tensor:
    """Token ids of the texts by the tokenizer in ``folder`` (tokenizer.json and what belongs to it): int64 (texts, context_length).

    Start, end and padding are what the tokenizer's files say; ``options`` are open_clip's (``tokenizer_kwargs`` of a text tower).

    Raises:
        LabelError: a text is too long and ``truncate`` is off.
        MissingExtraError: transformers, which reads such files, is not installed.
    """
    tokenizer = _tokenizer(folder, tuple(sorted((options or {}).items())))
    lengths = [len(tokenizer.tokenizer(tokenizer.clean_fn(text)).input_ids) for text in texts]
    too_long = [position for position, length in enumerate(lengths) if length > context_length]
    if too_long and not truncate:
        raise LabelError(
            f"text {too_long[0] + 1} has {lengths[too_long[0]]} tokens, start and end included, but at most {context_length} fit: "
            f"{shown(texts[too_long[0]])}; shorten it, or ask for truncation (truncate=True, --truncate)"
        )
    if too_long:
        others = f" and {len(too_long) - 1} more" if len(too_long) > 1 else ""
        warnings.warn(f"cut to the first {context_length} tokens: {shown(texts[too_long[0]])}{others}", UserWarning, stacklevel=2)
    ids: Tensor = tokenizer(list(texts), context_length=context_length)
    return ids


@lru_cache(maxsize=2)
def _tokenizer(folder: Path, options: tuple[tuple[str, Any], ...]) -> Any:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("this model's tokenizer needs transformers: pip install transformers") from error
    return tokenizer_module().HFTokenizer(str(folder), **dict(options))
