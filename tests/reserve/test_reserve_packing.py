"""Laws of grouping segments into records and of packing documents, for any of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.reserve.draws import record_draws
from watchword.reserve.grouping import group_segments
from watchword.reserve.packing import pack_documents
from watchword.text.reserve import END, START, default_tokenizer


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=30), st.sampled_from([1, 4, 16]), st.integers(0, 20), st.integers(0, 99))
def test_records_are_full_and_no_segment_is_in_two(counts: list[int], size: int, most_waiting: int, seed: int) -> None:
    groups = list(group_segments(counts, record_draws(seed, 0, ""), size=size, most_waiting=most_waiting))
    assert all(len(group) == size for group in groups)
    places = [place for group in groups for place in group]
    assert len(set(places)) == len(places)
    assert all(0 <= segment < counts[video] for video, segment in places)
    for group in groups:
        for (video, segment), (next_video, next_segment) in pairwise(group):
            assert next_video != video or next_segment == segment + 1
    assert len(groups) >= sum(count // size for count in counts)


def test_a_video_of_whole_records_loses_nothing() -> None:
    groups = list(group_segments([32], record_draws(0, 0, "")))
    assert sorted(place for group in groups for place in group) == [(0, segment) for segment in range(32)]


words = st.lists(st.sampled_from(["the", "lamp", "went", "out", "again"]), min_size=1, max_size=12).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(words, max_size=12), st.sampled_from([8, 16]), st.booleans())
def test_packed_stretches_are_full_and_in_order(documents: list[str], length: int, released: bool) -> None:
    found = [stretch.tolist() for stretch in pack_documents(documents, length=length, released=released)]
    assert all(len(stretch) == length for stretch in found)
    everything = iter([token for text in documents for token in (START, *default_tokenizer().encode(text), END)])
    assert all(token in everything for stretch in found for token in stretch), "something stands out of order"


def test_a_short_document_after_a_full_stretch_is_lost_only_as_released() -> None:
    full = " ".join(["lamp"] * 62)
    documents = [full, "the lamp", full]
    kept = np.concatenate(list(pack_documents(documents, length=64)))
    lost = np.concatenate(list(pack_documents(documents, length=64, released=True)))
    assert (kept == START).tolist().count(True) == 3 and (lost == START).tolist().count(True) == 2


def test_what_looks_like_a_special_token_in_a_document_is_text() -> None:
    (stretch,) = pack_documents(["<|MASK|> " * 8], length=32)
    assert not np.isin(stretch[1:], range(10)).any()


def test_lengths_below_one_are_refused() -> None:
    with pytest.raises(InputError, match="at least 1"):
        next(pack_documents(["lamp"], length=0))
    with pytest.raises(InputError, match="at least 1"):
        next(group_segments([4], record_draws(0, 0, ""), size=0))
