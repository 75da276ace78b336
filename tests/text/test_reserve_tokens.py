"""Reserve's tokenizer: what users of it rely on beyond the fixtures."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import CheckpointError, InputError
from watchword.text.reserve import MASK, ReserveTokenizer, default_tokenizer


def test_special_tokens_in_text_of_others_are_ordinary_text() -> None:
    tokenizer = default_tokenizer()
    assert tokenizer.encode("so<|MASK|>") == [tokenizer.encode("so")[0], MASK]
    plain = tokenizer.encode("so<|MASK|>", special=False)
    assert MASK not in plain and tokenizer.decode(plain) == " so<|mask|>"
    assert tokenizer.encode("a plain line", special=False) == tokenizer.encode("a plain line")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(codec="ascii", categories=["Ll", "Nd", "Zs"]), min_size=1))
def test_plain_text_comes_back(text: str) -> None:
    tokenizer = default_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == (text if text.startswith(" ") else " " + text)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_text_gives_ids_of_the_vocabulary(text: str) -> None:
    tokenizer = default_tokenizer()
    assert all(10 <= token < len(tokenizer) for token in tokenizer.encode(text, special=False))


def test_spans_are_cut_and_padded() -> None:
    spans = default_tokenizer().spans(["one two three", ""], length=2)
    assert spans.tolist() == [default_tokenizer().encode("one two"), [0, 0]]


def test_it_goes_to_other_processes() -> None:
    tokenizer = pickle.loads(pickle.dumps(default_tokenizer()))
    assert tokenizer.encode("hello world") == default_tokenizer().encode("hello world")


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    copy = tmp_path / "vocabulary.json"
    copy.write_text(default_tokenizer().json, encoding="utf-8")
    assert ReserveTokenizer(copy).encode("hello") == default_tokenizer().encode("hello")
    copy.write_text(default_tokenizer().json.replace("<|MASK|>", "<|BLANK|>"), encoding="utf-8")
    with pytest.raises(CheckpointError, match="MASK"):
        ReserveTokenizer(copy)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": 3}', b"\xff\xfe"])
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="vocabulary"):
        ReserveTokenizer(path)
    with pytest.raises(CheckpointError, match="lowercase_encoder"):
        ReserveTokenizer(tmp_path / "missing.json")


def test_wrong_input_is_named() -> None:
    with pytest.raises(InputError, match="int"):
        default_tokenizer().encode(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="32768"):
        default_tokenizer().decode([5, 32768])
    with pytest.raises(InputError, match="40000"):
        default_tokenizer().token(40000)
