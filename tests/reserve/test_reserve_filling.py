"""Filling in blanks: what the answers rest on, what they do not depend on, and what is refused."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clips_with_sound import sine, write_clip
from shared_folders import MEDIA_ROOT
from tiny_reserve import tiny_reserve
from watchword.errors import InputError
from watchword.media import MediaError
from watchword.media.subtitles import parse_subtitles
from watchword.reserve import Reserve
from watchword.reserve.answers import FillResult, Question
from watchword.reserve.filling import Filler
from watchword.reserve.inputs import mask_query, preprocess, sound_of
from watchword.reserve.options import encode_options, read_options
from watchword.reserve.questions import prepare
from watchword.reserve.segments import VideoSegments
from watchword.text.reserve import MASK, default_tokenizer

OPTIONS = ["making coffee", "playing chess", "walking the dog", "shouting"]
QUESTION = "in this video i'll be <mask>"
WORDS = parse_subtitles("WEBVTT\n\n00:01.000 --> 00:04.000\nand now we grind\n\n00:06.000 --> 00:09.000\nthe beans very finely\n")


@pytest.fixture(scope="module")
def model() -> Reserve:
    return tiny_reserve()


@pytest.fixture(scope="module")
def filler(model: Reserve) -> Filler:
    return Filler(model)


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("loud") / "loud.mkv", seconds=15, sounds={0: sine(440, 6), 8.0: sine(900, 7)})


@pytest.fixture(scope="module")
def mute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("mute") / "mute.mkv", seconds=15)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("long") / "long.mkv", seconds=92, fps=1, sounds={0: sine(440, 30), 50.0: sine(900, 20)})


def numbers(result: FillResult, blank: int = 0) -> dict[str, tuple[float, float]]:
    return {answer.option: (answer.probability, answer.cosine) for answer in result.blanks()[blank]}


def assert_alike(one: FillResult, other: FillResult) -> None:
    assert one.options == other.options
    for ours, theirs in zip((*one.probabilities, *one.cosines), (*other.probabilities, *other.cosines), strict=True):
        assert ours.shape == theirs.shape and np.allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("learned_positions", [0, 200])
def test_answers_are_those_of_the_released_demo_computed_by_hand(loud: Path, learned_positions: int) -> None:
    """The question in place of the first segment's sound, the sound of the others, softmax of 100 x cosine (spec section 15)."""
    model = tiny_reserve(learned_positions=learned_positions)
    result = model.fill(loud, QUESTION, OPTIONS, use="sound", in_place=True)
    with VideoSegments(loud, subtitles=False) as video:
        segments = list(video)
    inputs = preprocess(segments, [mask_query(QUESTION), *map(sound_of, segments[1:])], grid=model.config.grid)
    with torch.no_grad():
        out = model(inputs.images[None], inputs.tokens[None], inputs.subsegments[None], inputs.audio_clips[None])
        spans = model.embed_spans(torch.from_numpy(default_tokenizer().spans(OPTIONS)))
    cosines = out.vectors[0, inputs.tokens == MASK] @ spans.T
    assert np.allclose(result.cosines[0], cosines, atol=1e-5)
    assert np.allclose(result.probabilities[0], (100 * cosines).softmax(dim=-1), atol=1e-4)
    (ranked,) = result.blanks()
    assert [answer.probability for answer in ranked] == sorted((answer.probability for answer in ranked), reverse=True)
    assert sum(answer.probability for answer in ranked) == pytest.approx(1, abs=1e-5)
    assert result.options == (tuple(OPTIONS),) and result.spans.tolist() == [[0, 15]] and result.places.tolist() == [[0, 5]]


def test_the_question_stands_beside_the_sound_of_its_segment_unless_asked_otherwise(filler: Filler, loud: Path) -> None:
    beside, in_place = (filler.fill(loud, QUESTION, OPTIONS, use="sound", in_place=in_place) for in_place in (False, True))
    assert not np.allclose(beside.cosines[0], in_place.cosines[0], atol=1e-4)
    short = [filler.fill(VideoSegments(loud, limit=1, subtitles=False), QUESTION, OPTIONS, use=use) for use in ("sound", "frames")]
    assert not np.allclose(short[0].cosines[0], short[1].cosines[0], atol=1e-4)  # the only segment is heard


