"""How often things happen in masked examples of MERLOT Reserve, against the fixtures' long-run numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reserve_data_files import arrays_with, each, objects_with, read_arrays, read_json

from watchword.reserve.draws import RandomDraws, record_draws
from watchword.reserve.masking import MaskedExample, Masking, mask_record
from watchword.reserve.rows import SegmentWords
from watchword.reserve.webtext import LENGTH_WEIGHTS, mask_web_text
from watchword.text.reserve import AUDIOSPAN, MASK, default_tokenizer

STATISTICS = objects_with("segment_views", "audio_crop", "web_text")
NUM_EXAMPLES = 500
STANDARD_ERRORS = 5
SILENT_WORDS = SegmentWords((), (), (), 0.0, 5.0)


@cache
def examples() -> list[MaskedExample]:
    """Of a record without words: no group is too long, so that what is drawn can be read off."""
    return [mask_record([SILENT_WORDS] * 16, (), record_draws(0, epoch, "record")) for epoch in range(NUM_EXAMPLES)]


def rows_of(sequences: np.ndarray, token: int) -> np.ndarray:
    """(examples, 48) which rows of sound have this token."""
    flat = sequences.reshape(len(sequences), -1, 3)
    found = np.zeros((len(sequences), 48), bool)
    example, place = np.nonzero(flat[..., 0] == token)
    found[example, flat[example, place, 1]] = True
    return found


def close(values: Any, mean: float) -> bool:
    """Whether the mean of (examples, ..) independent values is as expected, within five standard errors."""
    values = np.asarray(values, float)
    return bool(np.all(np.abs(values.mean(0) - mean) <= STANDARD_ERRORS * values.std(0) / np.sqrt(len(values))))


@each(STATISTICS, "statistics")
def test_targets_and_their_neighbours(path: Path) -> None:
    expected = read_json(path)["segment_views"]
    heard = rows_of(np.stack([example.text2audio for example in examples()]), MASK)
    read, sound = (rows_of(np.stack([example.audio2text for example in examples()]), token) for token in (MASK, AUDIOSPAN))
    assert (heard.sum(1) == expected["targets_per_view"]).all() and (read.sum(1) == expected["targets_per_view"]).all()
    assert not (heard & read).any()
    assert close(heard, expected["marginal_target_probability"]) and close(read, expected["marginal_target_probability"])
    padded = np.pad(read, ((0, 0), (1, 1)))
    near = (padded[:, :-2] | padded[:, 2:]) & ~read
    assert close(near.sum(1), expected["mean_neighbours_of_targets"])
    assert not (~near & ~read & ~sound).any()
    assert close(~sound[near], expected["textify_probability_given_neighbour"])
    assert sound.sum(1).mean() == pytest.approx(expected["mean_audio_subsegments_in_audio2text"], abs=expected["tolerance"])
    assert sound.sum(1).std() == pytest.approx(expected["sd_audio_subsegments"], rel=0.2)


@each(STATISTICS, "statistics")
def test_coins_are_fair(path: Path) -> None:
    uses_audio = [bool((example.audio_text_matching[:, 0] == AUDIOSPAN).any()) for example in examples()]
    assert close(uses_audio, read_json(path)["matching_uses_audio_probability"])
    draws = RandomDraws(np.random.default_rng(0))
    assert close([draws.coin("reassign_right_first") for _ in range(NUM_EXAMPLES)], read_json(path)["direction_first_probability"])


@each(STATISTICS, "statistics")
def test_where_subsegments_begin(path: Path) -> None:
    expected = read_json(path)["audio_crop"]
    starts = np.concatenate([example.crop_starts for example in examples()])
    assert np.allclose(starts.mean(0), expected["mean_start_hop"], rtol=0, atol=expected["tolerance_mean"] / 3)
    assert np.allclose(starts.std(0), expected["sd"], rtol=0.1)
    assert (starts.min(0) >= expected["min"]).all() and (starts.max(0) <= expected["max"]).all()
    gaps = np.bincount(starts[:, 0], minlength=9) / len(starts)
    assert np.allclose(gaps, expected["first_gap_histogram"], rtol=0, atol=0.03)


def sample_texts() -> list[np.ndarray]:
    """The web text of the masked records, where it is whole."""
    found = []
    for path in arrays_with("in_random_text", "in_random_text_len", "draw_webtext_offset"):
        arrays = read_arrays(path)
        texts = np.split(arrays["in_random_text"], np.cumsum(arrays["in_random_text_len"])[:-1])
        found += [text for text in texts if len(text) == 1536]
    if not found:
        pytest.skip("no web text in the folder")
    return found


@each(STATISTICS, "statistics")
def test_masked_web_text(path: Path) -> None:
    expected = read_json(path)["web_text"]
    texts, valid = sample_texts(), default_tokenizer().span_valid
    assert expected["length_weights"] == pytest.approx(LENGTH_WEIGHTS)
    raw, pieces, lengths, kept, masks = [], [], [], [], []
    recorder = Recorder(np.random.default_rng(0))
    for number in range(NUM_EXAMPLES):
        tokens, spans = mask_web_text(
            texts[number % len(texts)], valid, recorder, length=640, num_masks=Masking().web_masks, first_pointer=24
        )
        raw.append(len(recorder.lengths))
        ends = np.cumsum(recorder.lengths)
        pieces.append(int((ends <= len(recorder.lengths)).sum()))
        # What is missing is filled up, so the length on the way is read off the pieces: all of them but for the masked ones' words.
        masked = tokens[tokens[:, 0] == MASK, 1]
        masks.append(len(masked))
        lengths.append(int(ends[pieces[-1] - 1] - recorder.lengths[masked].sum() + len(masked)))
        kept += [len(span) for span in spans]
    assert set(raw) == {expected["raw_tokens_considered"]} and set(masks) == {expected["masked_pieces"]}
    assert close(pieces, expected["mean_pieces"]) and np.std(pieces) == pytest.approx(expected["sd_pieces"], rel=0.2)
    assert close(lengths, expected["mean_length_after_masking"])
    assert close(np.array(lengths) > 640, expected["fraction_over_640"])
    histogram = np.bincount(kept, minlength=16) / len(kept)
    assert np.allclose(histogram, expected["kept_length_histogram_0_to_15"], rtol=0, atol=0.02)


class Recorder(RandomDraws):
    """Keeps the lengths that it drew last."""

    lengths: np.ndarray

    def weighted(self, name: str, count: int, weights: Any) -> Any:
        self.lengths = super().weighted(name, count, weights)
        return self.lengths
