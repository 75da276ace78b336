"""Texts to token ids."""

from __future__ import annotations

import subprocess
import sys
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError, LabelError
from watchword.text import END_TOKEN, START_TOKEN, clean, encode, tokenize


def test_rows_start_with_the_start_token_and_end_with_the_end_token() -> None:
    ids = tokenize(["playing guitar", "it's"])
    assert ids.dtype == torch.int64 and ids.shape == (2, 77)
    assert ids[0, :4].tolist() == [START_TOKEN, 1629, 5084, END_TOKEN]
    assert not ids[0, 4:].any()


def test_one_string_is_one_row() -> None:
    assert torch.equal(tokenize("archery"), tokenize(["archery"]))


def test_no_texts_give_no_rows() -> None:
    assert tokenize([]).shape == (0, 77)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("rock &amp;amp; roll", "rock & roll"),
        ("  two \t spaces\nand a line ", "two spaces and a line"),
        ("Caf\u00c3\u00a9", "café"),
        ("ApplyEyeMakeup", "applyeyemakeup"),
        ("&nbsp; ", ""),
    ],
)
def test_cleaning(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize("text", ["", "   ", "🙂🙃", "日本語の動画", "مرحبا"])
def test_odd_texts_are_encoded(text: str) -> None:
    row = tokenize(text)[0]
    assert row[0] == START_TOKEN and int(row.argmax()) == len(encode(text)) + 1


def test_a_text_that_is_too_long_is_named() -> None:
    with pytest.raises(LabelError, match=r"text 2 has 90 tokens, but at most 75 fit: 'swimming") as caught:
        tokenize(["archery", " ".join(["swimming"] * 90)])
    assert "\n" not in str(caught.value)


def test_truncation_keeps_the_first_ids_and_the_end_token_with_one_warning() -> None:
    long = " ".join(["swimming"] * 90)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ids = tokenize([long, "archery", long], truncate=True)
    assert len(caught) == 1 and "1 more" in str(caught[0].message)
    assert ids[0].tolist() == [START_TOKEN, *[7411] * 75, END_TOKEN]
    assert torch.equal(ids[1], tokenize("archery")[0])


def test_what_just_fits_is_not_cut() -> None:
    assert tokenize(" ".join(["swimming"] * 75))[0, -1] == END_TOKEN


def test_a_shorter_context() -> None:
    assert tokenize("playing guitar", context_length=4).tolist() == [[START_TOKEN, 1629, 5084, END_TOKEN]]
    with pytest.raises(LabelError, match="at most 1 fit"):
        tokenize("playing guitar", context_length=3)
    with pytest.raises(InputError, match="context_length is 2"):
        tokenize("a", context_length=2)


def test_something_else_than_text_is_named() -> None:
    with pytest.raises(InputError, match="text 2 is int"):
        tokenize(["a", 3])  # type: ignore[list-item]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_the_end_token_is_the_largest_id_of_every_row(text: str) -> None:
    row = tokenize(text, context_length=200)[0]
    assert row[int(row.argmax())] == END_TOKEN


def test_the_rest_of_open_clip_is_not_imported() -> None:
    code = "import sys; from watchword.text import tokenize; tokenize('a'); assert 'open_clip' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
