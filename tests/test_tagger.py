"""Tagging from Python: scores, labels, windows, many files, and what fails."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiny_clips import tiny_model, write_video
from watchword import Tagger, XClip
from watchword.errors import InputError, LabelError
from watchword.media import MediaError
from watchword.text import tokenize
from watchword.xclip import load_clip
from watchword.xclip.labels import clean_labels, encode_labels
from watchword.xclip.reading import Windows, read_ahead
from watchword.xclip.tagging import ClipResult

LABELS = ["making coffee", "going backpacking", "playing chess"]


@pytest.fixture(scope="module")
def model() -> XClip:
    return tiny_model()


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("clips")
    return [write_video(folder / f"{n}.mp4", num_frames=n) for n in (5, 20, 33, 60)]


def test_scores_are_those_of_the_model(model: XClip, clips: list[Path]) -> None:
    with torch.no_grad():
        logits = model(load_clip(clips[1], model.config)[None], tokenize(LABELS)).logits[0]
    tags = model.tag(clips[1], LABELS)
    assert {tag.label: tag.score for tag in tags} == pytest.approx(dict(zip(LABELS, logits.softmax(0).tolist(), strict=True)), abs=1e-5)
    assert [tag.score for tag in tags] == sorted((tag.score for tag in tags), reverse=True)
    cosines = dict(zip(LABELS, (logits / model.logit_scale.exp()).tolist(), strict=True))
    assert {tag.label: tag.similarity for tag in tags} == pytest.approx(cosines, abs=1e-5)


def test_many_clips_give_what_each_gives_alone(model: XClip, clips: list[Path]) -> None:
    together = Tagger(model, batch_size=3).tag([str(clip) for clip in clips], LABELS)
    for clip, tags in zip(clips, together, strict=True):
        alone = {tag.label: tag.score for tag in model.tag(clip, LABELS)}
        assert {tag.label: tag.score for tag in tags} == pytest.approx(alone, abs=1e-5)


def test_the_model_sees_one_clip_at_first_and_soon_a_full_batch(model: XClip, clips: list[Path]) -> None:
    sizes: list[int] = []
    hook = model.visual.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    try:
        Tagger(model, batch_size=4).tag([clips[0]] * 13, LABELS)
    finally:
        hook.remove()
    assert sizes == [1, 2, 4, 4, 2]


def test_one_label_gets_a_score_that_does_not_depend_on_company(model: XClip, clips: list[Path]) -> None:
    (alone,) = model.tag(clips[0], ["making coffee"])
    assert 0 < alone.score < 0.999
    in_company = next(tag for tag in model.tag(clips[0], LABELS) if tag.label == "making coffee")
    assert alone.score == alone.match == pytest.approx(in_company.match, abs=1e-5)


def test_match_is_measured_against_the_other_classes_of_the_weights(clips: list[Path]) -> None:
    model = tiny_model(class_names=tuple(LABELS))
    by_label = {tag.label: tag for tag in model.tag(clips[0], LABELS)}
    for tag in by_label.values():  # the same list, so the share against the others is the share among all
        assert tag.match == pytest.approx(tag.score, abs=1e-5)


def test_new_labels_on_the_next_call_and_weights_changed_in_place(clips: list[Path]) -> None:
    model = tiny_model()
    first, other, again = (model.tag(clips[0], labels) for labels in (LABELS, [f"label {n}" for n in range(7)], LABELS))
    assert (len(first), len(other)) == (3, 7)
    assert first == again
    weight = model.transformer.resblocks[0].mlp.c_fc.weight
    with torch.no_grad():
        weight[0, 0] += 5
    changed = model.tag(clips[0], LABELS)
    assert changed != first
    weight.data[0, 0] -= 9  # no version counter sees this
    assert model.tag(clips[0], LABELS) != changed


def test_training_mode_is_left_as_it_was(clips: list[Path]) -> None:
    model = tiny_model(drop_path=0.5).train()
    model.mit.eval()
    before = {name: module.training for name, module in model.named_modules()}
    assert model.tag(clips[0], LABELS) == model.tag(clips[0], LABELS)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert not any(weight.grad is not None for weight in model.parameters())


def test_labels_are_encoded_once_and_the_cache_dies_with_the_model(clips: list[Path]) -> None:
    model = tiny_model()
    calls: list[int] = []
    counted = calls.append
    model.token_embedding.register_forward_hook(lambda *_: counted(1))
    model.tag(clips[0], LABELS)
    num_calls = len(calls)
    model.tag(clips[:2], [*LABELS[1:], LABELS[0]])
    assert len(calls) == num_calls
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_many_labels_in_chunks_equal_one_by_one(model: XClip, clips: list[Path]) -> None:
    labels = [f"thing number {n} does {'something ' * (n % 5)}" for n in range(5000)]
    tags = model.tag(clips[0], labels, top=10)
    assert len(tags) == 10
    features = encode_labels(model, clean_labels(labels)[0])
    with torch.no_grad():
        single = model.encode_text(tokenize([labels[4321]]))[0]
    assert torch.allclose(features[4321], single, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "empty"),
        (["a", ""], "label 2 of 2"),
        (["a", " \t\n", "b"], "label 2 of 3"),
        (["word " * 300], "truncat"),
        ("making coffee", "list of strings"),
        (["a", 3], "label 2"),
    ],
)
def test_labels_that_cannot_be_used(model: XClip, clips: list[Path], labels: list[str], said: str) -> None:
    with pytest.raises(LabelError, match=said) as caught:
        model.tag(clips[0], labels)
    assert "\n" not in str(caught.value)


def test_labels_that_can(model: XClip, clips: list[Path]) -> None:
    with pytest.warns(UserWarning, match="merged"):
        tags = model.tag(clips[0], ["a dog", " A  dog ", "🐕 犬", "собака"])
    assert {tag.label for tag in tags} == {"a dog", "🐕 犬", "собака"}
    with pytest.warns(UserWarning, match="cut to the first"):
        long, short = model.tag(clips[0], ["word " * 300, "short"], truncate=True)
    assert long.score + short.score == pytest.approx(1)
    with pytest.raises(LabelError):  # having been cut once does not make it fit
        model.tag(clips[0], ["word " * 300, "short"])


def test_threshold_asks_score_and_match(model: XClip, clips: list[Path]) -> None:
    tags = model.tag(clips[0], LABELS)
    level = tags[0].match / 2 + min(tags[0].score, tags[0].match) / 2
    assert model.tag(clips[0], LABELS, threshold=1.0) == []
    for tag in model.tag(clips[0], LABELS, threshold=level):
        assert min(tag.score, tag.match) >= level
    with pytest.raises(InputError, match="threshold"):
        model.tag(clips[0], LABELS, threshold=2)


def test_windows_are_tagged_as_clips_of_their_own(model: XClip, clips: list[Path]) -> None:
    windows = model.tag(clips[3], LABELS, window_seconds=2.0, stride_seconds=0.5)  # 6 s
    assert [window.start_seconds for window in windows] == [0.5 * n for n in range(9)]
    assert windows[-1].end_seconds == pytest.approx(6.0)
    text = encode_labels(model, LABELS)
    for window in windows[::3]:
        clip = load_clip(clips[3], model.config, start=window.start_seconds, end=window.end_seconds)
        with torch.no_grad():
            expected = model.score(model.encode_video(clip[None]), text)[0].softmax(0)
        scores = {tag.label: tag.score for tag in window.tags}
        assert [scores[label] for label in LABELS] == pytest.approx(expected.tolist(), abs=1e-5)
    assert [len(rows) for rows in model.tag(clips[:2], LABELS, window_seconds=1)] == [1, 2]


def test_a_single_window_shows_its_own_frames(model: XClip, clips: list[Path]) -> None:
    (only,) = model.tag(clips[3], LABELS, window_seconds=1.0, stride_seconds=50)
    first = model.tag(clips[3], LABELS, window_seconds=1.0)[0]
    assert [tag.score for tag in only.tags] == pytest.approx([tag.score for tag in first.tags], abs=1e-6)
    assert only.tags != model.tag(clips[3], LABELS)


def test_a_short_last_window_counts_by_its_length() -> None:
    scores = np.array([[0.6, 0.4], [0.0, 1.0]], np.float32)
    result = ClipResult("a.mp4", ("long", "short"), np.array([[0.0, 10.0], [10.0, 10.01]]), scores, scores, scores)
    assert [tag.label for tag in result.tags()] == ["long", "short"]
    assert result.tags()[0].score == pytest.approx(0.6, abs=1e-3)
    one_frame = ClipResult("a.mp4", ("long", "short"), np.array([[3.0, 3.0]]), scores[:1], scores[:1], scores[:1])
    assert one_frame.tags()[0].score == pytest.approx(0.6)


@given(st.floats(-5, 50), st.floats(0.01, 300), st.floats(0.5, 60), st.floats(0.2, 60))
def test_windows_cover_the_video(start: float, length: float, window: float, stride: float) -> None:
    spans = Windows(window_seconds=window, stride_seconds=stride).spans(start, start + length)
    assert spans[0][0] == start
    assert all(begin < end <= start + length and end - begin <= window + 1e-6 for begin, end in spans)
    assert spans[-1][1] == pytest.approx(start + length) or stride > window
    assert all(end < start + length for _, end in spans[:-1])
    assert np.diff([begin for begin, _ in spans]) == pytest.approx(stride)


def test_a_file_that_fails_is_named_and_the_rest_is_done(model: XClip, clips: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(clips[1].read_bytes()[:300])
    os.mkfifo(tmp_path / "pipe.mp4")
    paths = [clips[0], broken, tmp_path / "missing.mp4", tmp_path / "pipe.mp4", clips[1]]
    results = list(Tagger(model).run(paths, LABELS))
    assert [result.path for result in results] == [str(path) for path in paths]
    assert [result.failure is None for result in results] == [True, False, False, False, True]
    assert [result.failure.reason for result in results[2:4] if result.failure] == ["missing_file", "not_a_file"]
    with pytest.raises(MediaError):
        model.tag(paths, LABELS)


def test_float16_on_a_cpu_falls_back_with_a_warning(model: XClip, clips: list[Path]) -> None:
    with pytest.warns(UserWarning, match="float32"):
        tagger = Tagger(model, precision="float16")
    assert tagger.tag(clips[0], LABELS) == model.tag(clips[0], LABELS)
    half = Tagger(model, precision="bfloat16").tag(clips[0], LABELS)
    exact = {tag.label: tag.score for tag in model.tag(clips[0], LABELS)}
    assert {tag.label: tag.score for tag in half} == pytest.approx(exact, abs=0.05)


def test_numbers_out_of_range(model: XClip, clips: list[Path]) -> None:
    for options in ({"window_seconds": 0}, {"window_seconds": 1, "stride_seconds": -1}, {"stride_seconds": 1}, {"top": 0}):
        with pytest.raises(InputError):
            model.tag(clips[0], LABELS, **options)
    with pytest.raises(InputError, match="precision"):
        Tagger(model, precision="int8")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="batch size"):
        Tagger(model, batch_size=0)


def test_what_is_no_path_is_refused(model: XClip, clips: list[Path]) -> None:
    frames = np.zeros((4, 32, 32, 3), np.uint8)
    for videos in (frames, torch.zeros(4, 3, 32, 32), [clips[0], 5], b"clip.mp4", 5, None):
        with pytest.raises(InputError, match="path"):
            model.tag(videos, LABELS)
    with pytest.raises(InputError, match="list of paths"):
        Tagger(model).run(str(clips[0]), LABELS)
    assert len(list(Tagger(model).run(iter(clips[:2]), LABELS))) == 2  # type: ignore[arg-type]


def test_tagging_in_a_forked_process_after_tagging_here(model: XClip, clips: list[Path]) -> None:
    before = model.tag(clips[:2], LABELS)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watchword")]
    assert model.tag(clips[:2], LABELS) == before


def test_read_ahead_keeps_order_and_bounds_and_stops() -> None:
    produced = [0] * 50

    def job(number: int) -> Iterator[int]:
        for item in count():
            produced[number] += 1
            yield item
            if item == number % 7:
                return

    items = list(read_ahead([lambda n=n: job(n) for n in range(50)], num_readers=3, max_jobs=5, max_items=2))
    assert items == [(n, item) for n in range(50) for item in range(n % 7 + 1)]

    produced = [0] * 50
    endless = read_ahead([lambda: iter(lambda: produced.__setitem__(0, produced[0] + 1), 1)] * 20, num_readers=2, max_jobs=3, max_items=4)
    for _ in range(10):
        next(endless)
    time.sleep(0.3)
    assert produced[0] <= 10 + 3 * (4 + 1)
    endless.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watchword")]


def test_read_ahead_passes_errors_on() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        list(read_ahead([broken], num_readers=1, max_jobs=1, max_items=1))


def test_open_files_do_not_pile_up(model: XClip, clips: list[Path]) -> None:
    tagger = Tagger(model)
    tagger.tag(clips, LABELS)
    before = len(os.listdir("/proc/self/fd"))
    tagger.tag(clips * 5, LABELS)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
