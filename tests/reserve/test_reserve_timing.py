"""Word timing: the network is read, trained, saved, and never tears words apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import CheckpointError, InputError
from watchword.media.subtitles import Word
from watchword.reserve.timing import MAX_SHIFT_SECONDS, SpokenTranscript, TimingRegressor, fit_timing, word_features
from watchword.reserve.transcript import clean_words, transcript_quality

TEXTS = ("a", "so", "you", "cut", "the", "board", "carefully", "Wonderful", "it's", "internationally")


def transcript(seed: int, count: int = 200) -> SpokenTranscript:
    """Captions that come too early, long words more so."""
    draw = np.random.default_rng(seed)
    texts = draw.choice(TEXTS, count)
    edges = np.cumsum(draw.uniform(0.15, 0.6, count + 1))
    words = tuple(Word(str(text), float(low), float(high)) for text, (low, high) in zip(texts, pairwise(edges), strict=True))
    late = [0.05 + (0.2 if len(word.text) > 4 else 0.0) for word in words]
    return SpokenTranscript(words, tuple((word.start + by, word.end + by / 2) for word, by in zip(words, late, strict=True)))


@pytest.fixture(scope="module")
def network() -> TimingRegressor:
    return fit_timing([transcript(seed) for seed in range(8)], steps=200)


def test_it_learns_what_captions_are_off_by(network: TimingRegressor) -> None:
    unseen = transcript(99)
    wanted = np.array([(start - word.start, end - word.end) for word, (start, end) in zip(unseen.words, unseen.spoken, strict=True)])
    found = network.offsets(word_features(unseen.words))
    assert np.abs(found - wanted).mean() < 0.2 * np.abs(wanted - np.median(wanted, axis=0)).mean()


def test_saved_and_read_it_is_the_same(network: TimingRegressor, tmp_path: Path) -> None:
    network.save(tmp_path / "timing.json")
    again = TimingRegressor.load(tmp_path / "timing.json")
    words = transcript(3).words
    assert again.correct(words) == network.correct(words)
    assert set(json.loads((tmp_path / "timing.json").read_text())) >= {"mapping.0.weight", "temp", "mean"}


def test_training_is_repeatable() -> None:
    first, second = (fit_timing([transcript(0)], steps=5, seed=1) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first.weights, second.weights, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.floats(0, 3), st.floats(0, 2)), max_size=8))
def test_words_that_meet_still_meet(parts: list[tuple[str, float, float]]) -> None:
    network = _any_network()
    words, time = [], 0.0
    for text, length, pause in parts:
        words.append(Word(text, time, time + length))
        time += length + (pause if pause > 1 else 0)
    found = network.correct(words)
    assert [word.text for word in found] == [word.text for word in words]
    for old, new in zip(words, found, strict=True):
        assert abs(new.start - old.start) <= MAX_SHIFT_SECONDS + 1e-9 and abs(new.end - old.end) <= MAX_SHIFT_SECONDS + 1e-9
    for (old, old_next), (new, new_next) in zip(pairwise(words), pairwise(found), strict=True):
        assert new_next.start - new.end == pytest.approx(old_next.start - old.end)


def _any_network() -> TimingRegressor:
    draw = np.random.default_rng(0)
    sizes = ((32, 18), (32, 32), (2, 32))
    weights = tuple(draw.normal(0, 1, size) for size in sizes)
    biases = tuple(draw.normal(0, 1, size[0]) for size in sizes)
    return TimingRegressor(weights, biases, np.zeros(18), np.ones(18), np.zeros(2), np.full(2, 0.2))  # type: ignore[arg-type]


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda lists: lists.pop(name)


@pytest.mark.parametrize(
    "spoil",
    [
        _without("temp"),
        lambda lists: lists.update(more=[1]),
        lambda lists: lists.update(mean=[1.0]),
        lambda lists: lists.update(std=[0.0] * 18),
        lambda lists: lists.update(bias=["a", "b"]),
        lambda lists: lists.update(bias=[float("nan"), 0]),
        lambda lists: lists["mapping.2.weight"].pop(),
        lambda lists: lists.update({"mapping.4.bias": {"x": 1}}),
    ],
)
def test_a_wrong_parameter_file_is_refused(spoil: Callable[[dict[str, Any]], object], tmp_path: Path) -> None:
    _any_network().save(tmp_path / "timing.json")
    lists = json.loads((tmp_path / "timing.json").read_text())
    spoil(lists)
    (tmp_path / "timing.json").write_text(json.dumps(lists))
    with pytest.raises(CheckpointError, match="word-timing"):
        TimingRegressor.load(tmp_path / "timing.json")


@pytest.mark.parametrize("text", ["", "[1]", "[" * 100_000, "3"])
def test_what_is_no_parameter_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "timing.json").write_text(text)
    with pytest.raises(CheckpointError, match="word-timing"):
        TimingRegressor.load(tmp_path / "timing.json")


def test_learning_needs_a_true_time_for_each_word() -> None:
    with pytest.raises(InputError, match="1 has 1 words, but 0"):
        fit_timing([SpokenTranscript((Word("a", 0, 1),), ())])
    with pytest.raises(InputError, match="at least 2"):
        fit_timing([])


def test_broken_words_are_dropped_and_wrong_letters_put_right() -> None:
    words = [Word(text, 0, 1) for text in ("&nbsp", "tabs;", "donâ€™t", "\x00", "fine")]
    assert [word.text for word in clean_words(words)] == ["don't", "fine"]
    assert [word.text for word in clean_words(words, repair=False)] == ["donâ€™t", "fine"]


def test_short_transcripts_are_judged_too() -> None:
    assert not transcript_quality([]).keep
    assert transcript_quality(["one"]).keep