def test_words_and_sound_are_seen_apart_and_averaged(filler: Filler, loud: Path) -> None:
    each = {use: filler.fill(loud, QUESTION, OPTIONS, use=use, subtitles=WORDS) for use in ("frames", "subtitles", "sound", "both", "auto")}
    assert {use: result.used for use, result in each.items()} == {
        "frames": ("frames",),
        "subtitles": ("frames", "subtitles"),
        "sound": ("frames", "sound"),
        "both": ("frames", "subtitles", "sound"),
        "auto": ("frames", "subtitles", "sound"),
    }
    mean = (each["subtitles"].probabilities[0] + each["sound"].probabilities[0]) / 2
    assert np.allclose(each["both"].probabilities[0], mean, atol=1e-5)
    assert_alike(each["both"], each["auto"])
    for one, other in (("frames", "sound"), ("frames", "subtitles"), ("subtitles", "sound")):
        assert not np.allclose(each[one].cosines[0], each[other].cosines[0], atol=1e-4)
    assert [word.text for word in each["both"].words][:3] == ["and", "now", "we"] and each["sound"].words == ()


def test_what_a_file_lacks_is_said_once_and_answered_from_the_rest(filler: Filler, mute: Path) -> None:
    auto = filler.fill(mute, QUESTION, OPTIONS)
    assert auto.notes == ("no subtitles", "no sound", "answered from frames")
    frames, sound = (filler.fill(mute, QUESTION, OPTIONS, use=use) for use in ("frames", "sound"))
    assert frames.notes == ("answered from frames",)
    assert_alike(auto, frames)
    assert_alike(sound, frames)
    both, subtitles = (filler.fill(mute, QUESTION, OPTIONS, use=use, subtitles=WORDS) for use in ("both", "subtitles"))
    assert_alike(both, subtitles)
    assert both.used == ("frames", "subtitles")


def test_only_what_is_asked_for_is_computed(loud: Path, mute: Path) -> None:
    model = tiny_reserve()
    calls: dict[str, list[int]] = {"vision_encoder": [], "audio_encoder": [], "span_encoder": []}
    for name, sizes in calls.items():
        getattr(model, name).register_forward_hook(lambda _, inputs, __, sizes=sizes: sizes.append(len(inputs[0])))
    filler = Filler(model)

    def ran(video: Path | VideoSegments, **changes: Any) -> dict[str, int]:
        for sizes in calls.values():
            sizes.clear()
        filler.fill(video, QUESTION, OPTIONS, **changes)
        return {name: sum(sizes) for name, sizes in calls.items() if sizes}

    assert ran(mute) == {"vision_encoder": 3, "span_encoder": 4}
    assert ran(mute) == {"vision_encoder": 3}
    assert ran(loud, use="frames") == ran(loud, use="subtitles") == {"vision_encoder": 3}
    assert ran(loud) == {"vision_encoder": 3, "audio_encoder": 9}
    assert ran(loud, no_vision=True) == {"audio_encoder": 9}
    assert ran(VideoSegments(loud, subtitles=False), use="frames") == {"vision_encoder": 3}
    questions = [Question(text=f"{text} <mask>", options=OPTIONS) for text in "abc"]
    filler.fill_all(loud, questions)
    assert sum(calls["vision_encoder"]) == 3 + 3 and sum(calls["audio_encoder"]) == 9


