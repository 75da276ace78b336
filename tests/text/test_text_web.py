"""Cleaning of web text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.text.web import clean_document, number_words, ordinal_words


@given(st.text(max_size=80), st.booleans())
def test_cleaned_text_is_plain(text: str, spell: bool) -> None:
    cleaned = clean_document(text, spell_numbers=spell)
    assert cleaned.isascii() and cleaned == " ".join(cleaned.split())
    assert not set(cleaned) & set("()[]{}<>^_|~`&/@\\+%=")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version 2.0, page 12.", "version 2.0, page twelve."),
        ("It cost $1,250.99 or $1", "It cost one thousand two hundred fifty dollars or one dollar"),
        ("at 10:30, 2:00 and 1:02:03", "at ten thirty, two and 1:02:03"),
        ("the 2nd, 20th and 101st", "the second, twentieth and one hundred first"),
        ("B12 and 7up and 100", "B12 and 7up and 100"),
    ],
)
def test_numbers_become_words(text: str, expected: str) -> None:
    assert clean_document(text, spell_numbers=True) == expected


def test_letters_with_accents_lose_them() -> None:
    assert clean_document("Ångström’s Straße, crème brûlée, Łódź") == "Angstrom's Strasse, creme brulee, Lodz"


def test_words_of_numbers() -> None:
    assert [number_words(n) for n in (0, 19, 40, 99, 1_000_001)] == ["zero", "nineteen", "forty", "ninety-nine", "one million one"]
    assert [ordinal_words(n) for n in (1, 12, 30, 43, 100)] == ["first", "twelfth", "thirtieth", "forty-third", "one hundredth"]
