"""The joint sequence: blanks survive, sound stays whole, and what does not fit is said."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.media.subtitles import Word
from watchword.reserve.inputs import Content, mask_query, preprocess, text_of, token_sequence
from watchword.reserve.segmentation import Span
from watchword.reserve.segments import Segment
from watchword.text.reserve import AUDIOSPAN, MASK, default_tokenizer

WORD = default_tokenizer().encode("one")[0]


def segment(index: int, text: str = "") -> Segment:
    words = tuple(Word(word, 5 * index, 5 * index + 1) for word in text.split())
    frame = np.full((48, 64, 3), 200, np.uint8)
    return Segment(index, Span(5 * index, 5 * index + 5), frame, 5 * index + 2.5, torch.ones(3, 60, 65), np.ones(3, bool), words)


contents = st.lists(st.one_of(st.none(), st.integers(0, 60).map(lambda count: [WORD] * count)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(contents, st.data())
def test_a_blank_survives_and_sound_stays_whole(parts: list[list[int] | None], data: st.DataObject) -> None:
    asked = data.draw(st.integers(0, len(parts) - 1))
    parts[asked] = [*(parts[asked] or []), MASK, WORD]
    found = token_sequence(parts, length=100)
    tokens, subsegments = found.tokens.tolist(), found.subsegments.tolist()
    assert tokens.count(MASK) == 1 and subsegments[tokens.index(MASK)] == 3 * asked
    used = [(token, place) for token, place in zip(tokens, subsegments, strict=True) if place >= 0]
    assert tokens[len(used) :] == [0] * (100 - len(used)) and set(subsegments[len(used) :]) <= {-1}
    assert [place for _, place in used] == sorted(place for _, place in used)
    for place, group in groupby((pair for pair in used if pair[0] == AUDIOSPAN), key=lambda pair: pair[1]):
        assert len(list(group)) == 6 and parts[place // 3] is None
    total = sum(18 if part is None else len(part) for part in parts)
    assert found.num_cut == total - len(used)
    assert (found.num_cut == 0) == (total <= 100)


def test_what_is_farthest_from_the_blank_goes_first() -> None:
    found = token_sequence([[WORD] * 120, [MASK], [WORD] * 120], length=101)
    assert found.tokens.tolist().index(MASK) == 50 and found.num_cut == 140
    assert token_sequence([[WORD] * 120, [MASK]], length=101, released=True).tokens.tolist() == [WORD] * 101


def test_without_a_blank_the_end_goes() -> None:
    found = token_sequence([[WORD] * 3, [WORD + 1] * 3], length=4)
    assert found.tokens.tolist() == [WORD] * 3 + [WORD + 1]


def test_blanks_too_far_apart_are_an_error() -> None:
    with pytest.raises(InputError, match="102 tokens from the first blank"):
        token_sequence([[MASK, *[WORD] * 100, MASK]], length=100)


def test_sound_that_is_not_there_takes_no_positions() -> None:
    found = token_sequence([None, None], has_sound=[(True, False, True), (False, False, False)], length=20)
    assert found.subsegments.tolist() == [0] * 6 + [2] * 6 + [-1] * 8


def test_subtitles_cannot_smuggle_in_a_blank() -> None:
    assert MASK not in text_of(segment(0, "look <|MASK|> here"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the man is <mask>", "the man is<|MASK|>"),
        ("<mask> is cutting the <MASK> with a saw", "<|MASK|> is cutting the<|MASK|> with a saw"),
        (" done<|MASK|>. ", "done<|MASK|>."),
    ],
)
def test_blanks_in_a_question(text: str, expected: str) -> None:
    assert mask_query(text) == expected
    assert 149 not in default_tokenizer().encode(mask_query(text))


def test_a_question_without_a_blank_is_an_error() -> None:
    with pytest.raises(InputError, match="no blank"):
        mask_query("what is he doing?")


def test_sound_is_given_only_where_it_is_asked_for() -> None:
    inputs = preprocess([segment(0), segment(1, "hello")], [None, "hello<|MASK|>"], grid=(2, 3))
    assert inputs.images.shape == (2, 6, 768) and inputs.audio_clips.shape == (6, 60, 65)
    assert inputs.audio_clips.flatten(1).any(1).tolist() == [True] * 3 + [False] * 3


def test_what_is_left_out_is_said() -> None:
    with pytest.warns(UserWarning, match="5 tokens do not fit into 160"):
        preprocess([segment(0)], [[MASK, *[WORD] * 164]], grid=(2, 3))
    preprocess([segment(0)], [[MASK, *[WORD] * 159]], grid=(2, 3))


@pytest.mark.parametrize(
    ("parts", "message"), [([None] * 9, "1 to 8"), ([], "1 to 8"), ([[40000]], "whole numbers"), ([[1.5]], "whole numbers")]
)
def test_wrong_contents_are_errors(parts: list[Content], message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_sequence(parts)
    with pytest.raises(InputError, match="one for each"):
        preprocess([segment(0)], [None, None], grid=(2, 3))


def test_tall_frames_are_turned_only_on_request() -> None:
    upright, turned = (preprocess([segment(0)], [None], grid=(3, 4), turn=turn).images for turn in (False, True))
    assert torch.equal(upright, turned)
    tall = replace(segment(0), frame=np.full((64, 32, 3), 255, np.uint8))
    upright, turned = (preprocess([tall], [None], grid=(3, 4), turn=turn).images for turn in (False, True))
    assert turned.sum() > 1.3 * upright.sum()


@given(head=st.integers(0, 60), tail=st.integers(0, 60), words=st.lists(st.integers(0, 200), min_size=1, max_size=8), data=st.data())
def test_a_question_that_fits_is_never_cut_whatever_is_said_around_it(head: int, tail: int, words: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    question = [11] * head + [MASK] + [12] * tail
    sequence = token_sequence([[20 + number] * count for number, count in enumerate(words)], before={at: question})
    tokens = sequence.tokens.tolist()
    start = tokens.index(MASK) - head
    assert tokens[start : start + len(question)] == question
    assert set(sequence.subsegments[start : start + len(question)].tolist()) == {3 * at}
    assert sequence.num_cut == max(len(question) + sum(words) - 160, 0)
