"""In which language a video is, by the optional library py3langid. Source: merlot-reserve-data spec section 3, step 5 (there CLD3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..errors import MissingExtraError
from ..media.languages import same_language

__all__ = ["language_probability"]

_DESCRIPTION_WORDS = 100
_NOT_LANGUAGE = ("#", "http", "@", "www")


def language_probability(language: str, title: str, description: str, words: Sequence[str]) -> float:
    """How likely title, description and words are in this language ("en"): 0 if another is more likely.

    Of the description the first hundred words count that are no tags, links or addresses. Raises MissingExtraError without py3langid.
    """
    described = [word for word in description.split() if not any(mark in word for mark in _NOT_LANGUAGE)][:_DESCRIPTION_WORDS]
    found, probability = _identifier().classify(f"{title}\n{' '.join(described)}\n{' '.join(words)}")
    return float(probability) if same_language(found, language) else 0.0


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise MissingExtraError(
            "telling the language needs py3langid: pip install 'watchword[language]', or set the language's probability to 0"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
