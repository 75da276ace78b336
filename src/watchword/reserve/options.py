"""Answer options as the model compares them: encoded once, kept for as long as the weights stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import LabelError
from ..text.labels import clean_labels
from ..text.reserve import SPAN_LENGTH, ReserveTokenizer, default_tokenizer
from ..weights.evaluating import evaluating, kept_features
from .model import Reserve
from .vectors import unit_normalize

__all__ = ["Options", "encode_options", "read_options"]

CHUNK_SIZE = 256  # options encoded at a time, those of like length together
_NAMED = 3  # options named in a notice, before it only counts them


class Options(NamedTuple):
    """Options as read: their texts, token ids int64 (options, 15) padded with 0, and what a user should know of them, a line each."""

    texts: tuple[str, ...]
    ids: npt.NDArray[np.int64]
    notices: tuple[str, ...] = ()


def read_options(options: Sequence[str], tokenizer: ReserveTokenizer | None = None) -> Options:
    """Options with single spaces, each once; those of more than 15 tokens are cut (spec sections 2 and 15), which a notice says.

    Raises:
        LabelError: fewer than two options (a probability is a share among them), one that is empty or no string, or one of which the
            model can read nothing; the message names the position.
    """
    tokenizer = tokenizer or default_tokenizer()
    texts, merged = clean_labels(options, noun="option")
    if len(texts) < 2:
        raise LabelError(f"{texts[0]!r} is the only option: give at least two, since a probability is a share among them")
    encoded = [tokenizer.encode(text, special=False) for text in texts]
    ids = np.zeros((len(texts), SPAN_LENGTH), np.int64)
    for row, tokens in zip(ids, encoded, strict=True):
        row[: len(tokens)] = tokens[:SPAN_LENGTH]
    for text, tokens in zip(texts, encoded, strict=True):
        if not tokens:
            raise LabelError(f"the option {text!r} has no character that the model can read: write it in other letters or remove it")
    cut = [
        f"{text!r} ({len(tokens)} tokens) is read as {tokenizer.decode(tokens[:SPAN_LENGTH]).strip()!r}"
        for text, tokens in zip(texts, encoded, strict=True)
        if len(tokens) > SPAN_LENGTH
    ]
    notices = [merged] if merged else []
    if cut:
        notices.append(f"options are cut to {SPAN_LENGTH} tokens: {_listed(cut)}")
    first: dict[bytes, str] = {}
    alike = [
        f"{text!r} as {other!r}" for text, row in zip(texts, ids, strict=True) if (other := first.setdefault(row.tobytes(), text)) != text
    ]
    if alike:
        notices.append(f"the model reads some options alike, so their answers are equal: {_listed(alike)}")
    return Options(texts, ids, tuple(notices))


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items[:_NAMED]) + (f", and {len(items) - _NAMED} more" if len(items) > _NAMED else "")


def encode_options(model: Reserve, ids: npt.NDArray[np.int64]) -> Tensor:
    """Unit vectors float32 (options, width) of token ids (options, 15), on the model's device, in the precision of autocast.

    Each is computed once for the weights as they are now (see ``kept_features``), and in chunks: 10,000 options take the memory of their
    vectors and no more. Raises InputError if the weights have no span encoder.
    """
    encoder = model.part("span_encoder", "cannot encode answer options")
    table = model.token_encoder.weight
    kept = kept_features(model, [table, *encoder.parameters()])
    rows = [row.tobytes() for row in ids]
    missing = {row: place for place, row in enumerate(rows) if row not in kept}
    lengths = np.count_nonzero(ids, axis=1)
    by_length = sorted(missing.values(), key=lengths.__getitem__)
    with torch.no_grad(), evaluating(model):
        for start in range(0, len(by_length), CHUNK_SIZE):
            chunk = by_length[start : start + CHUNK_SIZE]
            spans = torch.from_numpy(ids[chunk][:, : lengths[chunk[-1]]]).to(table.device)
            vectors = unit_normalize(model.encode_spans(spans).float())
            kept.update(zip((rows[place] for place in chunk), vectors, strict=True))
    return torch.stack([kept[row] for row in rows])