def test_without_vision_the_frames_tokens_are_zeros_that_stay(model: Reserve, loud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(VideoSegments, "_frames")  # nothing is decoded
    blind = model.fill(loud, QUESTION, OPTIONS, use="frames", no_vision=True)
    assert blind.notes == ("answered from the question alone",)
    tokens = torch.tensor([prepare(Question(text=QUESTION, options=OPTIONS)).ids])
    frames = torch.zeros(1, 3, 2, model.config.width)
    with torch.no_grad():
        vectors = model.embed_encoded(frames, tokens, torch.zeros_like(tokens)).vectors[0, tokens[0] == MASK]
        cosines = vectors @ encode_options(model, read_options(OPTIONS).ids).T
    assert np.allclose(blind.cosines[0], cosines, atol=1e-5)


def test_several_blanks_each_with_options_of_its_own_in_their_order(filler: Filler, loud: Path) -> None:
    question = "first a <mask> one, then <mask> and at last<mask>."
    result = filler.fill(loud, question, [OPTIONS, ["yes", "no"], OPTIONS[::-1]])
    assert [len(blank) for blank in result.blanks()] == [4, 2, 4] and result.num_blanks == 3
    assert numbers(result) != numbers(result, 2)
    same = filler.fill(loud, question, OPTIONS)
    assert np.allclose(same.cosines[2], result.cosines[2][:, ::-1], atol=1e-5) and np.allclose(
        same.cosines[0], result.cosines[0], atol=1e-5
    )
    with pytest.raises(InputError, match="2 lists of options for 3 blanks"):
        filler.fill(loud, question, [OPTIONS, OPTIONS])
    assert [[answer.option for answer in blank] for blank in result.blanks(top=1)] == [[blank[0].option] for blank in result.blanks()]
    assert result.blanks(threshold=1.0) == [[], [], []] or max(blank[0].probability for blank in result.blanks()) == 1


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(5)), extra=st.lists(st.sampled_from(["a bird", "two birds", "nothing", "snow"]), unique=True))
def test_the_order_and_the_company_of_options_change_nothing_but_shares(
    filler: Filler, loud: Path, order: list[int], extra: list[str]
) -> None:
    options = [*OPTIONS, "a very long walk through the park with seven dogs"]
    plain = numbers(filler.fill(loud, QUESTION, options, use="frames"))
    shuffled = numbers(filler.fill(loud, QUESTION, [options[n] for n in order], use="frames"))
    assert {name: pytest.approx(pair, abs=1e-5) for name, pair in plain.items()} == shuffled
    more = numbers(filler.fill(loud, QUESTION, [*extra, *options], use="frames"))
    total = sum(more[name][0] for name in options)
    for name in options:
        assert more[name][1] == pytest.approx(plain[name][1], abs=1e-5)
        assert more[name][0] / total == pytest.approx(plain[name][0], abs=1e-4)


def test_questions_together_equal_one_by_one(filler: Filler, loud: Path, long: Path) -> None:
    questions = [
        Question(text="he is <mask>", options=OPTIONS),
        Question(text="a much longer statement about what the two of them are <mask> all day", options=["eating", "singing"], at=7.0),
        Question(text="<mask> and <mask>", options=OPTIONS, segment=2),
    ]
    for video in (loud, long):
        for question, together in zip(questions, filler.fill_all(video, questions, subtitles=WORDS), strict=True):
            (alone,) = filler.fill_all(video, [question], subtitles=WORDS)
            assert_alike(together, alone)
            assert together.spans.tolist() == alone.spans.tolist() and together.question == question.text


def test_a_long_video_is_answered_in_windows_and_by_their_mean(filler: Filler, long: Path) -> None:
    result = filler.fill(long, QUESTION, OPTIONS)
    assert result.spans.tolist() == [[0, 30], [30, 60], [60, 92]] and result.places[:, 0].tolist() == [0, 30, 60]
    windows = result.windows()
    mean = {name: 0.0 for name in OPTIONS}
    for window in windows:
        for answer in window.blanks[0]:
            mean[answer.option] += answer.probability * (window.end_seconds - window.start_seconds) / 92
    assert {name: pair[0] for name, pair in numbers(result).items()} == pytest.approx(mean, abs=1e-5)
    spans = VideoSegments(long).spans[:6]
    first = filler.fill(VideoSegments(long, spans=spans), QUESTION, OPTIONS)
    assert np.allclose(first.cosines[0][0], result.cosines[0][0], atol=1e-5)


