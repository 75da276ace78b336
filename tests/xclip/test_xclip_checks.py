"""Wrong input to the model and the tokenizer is one line that names what is wanted, never torch's own words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tiny_clips import tiny_model
from watchword.errors import InputError
from watchword.text import tokenize
from watchword.xclip import VideoFeatures

IDS = tokenize(["a dog", "a cat"])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (IDS.float(), "float32"),
        (IDS[0], r"shape \(77,\)"),
        (torch.zeros(2, 78, dtype=torch.int64), r"shape \(2, 78\)"),
        (IDS[:0], r"shape \(0, 77\)"),
        (IDS[:, :0], r"shape \(2, 0\)"),
        (IDS + 1, "to 49408, but the vocabulary is 0 to 49407"),
        (IDS - 1, "from -1"),
        (IDS.tolist(), "a list"),
    ],
)
def test_other_token_ids_are_refused(ids: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        tiny_model().encode_text(ids)
    assert "\n" not in str(caught.value)


def test_token_ids_of_another_whole_type_are_taken() -> None:
    model = tiny_model()
    assert torch.equal(model.encode_text(IDS.int()), model.encode_text(IDS))


def test_other_features_are_refused() -> None:
    model = tiny_model()
    features, text = model.encode_video(torch.zeros(2, 4, 3, 32, 32)), model.encode_text(IDS)
    video, frames, content = features.video, features.frames, features.content
    assert model.score(features, text).shape == (2, 2)
    for wrong, words in (
        ((features, text[0]), r"shape \(64,\)"),
        ((features, text[:, :3]), r"shape \(2, 3\)"),
        ((features, text.long()), "int64"),
        ((features, text.bfloat16()), "text is torch.bfloat16 and features are torch.float32"),
        ((video, text), "VideoFeatures"),
        ((VideoFeatures(video[:1], frames, content), text), r"\(1, 64\) and \(2, 4, 64\)"),
        ((VideoFeatures(video, frames, content[0]), text), r"\(2, 64\) and \(4, 64\)"),
    ):
        with pytest.raises(InputError, match=words):
            model.score(*wrong)


def test_clips_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(InputError, match="ndarray"):
        tiny_model().encode_video(np.zeros((1, 4, 3, 32, 32), np.float32))  # type: ignore[arg-type]


@pytest.mark.parametrize("texts", [None, 5, b"a dog", [b"a dog"], ["a dog", 3]])
def test_what_is_no_text_is_refused(texts: Any) -> None:
    with pytest.raises(InputError, match="must be a string"):
        tokenize(texts)


@pytest.mark.parametrize("length", [2, "77", 77.0, None])
def test_other_context_lengths_are_refused(length: Any) -> None:
    with pytest.raises(InputError, match="context_length"):
        tokenize("a dog", context_length=length)
