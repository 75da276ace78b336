"""Spoken words as Reserve takes them: which are dropped, and whether a transcript is good enough to learn from.

Words themselves are read by `watchword.media.read_subtitles`. Source: merlot-reserve-data spec sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ftfy
import numpy as np

from ..media.subtitles import Word

__all__ = ["MAX_LENGTH_VARIANCE", "MIN_GOOD_FRACTION", "Quality", "clean_words", "transcript_quality"]

MIN_GOOD_FRACTION = 0.6
MAX_LENGTH_VARIANCE = 10.0


def clean_words(words: Sequence[Word], *, repair: bool = True) -> list[Word]:
    """The words without what is left of broken entities (`&nbsp`, `nbsp;`) and without those in which nothing can be read.

    repair: wrongly decoded letters are put right (`donâ€™t`). The release computes that and then keeps the word as it was (defect D7):
    pass False for released behaviour.
    """
    kept = []
    for word in words:
        repaired = ftfy.fix_text(word.text).strip()
        if repaired and not word.text.startswith("&") and not word.text.endswith(";"):
            kept.append(replace(word, text=repaired) if repair else word)
    return kept


@dataclass(frozen=True)
class Quality:
    """Signs of a bad transcript. good_fraction: share of words that are neither shouted nor several in one. length_variance: of the
    words' numbers of characters (n - 1)."""

    good_fraction: float
    length_variance: float

    @property
    def keep(self) -> bool:
        """Whether the released data would hold such a transcript."""
        return self.good_fraction >= MIN_GOOD_FRACTION and self.length_variance <= MAX_LENGTH_VARIANCE


def transcript_quality(words: Sequence[str]) -> Quality:
    """Judge a transcript by its words. No words at all are no good; of one word the variance is 0."""
    if not words:
        return Quality(0.0, 0.0)
    num_bad = sum((len(word) > 1 and word.isupper()) or "\n" in word or " " in word for word in words)
    lengths = [len(word) for word in words]
    return Quality(1 - num_bad / len(words), float(np.var(lengths, ddof=1)) if len(lengths) > 1 else 0.0)
