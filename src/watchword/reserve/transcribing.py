"""Words for videos that have none: heard by Whisper, through the optional library faster-whisper. Weights are never fetched."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ..errors import InputError, MissingExtraError
from ..media.subtitles import Word

__all__ = ["heard_words", "load_whisper", "transcribe"]


def transcribe(path: str | os.PathLike[str], model: str, *, language: str | None = None) -> list[Word]:
    """The words spoken in a media file with their times in seconds, the same each time.

    model: a folder of Whisper weights for faster-whisper, or the name of some that are in its cache already.

    Raises:
        MissingExtraError: faster-whisper is not installed.
        InputError: the weights are not there, or nothing can be heard of the file.
    """
    whisper = load_whisper(model)
    try:
        segments, _ = whisper.transcribe(os.fspath(path), language=language, word_timestamps=True, temperature=0.0)
        return heard_words(segments)
    except (ValueError, RuntimeError, OSError) as error:
        raise InputError(f"{os.fspath(path)!r} cannot be transcribed: {' '.join(str(error).split())}") from None


def heard_words(segments: Iterable[Any]) -> list[Word]:
    """faster-whisper's segments (each with `words` of `word`, `start`, `end`, or None) as timed words."""
    return [
        Word(word.word.strip(), float(word.start), max(float(word.end), float(word.start)))
        for segment in segments
        for word in segment.words or ()
        if word.word.strip()
    ]


@lru_cache(maxsize=1)
def load_whisper(model: str) -> Any:
    """The weights, loaded once. Raises as `transcribe` does."""
    try:
        from faster_whisper import WhisperModel
    except ImportError:
        raise MissingExtraError(
            "transcribing needs faster-whisper: pip install 'watchword[transcribe]', or give videos with subtitles"
        ) from None
    try:
        return WhisperModel(model, local_files_only=True, compute_type="int8", cpu_threads=1)
    except (ValueError, RuntimeError, OSError) as error:
        raise InputError(
            f"no Whisper weights {model!r} ({' '.join(str(error).split())}); give a folder of weights for faster-whisper"
        ) from None