def test_a_question_at_a_moment_is_answered_by_the_window_around_it(filler: Filler, long: Path, loud: Path) -> None:
    at = filler.fill(long, QUESTION, OPTIONS, at=47.0)
    assert at.spans.tolist() == [[30, 60]] and at.places.tolist() == [[45, 50]]
    assert_alike(at, filler.fill(long, QUESTION, OPTIONS, segment=9))
    assert not np.allclose(at.cosines[0], filler.fill(long, QUESTION, OPTIONS, segment=6).cosines[0], atol=1e-4)
    assert filler.fill(loud, QUESTION, OPTIONS, at=15).places.tolist() == [[10, 15]]  # the very end
    for changes, words in (({"at": 99.5}, "long.*at 99.5 s, but the video runs from 0 s to 92 s"), ({"segment": 40}, "there are 19")):
        with pytest.raises(InputError, match=words):
            filler.fill(long, QUESTION, OPTIONS, **changes)
    good, bad = filler.run([(loud, [Question(text=QUESTION, options=OPTIONS), Question(text=QUESTION, options=OPTIONS, at=70)])])
    assert good.failure is None and bad.failure is not None and bad.failure.stage == "ask"


def test_many_files_in_order_and_one_that_cannot_be_read(filler: Filler, loud: Path, mute: Path, tmp_path: Path) -> None:
    questions = [Question(text=QUESTION, options=OPTIONS), Question(text="it is <mask>", options=OPTIONS)]
    told: list[tuple[int, float]] = []
    videos = [loud, tmp_path / "missing.mkv", mute]
    results = list(filler.run([(video, questions) for video in videos], on_progress=lambda number, share: told.append((number, share))))
    assert [result.path for result in results] == [str(video) for video in videos for _ in questions]
    assert [result.question for result in results[:2]] == [question.text for question in questions]
    assert [result.failure is None for result in results] == [True, True, False, False, True, True]
    assert results[2].failure is not None and results[2].failure.reason == "missing_file"
    assert told == [(0, 1.0), (2, 1.0)]
    for one, other in ((results[0], results[4]), (results[1], results[5])):
        assert one.spans.shape == other.spans.shape == (1, 2) and not np.allclose(one.cosines[0], other.cosines[0], atol=1e-4)
    with pytest.raises(MediaError):
        filler.fill(videos[1], QUESTION, OPTIONS)
    assert list(filler.run([])) == []


def test_a_question_that_is_long_and_words_that_do_not_fit(filler: Filler, loud: Path) -> None:
    cue = "00:00.500 --> 00:14.500\n" + " ".join(["chatter"] * 300)
    result = filler.fill(loud, QUESTION, OPTIONS, use="subtitles", subtitles=parse_subtitles(f"WEBVTT\n\n{cue}\n"))
    assert any("did not fit" in note for note in result.warnings)
    with pytest.raises(InputError, match="from the first blank to the last"):
        filler.fill(loud, "<mask>" + " word" * 200 + " <mask>", OPTIONS)


