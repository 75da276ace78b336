"""Laws that hold for every way of cutting a video."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.media.subtitles import Word
from watchword.reserve.segmentation import MAX_SPEED, centred_spans, even_spans, released_spans, sections, spans_before, windows

seconds = st.floats(0, 500, allow_nan=False)


@st.composite
def transcripts(draw: st.DrawFn) -> list[Word]:
    words, time = [], draw(st.floats(0, 20))
    for length, pause in draw(st.lists(st.tuples(st.floats(0.05, 2), st.sampled_from([0, 0, 0, 0.5, 4, 30])), max_size=30)):
        words.append(Word("word", time, time + length))
        time += length + pause
    return words


@settings(max_examples=60, deadline=None)
@given(transcripts(), seconds, st.integers(0, 999))
def test_sections_follow_each_other_and_share_out_the_words(words: list[Word], duration: float, seed: int) -> None:
    found = sections(words, duration, random.Random(seed).random)
    for earlier, later in pairwise(found):
        assert later.span.start == earlier.span.end
    rows = [row for section in found for row in section.rows]
    assert rows == sorted(set(rows))
    for section in found:
        assert 1 <= section.speed <= MAX_SPEED
        assert section.span.seconds == pytest.approx(5 * section.speed)
        assert section.span.start >= 0 and section.span.end <= duration - 1 + 0.01
        for start, end in section.relative(words):
            assert (start + end) / 2 < 5 + 0.01
    if found:
        centres = [(word.start + word.end) / 2 for word in words]
        assert rows == [i for i, centre in enumerate(centres) if centre < found[-1].span.end][: len(rows)]
        assert len(rows) == len(words) or found[-1].span.end + 5 > duration - 1


@settings(max_examples=60, deadline=None)
@given(transcripts(), seconds)
def test_speech_is_never_sped_up_where_the_coin_says_no(words: list[Word], duration: float) -> None:
    assert all(section.speed == 1 for section in sections(words, duration, lambda: 0.95))


def test_a_sparse_stretch_is_joined_twice_at_most() -> None:
    words = [Word("a", 12.0 * i, 12.0 * i + 1) for i in range(10)]
    found = sections(words, 200, lambda: 0.0)
    assert [section.speed for section in found[:3]] == [3, 3, 3]
    assert found[0].relative(words)[1] == (4.0, pytest.approx(13 / 3))


def test_captions_without_a_time_are_refused() -> None:
    with pytest.raises(InputError, match="finite"):
        sections([Word("a", math.nan, 1)], 10, lambda: 0)
    assert sections([], 100, lambda: 0) == []


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 50), seconds)
def test_even_spans_cover_everything_but_less_than_a_second(start: float, length: float) -> None:
    spans = even_spans(start, start + length)
    assert spans[0].start == start
    for earlier, later in pairwise(spans):
        assert later.start == pytest.approx(earlier.end) and earlier.seconds == pytest.approx(5)
    assert spans[-1].seconds <= 5 + 1e-6
    assert abs(start + length - spans[-1].end) < 1
    assert even_spans(start, start + length, limit=2) == spans[:2]


@settings(max_examples=60, deadline=None)
@given(st.floats(6, 500))
def test_the_released_spans_are_the_first_of_ours(length: float) -> None:
    released = released_spans(length)
    assert released == even_spans(0, length)[: len(released)]
    assert len(released) in ((length - 1) // 5, (length - 1) // 5 - 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.integers(1, 20))
def test_windows_share_out_the_segments_evenly(count: int, size: int) -> None:
    found = windows(count, size=size)
    assert [number for window in found for number in window] == list(range(count))
    assert len(found) == math.ceil(count / size)
    sizes = [len(window) for window in found]
    assert not sizes or (max(sizes) <= size and max(sizes) - min(sizes) <= 1)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 100), st.integers(1, 10), st.floats(0.1, 8))
def test_spans_before_a_time_end_there(time: float, count: int, length: float) -> None:
    spans = spans_before(time, count, length)
    assert len(spans) == count and spans[-1].end == round(time, 2)
    assert all(0 <= span.start <= span.end for span in spans)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 300))
def test_centred_spans_leave_as_much_before_as_behind(duration: float) -> None:
    spans = centred_spans(duration)
    assert len(spans) == int(duration // 3)
    if spans:
        assert spans[0].start == pytest.approx(duration - spans[-1].end, abs=0.011)


@pytest.mark.parametrize("call", [lambda: even_spans(5, 4), lambda: even_spans(0, math.inf), lambda: even_spans(0, 9, limit=0)])
def test_impossible_times_are_errors(call: object) -> None:
    with pytest.raises(InputError):
        call()  # type: ignore[operator]
