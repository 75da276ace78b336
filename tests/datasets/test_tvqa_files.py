"""TVQA's question files, the windows around a moment, and how a question's files become what the model reads."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from watchword.datasets.tvqa import TvqaFolder, TvqaItem, most_frequent_label, read_items
from watchword.datasets.tvqa_examples import TvqaExamples, as_tensors, shifted
from watchword.datasets.tvqa_windows import frame_number, last_second, texts_of, windows_around
from watchword.errors import ConfigError
from watchword.media.cues import Cue
from watchword.playground.stand_ins.tvqa import write_tvqa
from watchword.reserve.segmentation import Span
from watchword.reserve.sound_choices import choice_sequences, query_tokens
from watchword.text.reserve import AUDIOSPAN, MASK, default_tokenizer

ROW: dict[str, Any] = {
    "qid": 5, "q": "Who?", "a0": "A", "a1": "B", "a2": "C", "a3": "D", "a4": "E", "answer_idx": 2, "ts": "1.5-4", "show_name": "Castle",
    "vid_name": "castle_s01e02_seg02_clip_09",
}  # fmt: skip


def written(folder: Path, *rows: Any) -> Path:
    path = folder / "tvqa_val.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_a_row_is_read_as_the_owners_write_it(tmp_path: Path) -> None:
    unlabelled = {key: value for key, value in ROW.items() if key not in ("answer_idx", "show_name")}
    others = {**unlabelled, "qid": 6, "ts": "nan-nan", "vid_name": "s05e01_seg01_clip_00"}
    first, second = read_items(written(tmp_path, ROW, "", others))
    assert first == TvqaItem(5, "Who?", ("A", "B", "C", "D", "E"), "castle_s01e02_seg02_clip_09", (1.5, 4.0), 2)
    assert (second.show, second.moment, second.label, first.show) == ("bbt", None, None, "castle")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ts": "soon"}, "row 2: ts is 'soon'"),
        ({"ts": "1-2-3"}, "row 2: ts"),
        ({"ts": "inf-3"}, "row 2: ts"),
        ({"ts": [1, 2]}, "row 2: ts"),
        ({"a3": None}, "row 2: a3"),
        ({"qid": "6"}, "row 2: qid"),
        ({"qid": 5}, "question 5 is there twice"),
        ({"answer_idx": 5}, "row 2: answer_idx is 5"),
        ({"answer_idx": True}, "row 2: answer_idx"),
        ({"vid_name": "../../etc"}, "row 2: vid_name"),
        ({"vid_name": "lost_s01e01_seg01_clip_00"}, "row 2: vid_name"),
    ],
)
def test_wrong_rows_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_items(written(tmp_path, ROW, {**ROW, "qid": 6, **change}))


def test_wrong_files_are_named(tmp_path: Path) -> None:
    for rows, message in ((["{"], "row 1: not JSON"), (["[1]"], "row 1: not an object"), ([], "no question")):
        with pytest.raises(ConfigError, match=message):
            read_items(written(tmp_path, *rows))
    with pytest.raises(ConfigError, match=r"no tvqa_train\.jsonl.*tvqa\.cs\.unc\.edu"):
        TvqaFolder(tmp_path).items("train")


def test_the_most_frequent_label() -> None:
    items = [TvqaItem(i, "", (), "s01e01_a", None, label) for i, label in enumerate([3, None, 1, 3, 1, 0])]
    assert most_frequent_label(items) == 1 and most_frequent_label(items[1:2]) is None


seconds = st.floats(-10, 400)
moments = st.none() | st.tuples(seconds, seconds)


@given(moments, st.integers(1, 900))
def test_windows_follow_each_other_around_the_moment(moment: tuple[float, float] | None, num_frames: int) -> None:
    windows, last = windows_around(moment, num_frames), last_second(num_frames)
    spans = windows.spans
    assert 1 <= len(spans) <= 7
    assert all(span.seconds == pytest.approx(14 / 3, abs=1e-6) for span in spans)
    assert all(other.start == pytest.approx(one.end, abs=1e-6) for one, other in pairwise(spans))
    assert all(span.end >= -1e-6 and span.start <= last + 1e-6 for span in spans)
    start, end = (0.0, last) if moment is None else (float(np.clip(x, 0, last)) for x in moment)
    assert any(abs(span.middle - (start + end) / 2) <= 1 / 6 + 1e-6 for span in spans)  # to the nearest frame
    if last > 14 * 14 / 3:  # a clip with room for all of them
        assert len(spans) == 7
    assert all(1 <= frame_number(span, num_frames) <= num_frames for span in spans)
    first, whole = spans[0].start, spans[-1].end - spans[0].start
    assert [first + share * whole for share in windows.located] == pytest.approx([start, end], abs=1e-6)


def test_a_subtitle_belongs_to_the_window_of_its_middle() -> None:
    spans = [Span(0, 5), Span(5, 10)]
    cues = [Cue(0, 0, "before"), Cue(4, 6, "at the edge"), Cue(4, 6.5, "caf\u00e9 \u2014\nlater"), Cue(9, 12, "behind")]
    assert texts_of(spans, cues) == ["at the edge", "cafe -- later"]


def test_sequences_hold_the_question_then_sound_or_words() -> None:
    tokenizer = default_tokenizer()
    query = query_tokens("10 to 20", "Who?", tokenizer)
    sound, words = choice_sequences(query, ["he <|MASK|>", "she"], ["hello", "", "bye"], tokenizer, length=64)
    head = [*query, *tokenizer.encode("answer: "), *tokenizer.encode("she"), MASK]
    for rows in (sound[1], words[1]):
        assert rows[: len(head), 0].tolist() == head and not rows[: len(head), 1].any()
    behind = sound[1, len(head) :]
    assert len(behind) < 54 and (behind[:, 0] == AUDIOSPAN).all()
    assert behind[:36, 1].tolist() == [1] * 18 + [2] * 18
    said = [(token, 1) for token in tokenizer.encode("hello")] + [(token, 3) for token in tokenizer.encode("bye")]
    assert words[1, len(head) : len(head) + len(said)].tolist() == [list(row) for row in said]
    assert (sound[0, :, 0] == MASK).sum() == 1  # what others write is no blank
    short = choice_sequences([20] * 300, ["a"], ["hello"], tokenizer, length=16)
    assert (short[:, 0, -1, 0] == MASK).all() and (short[:, 0, :-1, 0] == 20).all()


def test_windows_that_are_missing_have_neither_picture_nor_sound(tmp_path: Path) -> None:
    write_tvqa(tmp_path, {"val": 3}, num_scenes=1, scene_seconds=3, size=32)
    folder = TvqaFolder(tmp_path)
    item = folder.items("val")[0]
    example = folder.read(item)
    found = as_tensors(item, example, grid=(2, 4))
    real = len(example.frames)
    assert real < 7 and found["images"][:real].any() and not found["images"][real:].any()
    assert found["audio_clips"][:real, ..., :64].any() and not found["audio_clips"][real:, ..., :64].any()
    assert (found["audio_clips"][..., 64] == 1).all()


def test_training_examples_differ_by_epoch_alone(tmp_path: Path) -> None:
    write_tvqa(tmp_path, {"train": 3}, num_scenes=1, scene_seconds=3, size=32)
    folder = TvqaFolder(tmp_path)
    train, measured = (TvqaExamples(folder, folder.items("train"), grid=(2, 4), training=t) for t in (True, False))
    one, again, other = train[0, 1], train[0, 1], train[1, 1]
    for name in ("images", "audio_clips"):
        assert torch.equal(one[name], again[name]) and not torch.equal(one[name], other[name])
        assert torch.equal(measured[0, 1][name], measured[1, 1][name])
    assert torch.equal(one["sequences"], measured[0, 1]["sequences"]) and one["label"] == measured[0, 1]["label"]


def test_shifted_sound_is_the_same_a_little_later_or_earlier() -> None:
    log_mels = torch.rand(2, 180, 64)
    flat, starts = log_mels.flatten(0, 1), set()
    for seed in range(40):
        found = shifted(log_mels, np.random.default_rng(seed)).flatten(0, 1)
        (offset,) = (
            k for k in range(-4, 5) if torch.equal(found[4 + max(k, 0) : 356 + min(k, 0)], flat[4 + max(k, 0) - k : 356 + min(k, 0) - k])
        )
        starts.add(offset)
        assert found.shape == flat.shape
    assert starts == {0, 1, 2, 3, 4}