@pytest.mark.parametrize(
    ("question", "options", "words"),
    [
        ("no blank here", OPTIONS, "no blank"),
        (QUESTION, [], "empty"),
        (QUESTION, "walking, running", "one string"),
        (QUESTION, ["walking", " "], "option 2 of 2 is empty"),
        (QUESTION, ["walking", 3], "option 2 is int"),
        (QUESTION, ["walking", ["running"]], "option 2 is list"),
        (QUESTION, ["walking", "Walking"], "at least two"),
        (QUESTION, ["walking", "\x7f\x7f"], "no character"),
    ],
)
def test_questions_and_options_that_cannot_be_used(filler: Filler, loud: Path, question: str, options: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        filler.fill(loud, question, options)


def test_options_given_twice_cut_or_read_alike_are_said(filler: Filler, loud: Path) -> None:
    tail = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    options = ["walking", "Walking ", f"{tail} sixteen", f"{tail} seventeen", "café", "cafe"]
    with pytest.warns(UserWarning) as caught:
        result = filler.fill(loud, QUESTION, options, use="frames")
    merged, cut, alike = (str(warning.message) for warning in caught)
    assert "option 2 ('Walking') is option 1" in merged
    assert "'one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen' (16 tokens)" in cut
    assert f"'{tail} seventeen' as '{tail} sixteen', 'cafe' as 'café'" in alike
    found = numbers(result)
    assert len(found) == 5 and found["café"] == pytest.approx(found["cafe"], rel=1e-6)  # rows of one product are not equal to the bit


def test_what_reads_like_a_special_token_is_ordinary_text(filler: Filler, loud: Path) -> None:
    prepared = prepare(Question(text="<|AUDIOSPAN|> and <|PAD|> <|MASK|> <|END|>", options=["<|MASK|>", "<|PAD|> b"]))
    assert [token for token in prepared.ids if token < 10] == [MASK]
    assert prepared.options[0].ids.max(axis=1).min() > 10 and (prepared.options[0].ids[:, 0] > 10).all()
    assert filler.fill(loud, prepared.question.text, prepared.question.options).num_blanks == 1


def test_ten_thousand_options_in_chunks_equal_one_by_one(model: Reserve) -> None:
    options = [f"thing {n} {'and so on ' * (-n % 4)}" for n in range(10_000)]
    read = read_options(options)
    vectors = encode_options(model, read.ids)
    assert vectors.shape == (10_000, 64)
    for place in (0, 1, 2, 3, 7777):
        with torch.no_grad():
            alone = model.embed_spans(torch.from_numpy(read.ids[place : place + 1]))[0]
        assert torch.allclose(vectors[place], alone, atol=1e-5)
    assert len(Filler(model)._vectors(prepare(Question(text=QUESTION, options=options)))[0]) == 10_000


def test_options_are_encoded_once_for_the_weights_as_they_are_and_go_with_the_model(loud: Path) -> None:
    model = tiny_reserve()
    calls: list[int] = []
    assert model.span_encoder is not None
    model.span_encoder.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    model.fill(loud, QUESTION, OPTIONS, use="frames")
    model.fill(loud, "it is <mask>", [*OPTIONS[::-1], "a fifth"], use="frames")
    assert calls == [4, 1]
    before = model.fill(loud, QUESTION, OPTIONS, use="frames").cosines[0]
    model.span_encoder.transformer.cls.data[0] += 5.0
    assert not np.allclose(before, model.fill(loud, QUESTION, OPTIONS, use="frames").cosines[0], atol=1e-3)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_modes_and_gradients_are_left_as_they_were(loud: Path) -> None:
    model = tiny_reserve().train()
    model.audio_encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    model.fill(loud, QUESTION, OPTIONS)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert not any(weight.grad is not None for weight in model.parameters())


def test_bfloat16_ranks_nearly_alike_and_float16_on_a_processor_is_refused_gently(model: Reserve, loud: Path) -> None:
    exact, rough = (Filler(model, precision=precision).fill(loud, QUESTION, OPTIONS) for precision in ("float32", "bfloat16"))
    assert np.abs(exact.cosines[0] - rough.cosines[0]).max() < 0.03
    assert rough.cosines[0].dtype == np.float32
    with pytest.warns(UserWarning, match="float16 is not for CPUs"):
        assert Filler(model, precision="float16").precision == "float32"


def test_weights_that_lack_a_part_say_which(loud: Path) -> None:
    with pytest.raises(InputError, match="no span_encoder"):
        tiny_reserve(parts=("audio_encoder", "head")).fill(loud, QUESTION, OPTIONS)
    deaf = tiny_reserve(parts=("span_encoder", "head"))
    assert deaf.fill(loud, QUESTION, OPTIONS).used == ("frames",)
    with pytest.raises(InputError, match="no audio_encoder"):
        deaf.fill(loud, QUESTION, OPTIONS, use="sound")
    with pytest.raises(InputError, match="use is 'ears'"):
        deaf.fill(loud, QUESTION, OPTIONS, use="ears")


def test_every_real_clip_is_answered(filler: Filler) -> None:
    clips = sorted(path for path in (MEDIA_ROOT / "clips").glob("*.*") if path.suffix not in (".json", ".csv"))
    if not clips:
        pytest.skip(f"no clips in {MEDIA_ROOT}: set $WATCHWORD_MEDIA to the folder of fixtures")
    results = list(filler.run([(path, [Question(text=QUESTION, options=OPTIONS)]) for path in clips]))
    assert [result.failure for result in results] == [None] * len(clips)
    used = {Path(result.path).name: result.used for result in results}
    assert used["cockatoo.mp4"] == ("frames", "sound") and used["arm_wrestling.mp4"] == ("frames",)
