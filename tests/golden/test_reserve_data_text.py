"""MERLOT Reserve's tokens, captions, word timing and segmentation against numbers of the authors' code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reserve_data_files import arrays_with, each, lists_with, objects_with, read_arrays, read_json

from watchword.media.errors import NoSubtitlesError
from watchword.media.subtitles import Subtitles, Word, parse_subtitles
from watchword.reserve.segmentation import sections
from watchword.reserve.timing import TimingRegressor, word_features
from watchword.reserve.transcript import clean_words, transcript_quality
from watchword.text import reserve
from watchword.text.reserve import ReserveTokenizer

TIME_TOLERANCE = 1e-4


def vocabulary() -> ReserveTokenizer:
    """The folder's own vocabulary, if it has one; else the one that comes with the package."""
    return ReserveTokenizer(next(iter(objects_with("model", "added_tokens")), None))


def regressor() -> TimingRegressor:
    found = objects_with("mapping.0.weight", "mean", "temp")
    if not found:
        pytest.skip("no parameters of the word-timing network in the folder")
    return TimingRegressor.load(found[0])


@each(objects_with("special", "cases", "label_space"), "tokenizer cases")
def test_texts_to_tokens_and_back(path: Path) -> None:
    expected, tokenizer = read_json(path), vocabulary()
    assert len(tokenizer) == expected["vocab_size"]
    for name, token in expected["special"].items():
        assert getattr(reserve, {"UNK": "UNKNOWN", "unused0": "_UNUSED"}.get(name, name)) == token
    for case in expected["cases"]:
        ids = tokenizer.encode(case["text"])
        assert ids == case["ids"], case["text"]
        assert [tokenizer.token(token) for token in ids] == case["tokens"]
        assert tokenizer.decode(ids, keep_special=True) == case["decoded_keep_special"]
        assert tokenizer.decode(ids) == case["decoded_skip_special"]
    labels = expected["label_space"]
    assert tokenizer.spans(labels["options"], length=len(labels["ids"][0])).tolist() == labels["ids"]
    assert int(tokenizer.span_valid.sum()) == expected["num_valid_span_tokens"]
    assert not tokenizer.span_valid[expected["invalid_blank_tokens"]].any()


@each(objects_with("model", "added_tokens"), "vocabulary")
def test_the_bundled_vocabulary_is_the_released_one(path: Path) -> None:
    assert ReserveTokenizer().json == path.read_text(encoding="utf-8")


@each(arrays_with("valid_bits"), "span-valid tokens")
def test_which_tokens_may_stay_in_a_span(path: Path) -> None:
    expected = read_arrays(path)
    size = int(expected["vocab_size"])
    assert np.array_equal(vocabulary().span_valid, np.unpackbits(expected["valid_bits"])[:size].astype(bool))


def assert_words(found: list[Word] | tuple[Word, ...], expected: list[tuple[str, float, float]]) -> None:
    assert [word.text for word in found] == [word[0] for word in expected]
    assert np.allclose([(word.start, word.end) for word in found], [word[1:] for word in expected], rtol=0, atol=TIME_TOLERANCE)


def read_captions(text: str) -> Subtitles | None:
    try:
        return parse_subtitles(text)
    except NoSubtitlesError:
        return None


@each(objects_with("segment_seconds", "readers"), "captions")
def test_captions_as_parsed_and_cleaned(path: Path) -> None:
    for case in read_json(path)["cases"] + read_json(path)["readers"]:
        found = read_captions(case["vtt"] if "vtt" in case else case["text"])
        if case["words"] is None:
            assert found is None or not found.word_timed
            continue
        assert found is not None
        assert_words(found.words, case["words"])
        assert_words(clean_words(found.words, repair=False), case["words_after_clean"])


@each(objects_with("segment_seconds", "cases"), "captions")
def test_word_timing_and_segmentation_with_given_draws(path: Path) -> None:
    network, tokenizer = regressor(), vocabulary()
    for case in read_json(path)["cases"]:
        words = [Word(*word) for word in case["words_after_clean"]]
        features = word_features(words, tokenizer)
        assert np.allclose(features[: case["features_rows"]], case["features"], atol=1e-6)
        assert np.allclose(network.offsets(features), case["offsets"], rtol=0, atol=TIME_TOLERANCE)
        corrected = network.correct(words, tokenizer)
        assert np.allclose([word.start for word in corrected], case["corrected_start"], rtol=0, atol=TIME_TOLERANCE)
        assert np.allclose([word.end for word in corrected], case["corrected_end"], rtol=0, atol=TIME_TOLERANCE)
        draws = iter(case["uniform_draws"])
        found = sections(corrected, case["duration"], lambda: next(draws))  # noqa: B023
        assert len(case["uniform_draws"]) - len(list(draws)) == case["uniform_draws_consumed"]
        assert [(list(part.rows), part.speed) for part in found] == [
            (part["word_rows"], part["playback_speed"]) for part in case["segments"]
        ]
        for part, expected in zip(found, case["segments"], strict=True):
            assert part.span.start == pytest.approx(expected["start_time"], abs=TIME_TOLERANCE)
            assert part.span.end == pytest.approx(expected["end_time"], abs=TIME_TOLERANCE)
            assert part.span.middle == pytest.approx(expected["frame_time"], abs=TIME_TOLERANCE)
            tokens = [
                (token, *times)
                for row, times in zip(part.rows, part.relative(corrected), strict=True)
                for token in tokenizer.encode(corrected[row].text, special=False)
            ]
            assert [token[0] for token in tokens] == expected["tok_ids"]
            assert np.allclose([token[1] for token in tokens], expected["tok_start_times"], rtol=0, atol=TIME_TOLERANCE)
            assert np.allclose([token[2] for token in tokens], expected["tok_end_times"], rtol=0, atol=TIME_TOLERANCE)


@each(lists_with("words", "good_fraction", "keep"), "transcript quality")
def test_transcript_quality(path: Path) -> None:
    for case in read_json(path):
        quality = transcript_quality(case["words"])
        assert quality.good_fraction == pytest.approx(case["good_fraction"])
        assert quality.length_variance == pytest.approx(case["length_variance"])
        assert quality.keep == case["keep"]
