"""Documents to stretches of token ids of equal length, as records keep web text.

Source: merlot-reserve-data spec section 10; defect D6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..text.reserve import END, START, ReserveTokenizer, default_tokenizer

__all__ = ["WEB_TEXT_LENGTH", "pack_documents"]

WEB_TEXT_LENGTH = 1536
_SHORT_PART = 8  # a rest of an eighth of the length is not worth beginning with


def pack_documents(
    documents: Iterable[str], tokenizer: ReserveTokenizer | None = None, *, length: int = WEB_TEXT_LENGTH, released: bool = False
) -> Iterator[npt.NDArray[np.int32]]:
    """int32 (length,) stretches of documents (see `text.web.clean_document`), each document between START and END.

    Where a document ends shortly behind the end of a stretch, its rest is left out; so is what is left at the end of all.
    released: a short document is left out as well if a stretch ended just before it (defect D6).

    Raises InputError for a length below 1.
    """
    if length < 1:
        raise InputError(f"stretches of {length} tokens; give at least 1")
    tokenizer = tokenizer or default_tokenizer()
    running: list[int] = []
    for document in documents:
        running += [START, *tokenizer.encode(document, special=False), END]
        whole = len(running) // length * length
        for first in range(0, whole, length):
            yield np.array(running[first : first + length], np.int32)
        running = running[whole:]
        if (whole or released) and len(running) <= length // _SHORT_PART:
            running = []
