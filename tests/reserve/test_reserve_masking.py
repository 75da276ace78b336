"""Laws of masked examples, for any record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import ConfigError, InputError
from watchword.reserve.draws import record_draws
from watchword.reserve.masking import MaskedExample, Masking, joined, mask_record
from watchword.reserve.matching import fair_shares
from watchword.reserve.rows import SegmentWords
from watchword.text.reserve import AUDIOSPAN, LTOVPOOL, MASK, MASKAUDIO, PADDING, default_tokenizer

FIRST_WORD = 10
MAPS = ("text2audio", "audio2text", "audio_text_matching", "random_text")


def record(
    counts: list[int], seed: int, *, videos: list[int] | None = None, sound: list[bool] | None = None, spread: float = 1.0
) -> list[SegmentWords]:
    """Segments of so many words. No two words of a record are the same, so that one that shows where it should not is seen."""
    random = np.random.default_rng(seed)
    ids = iter(random.permutation(np.arange(FIRST_WORD, FIRST_WORD + sum(counts))).tolist())
    found: list[SegmentWords] = []
    for number, count in enumerate(counts):
        starts = random.uniform(0.5 - spread / 2, 4.5 + spread / 2, count)
        starts = np.sort(starts) if spread <= 1 else starts
        video = videos[number] if videos else 0
        ends = starts + random.exponential(0.3, count)
        tokens = [next(ids) for _ in range(count)]
        time, heard = 5.0 * number, sound[number] if sound else True
        segment = SegmentWords(tokens, starts.tolist(), ends.tolist(), time, time + 5, video, heard)
        if not found or found[-1].video != video:
            description = [30000 + video] * int(random.integers(0, 900))
            segment = replace(segment, title=[20000 + video] * 7, description=description, tags=[25000] * 3)
        found.append(segment)
    return found


@st.composite
def records(draw: st.DrawFn, most_words: int = 60) -> list[SegmentWords]:
    size = draw(st.sampled_from([8, 16, 16, 24]))
    # Drawn by numpy: hypothesis prefers small numbers, and records full of words must come up as well.
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    most, silent = random.choice([0, 3, 12, 60, 60]), random.choice([0.0, 0.0, 0.3, 0.8])
    counts = (random.integers(most // 2, most + 1, size) * (random.random(size) >= silent)).tolist()
    counts = [min(count, most_words) for count in counts]
    videos = np.cumsum([draw(st.integers(0, 5)) == 0 for _ in range(size)]).tolist()
    sound = draw(st.one_of(st.just([True] * size), st.lists(st.booleans(), min_size=size, max_size=size)))
    return record(counts, draw(st.integers(0, 999)), videos=videos, sound=sound, spread=draw(st.sampled_from([0.0, 1.0, 5.0])))


web_texts = st.builds(lambda size, seed: np.random.default_rng(seed).integers(10, 32768, size), st.integers(0, 2000), st.integers(0, 99))
seeds = st.integers(0, 999)


def masked(segments: list[SegmentWords], seed: int, masking: Masking | None = None, web: object = ()) -> MaskedExample:
    return mask_record(segments, web, record_draws(seed, 0, "record"), masking)  # type: ignore[arg-type]


def tokens_of(sequences: np.ndarray) -> np.ndarray:
    """(n, 3): the tokens of all groups, without padding."""
    flat = sequences.reshape(-1, 3)
    return flat[flat[:, 0] != PADDING]


def words_of(sequences: np.ndarray) -> list[int]:
    return [token for token in tokens_of(sequences)[:, 0].tolist() if token >= FIRST_WORD]


def spans_of(example: MaskedExample, first: int, last: int) -> list[list[int]]:
    return [[token for token in row.tolist() if token] for row in example.text_spans[first:last]]


def count_of(segments: list[SegmentWords]) -> int:
    return Masking().num_targets(len(segments))


@settings(max_examples=40, deadline=None)
@given(records(), seeds)
def test_no_masked_word_stands_among_the_words_of_its_view(segments: list[SegmentWords], seed: int) -> None:
    example, count = masked(segments, seed), count_of(segments)
    for view, spans in ((example.text2audio, spans_of(example, 0, count)), (example.audio2text, spans_of(example, count, 2 * count))):
        assert not {token for span in spans for token in span} & set(words_of(view))


@settings(max_examples=40, deadline=None)
@given(records(most_words=8), seeds)
def test_words_and_spans_together_are_the_record_in_its_order(segments: list[SegmentWords], seed: int) -> None:
    example = masked(segments, seed)
    spans = spans_of(example, 0, count_of(segments))
    restored = []
    for token, _, pointer in tokens_of(example.text2audio).tolist():
        restored += spans[pointer] if token == MASK else [] if token == MASKAUDIO else [token]
    assert restored == [token for segment in segments for token in segment.tokens]


@settings(max_examples=40, deadline=None)
@given(records(), seeds, web_texts)
def test_every_pointer_is_valid_and_every_target_is_asked_once(segments: list[SegmentWords], seed: int, web: np.ndarray) -> None:
    example, count = masked(segments, seed, web=web), count_of(segments)
    rows = {}
    for view, first in (("text2audio", 0), ("audio2text", count)):
        for number, group in enumerate(getattr(example, view)):
            assert (tokens_of(group)[:, 1] // 24 == number).all()
        tokens = tokens_of(getattr(example, view))
        masks = tokens[tokens[:, 0] == MASK]
        assert masks[:, 2].tolist() == list(range(first, first + count))
        assert (np.diff(masks[:, 1]) > 0).all()
        assert (tokens[~np.isin(tokens[:, 0], (MASK, MASKAUDIO)), 2] == -1).all()
        rows[view] = set(masks[:, 1].tolist())
    assert not rows["text2audio"] & rows["audio2text"]
    masks = example.random_text[0][example.random_text[0][:, 0] == MASK]
    assert len(masks) <= 38 and masks[:, 2].tolist() == list(range(2 * count, 2 * count + len(masks)))
    assert (example.audio_text_matching[:, 2] == -1).all()


@settings(max_examples=40, deadline=None)
@given(records(), seeds, web_texts, st.booleans())
def test_sequences_have_their_lengths_and_padding_at_the_end_alone(
    segments: list[SegmentWords], seed: int, web: np.ndarray, released: bool
) -> None:
    example, size = masked(segments, seed, Masking.released() if released else Masking(), web), len(segments)
    assert example.text2audio.shape == example.audio2text.shape == (size // 8, 160, 3)
    assert example.audio_text_matching.shape == (640, 3) and example.random_text.shape == (1, 640, 3)
    assert example.text_spans.shape == (2 * count_of(segments) + 38, 15)
    for name in MAPS:
        for sequence in getattr(example, name).reshape(-1, *getattr(example, name).shape[-2:]):
            real = sequence[:, 0] != PADDING
            assert not (np.diff(real.astype(int)) > 0).any()
            assert (sequence[~real] == (PADDING, -1, -1)).all()
            assert sequence[:, 0].max() < 32768


@settings(max_examples=40, deadline=None)
@given(records(), seeds)
def test_sound_stays_whole_and_each_mask_of_words_has_its_mask_of_sound(segments: list[SegmentWords], seed: int) -> None:
    example = masked(segments, seed)
    for view in (example.audio2text, example.audio_text_matching[None]):
        tokens = tokens_of(view)
        rows, sizes = np.unique(tokens[tokens[:, 0] == AUDIOSPAN, 1], return_counts=True)
        assert (sizes == 6).all()
        assert all(segments[row // 3].has_sound for row in rows)
    tokens = tokens_of(example.text2audio)
    heard = [segment.has_sound for segment in segments]
    for token, behind in zip(tokens, [*tokens[1:], tokens[:0]], strict=True):
        if token[0] == MASK and heard[token[1] // 3]:
            assert behind.tolist() == [MASKAUDIO, *token[1:].tolist()]
    assert (tokens[:, 0] == MASKAUDIO).sum() == sum(heard[row // 3] for row in tokens[tokens[:, 0] == MASK, 1])


@settings(max_examples=40, deadline=None)
@given(records(), seeds)
def test_every_segment_has_its_place_in_the_matching_sequence(segments: list[SegmentWords], seed: int) -> None:
    sequence = masked(segments, seed).audio_text_matching
    places = sequence[sequence[:, 0] == LTOVPOOL]
    assert places[:, 1].tolist() == [3 * i for i in range(len(segments))]
    segment_of = {token: i for i, segment in enumerate(segments) for token in segment.tokens}
    number = np.cumsum(sequence[:, 0] == LTOVPOOL) - 1
    behind = (number >= 0) & (sequence[:, 0] >= FIRST_WORD)
    assert all(segment_of[token] == place for token, place in zip(sequence[behind, 0].tolist(), number[behind].tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(records(), seeds)
def test_words_stay_in_their_video_and_group(segments: list[SegmentWords], seed: int) -> None:
    example = masked(segments, seed)
    place_of = {token: (i // 8, segment.video) for i, segment in enumerate(segments) for token in segment.tokens}
    spans = spans_of(example, 0, count_of(segments))
    for token, row, pointer in tokens_of(example.text2audio).tolist():
        held = spans[pointer] if token == MASK else [token] if token >= FIRST_WORD else []
        assert all(place_of[word] == (row // 24, segments[row // 3].video) for word in held)


@settings(max_examples=20, deadline=None)
@given(records(most_words=3), seeds, st.sampled_from([0.0, 1.0]))
def test_neighbours_of_a_target_are_words_or_sound_as_asked(segments: list[SegmentWords], seed: int, textify: float) -> None:
    example = masked([replace(segment, has_sound=True) for segment in segments], seed, Masking(textify=textify))
    tokens = tokens_of(example.audio2text)
    targets = set(tokens[tokens[:, 0] == MASK, 1].tolist())
    near = {row + step for row in targets for step in (-1, 1)} - targets
    others = set(range(3 * len(segments))) - targets
    assert set(tokens[tokens[:, 0] == AUDIOSPAN, 1].tolist()) == (others - near if textify else others)


@settings(max_examples=20, deadline=None)
@given(web_texts, seeds, st.integers(0, 40))
def test_spans_of_web_text_hold_plain_words_alone(web: np.ndarray, seed: int, num_masks: int) -> None:
    example = masked(record([2] * 8, 0), seed, Masking(web_masks=num_masks), web)
    spans = example.text_spans[12:]
    assert spans.shape == (num_masks, 15) and len(example.random_text) == bool(num_masks)
    assert default_tokenizer().span_valid[spans[spans != PADDING]].all()
    shown = set(words_of(example.random_text))
    assert shown <= set(web.tolist())


def test_an_epoch_is_a_function_of_seed_epoch_and_record() -> None:
    segments, web = record([6] * 16, 0), np.arange(20, 1500)

    def drawn(seed: int, epoch: int, key: str) -> bytes:
        example = mask_record(segments, web, record_draws(seed, epoch, key))
        return b"".join(getattr(example, name).tobytes() for name in (*MAPS, "text_spans", "crop_starts"))

    assert drawn(1, 2, "a") == drawn(1, 2, "a")
    assert len({drawn(1, 2, "a"), drawn(1, 3, "a"), drawn(2, 2, "a"), drawn(1, 2, "b")}) == 4


def crossing_record() -> list[SegmentWords]:
    """Words crowd about the middle of the record, so that some lie near the sound on the other side."""
    segments = record([0] * 16, 0)
    for number, time in ((7, 4.9), (8, 0.05)):
        segments[number] = replace(segments[number], tokens=[100 * number, 100 * number + 1], starts=[time] * 2, ends=[time] * 2)
    return segments


def test_words_pass_between_groups_only_as_released() -> None:
    passed = {False: 0, True: 0}
    for seed in range(60):
        for across in passed:
            example = masked(crossing_record(), seed, Masking(donate_across=across))
            found = tokens_of(example.text2audio)
            masks = found[found[:, 0] == MASK]
            rows = {word: row for word, row, _ in found.tolist() if word >= FIRST_WORD}
            rows |= {word: int(masks[i, 1]) for i, span in enumerate(spans_of(example, 0, 12)) for word in span}
            passed[across] += sum((word >= 800) != (row >= 24) for word, row in rows.items())
    assert passed[False] == 0 and passed[True] > 0


def test_a_crowded_group_loses_whole_sounds_and_never_a_blank_but_as_released() -> None:
    segments = record([40] * 16, 3)
    broken = lost = 0
    for seed in range(30):
        for released in (False, True):
            example = masked(segments, seed, Masking(split_rows=released))
            tokens = tokens_of(example.audio2text)
            sizes = np.unique(tokens[tokens[:, 0] == AUDIOSPAN, 1], return_counts=True)[1]
            missing = 12 - (tokens_of(example.text2audio)[:, 0] == MASKAUDIO).sum()
            if released:
                broken, lost = broken + (sizes % 6 != 0).sum(), lost + missing
            else:
                assert (sizes == 6).all() and missing == 0
    assert broken > 0 and lost > 0


def test_long_text_takes_no_frame_its_place_but_as_released() -> None:
    segments = record([60] * 16, 0)
    texts = 0
    for seed in range(8):
        cut, whole = (masked(segments, seed, Masking(cut_matching=released)).audio_text_matching[:, 0] for released in (True, False))
        if AUDIOSPAN not in cut:
            texts += 1
            assert (cut == LTOVPOOL).sum() < 16 and (cut != PADDING).all()
            assert (whole == LTOVPOOL).sum() == 16 and (whole != PADDING).all()
    assert texts > 0


def test_the_metadata_of_all_videos_stand_in_front_but_as_released() -> None:
    segments = record([3] * 16, 0, videos=[0] * 6 + [1] * 10)
    for released in (False, True):
        sequence = masked(segments, 0, Masking(cut_matching=released)).audio_text_matching[:, 0].tolist()
        front = sequence[: sequence.index(LTOVPOOL)]
        assert 20000 in front and (20001 in front) == (not released)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 300))
def test_fair_shares_use_the_room_and_cut_the_longest_first(lengths: list[int], room: int) -> None:
    shares = fair_shares(lengths, room)
    assert sum(shares) == min(sum(lengths), max(room, 0))
    cut = [share for share, length in zip(shares, lengths, strict=True) if share < length]
    assert all(0 <= share <= length for share, length in zip(shares, lengths, strict=True))
    assert not cut or (max(cut) - min(cut) <= 1 and max(shares) <= min(cut) + 1)


def test_examples_join_to_a_batch_under_the_names_that_the_model_reads() -> None:
    batch = joined([masked(record([3] * 16, 0), seed, web=range(20, 900)) for seed in range(2)])
    shapes = {name: array.shape for name, array in batch.items()}
    for name, shape in (("text2audio", (2, 2, 160)), ("audio2text", (2, 2, 160)), ("random_text", (2, 1, 640))):
        assert shapes[name] == shapes[f"{name}/audio_ptr"] == shapes[f"{name}/text_ptr"] == shape
    assert shapes["audio_text_matching"] == (2, 1, 640)
    assert shapes["text_spans"] == (2, 62, 15) and shapes["crop_starts"] == (2, 16, 3) and shapes["video_src_index"] == (2, 16)
    with pytest.raises(InputError, match="at least one"):
        joined([])
    with pytest.raises(InputError, match="same masking"):
        joined([masked(record([3] * size, 0), 0) for size in (8, 16)])


def test_records_that_cannot_be_masked_are_refused() -> None:
    good = record([3] * 16, 0)
    for bad, message in (
        (good[:15], "whole groups"),
        ([], "whole groups"),
        ([replace(good[0], tokens=[15, 16, 40000]), *good[1:]], "token ids from 15 to 40000"),
        ([replace(good[0], tokens=[20, MASK, 30]), *good[1:]], "token ids from 3 to 30"),
        ([replace(good[0], title=[-1]), *good[1:]], "token ids from -1"),
        ([replace(good[0], starts=[0.0]), *good[1:]], "3 tokens, but 1 start"),
        ([replace(good[0], ends=[0.0, 1.0, float("nan")]), *good[1:]], "not a finite"),
    ):
        with pytest.raises(InputError, match=message):
            masked(bad, 0)
    with pytest.raises(InputError, match="web text has token ids"):
        masked(good, 0, web=[99999])
    with pytest.raises(InputError, match="padding or mask tokens"):
        masked(good, 0, web=[20, MASK, 30])
    with pytest.raises(InputError, match="takes 304 positions"):
        masked(good, 0, Masking(joint_length=300, text_length=300))
    with pytest.raises(InputError, match="negative"):
        record_draws(-1, 0, "record")


@pytest.mark.parametrize(
    "wrong", [{"mask_rate": 0.6}, {"textify": 2}, {"web_masks": -1}, {"length": 40}, {"text_length": 700}, {"web_weights": (0.5, 0.1)}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Masking(**wrong)  # type: ignore[arg-type]
