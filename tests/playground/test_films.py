from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectra import spectrum
from watchword.errors import InputError
from watchword.media.subtitles import parse_subtitles, read_subtitles
from watchword.playground import (
    ACTIONS,
    COLOURS,
    SHAPES,
    Film,
    Word,
    caption_words,
    film_captions,
    film_words,
    folder_films,
    held_out,
    narrate,
    render_film_frames,
    render_film_sound,
    render_frames,
    render_sound,
    sample_film,
    sample_scene,
    write_film,
    write_films,
)
from watchword.playground.chatter import vocabulary
from watchword.playground.motion import action_span
from watchword.playground.speech import END_OFFSETS, START_OFFSETS, narration_vtt

films = st.builds(
    sample_film,
    st.integers(0, 2**32),
    num_scenes=st.integers(1, 40),
    split=st.sampled_from([None, "train", "unseen"]),
    off_time=st.sampled_from([0.0, 1 / 6, 0.5, 1.0]),
)


def whole_words(film: Film) -> list[bool]:
    """Whether each phrase is said while its scene is on."""
    narration = narrate(film)
    told = [narration.phrase_seconds(number) for number in range(len(film.scenes))]
    return [begin <= start and end <= stop for (begin, stop), (start, end) in zip(pairwise(film.edges), told, strict=True)]


def test_a_seed_fixes_a_film_and_all_that_is_said() -> None:
    assert sample_film(5) == sample_film(5) != sample_film(6)
    assert film_words(sample_film(5)) == film_words(sample_film(5)) != film_words(sample_film(6))
    assert film_captions(sample_film(5)) == film_captions(sample_film(5))


def test_films_show_the_whole_world_or_their_split_of_it() -> None:
    for split in ("train", "unseen"):
        scenes = [scene for film in folder_films(12, seed=1, split=split) for scene in film.scenes]
        assert {scene.shape for scene in scenes} == set(SHAPES)
        assert {scene.colour for scene in scenes} == set(COLOURS)
        assert {scene.action for scene in scenes} == {action.name for action in ACTIONS}
        assert all(held_out(scene.shape, scene.colour, scene.action) == (split == "unseen") for scene in scenes)


def test_a_film_is_minutes_of_scenes_none_of_which_comes_twice() -> None:
    for film in folder_films(20):
        assert 24 <= len(film.scenes) <= 60
        assert len({scene.phrase for scene in film.scenes}) == len(film.scenes)
        assert all(4 <= scene.duration_seconds <= 6 for scene in film.scenes)
        assert film.seconds == pytest.approx(sum(scene.duration_seconds for scene in film.scenes))
        assert len(film.times) / film.fps == pytest.approx(film.seconds)


@given(films)
@settings(max_examples=60, deadline=None)
def test_one_word_follows_another_and_every_phrase_is_said_once(film: Film) -> None:
    narration = narrate(film)
    times = [time for word in narration.words for time in (word.start_seconds, word.end_seconds)]
    assert times == sorted(times)
    assert times[0] >= 0 and times[-1] <= film.seconds
    assert all(word.start_seconds < word.end_seconds for word in narration.words)
    rest = set(range(len(narration.words)))
    for scene, rows in zip(film.scenes, narration.phrases, strict=True):
        assert " ".join(narration.words[row].text for row in rows) == scene.phrase
        rest -= set(rows)
    assert {narration.words[row].text for row in rest} <= vocabulary()


def test_words_of_phrases_are_said_in_phrases_only() -> None:
    told = {word for film in folder_films(20) for scene in film.scenes for word in scene.phrase.split()}
    assert told & vocabulary() == {"a", "an"}


@given(st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_a_punctual_narrator_says_every_phrase_while_its_scene_is_on(seed: int) -> None:
    assert all(whole_words(sample_film(seed, off_time=0)))


def test_about_one_phrase_in_six_is_said_off_time_the_others_mostly_with_the_action() -> None:
    inside, with_action = [], []
    for film in folder_films(30):
        narration = narrate(film)
        for number, (scene, whole) in enumerate(zip(film.scenes, whole_words(film), strict=True)):
            inside.append(whole)
            begin, end = (film.edges[number] + seconds for seconds in action_span(scene))
            with_action.append(begin < np.mean(narration.phrase_seconds(number)) < end)
            off = narration.phrase_seconds(number) - film.edges[[number, number + 1]]
            assert off[0] > -1.3 and off[1] < 1.3
    assert 0.12 < 1 - np.mean(inside) < 0.2
    assert np.mean(with_action) > 0.75


def test_people_talk_at_a_natural_pace_and_some_scenes_have_only_their_phrase() -> None:
    films = folder_films(20)
    assert 11 < 5 * sum(len(film_words(film)) for film in films) / sum(film.seconds for film in films) < 15
    alone = 0
    for film in films:
        narration = narrate(film)
        middles = np.array([(word.start_seconds + word.end_seconds) / 2 for word in narration.words])
        on = film.scene_at(middles)
        alone += sum(np.flatnonzero(on == number).tolist() == list(rows) for number, rows in enumerate(narration.phrases))
    assert 20 < alone < 0.2 * sum(len(film.scenes) for film in films)


@given(films)
@settings(max_examples=30, deadline=None)
def test_captions_come_early_as_the_released_correction_expects(film: Film) -> None:
    words, captions = film_words(film), film_captions(film)
    assert [word.text for word in captions] == [word.text for word in words]
    starts = np.array([word.start_seconds - caption.start_seconds for word, caption in zip(words, captions, strict=True)])
    late = np.array([caption.start_seconds > 0.001 for caption in captions])
    assert starts.min() >= START_OFFSETS[0] - 0.002
    assert starts[late].max() <= START_OFFSETS[1] + 0.002
    for caption, after in pairwise(captions):
        assert caption.start_seconds < caption.end_seconds <= after.start_seconds
    long_pause = [row for row in range(len(words) - 1) if words[row + 1].start_seconds - words[row].end_seconds > 0.8]
    ends = [words[row].end_seconds - captions[row].end_seconds for row in long_pause]
    assert all(END_OFFSETS[0] - 0.002 <= end <= END_OFFSETS[1] + 0.002 for end in ends)


def test_most_captions_touch_and_are_a_tenth_of_a_second_early() -> None:
    films = folder_films(5)
    touching = [one.end_seconds == other.start_seconds for film in films for one, other in pairwise(film_captions(film))]
    assert np.mean(touching) > 0.7
    early = [w.start_seconds - c.start_seconds for film in films for w, c in zip(film_words(film), film_captions(film), strict=True)]
    assert 0.08 < np.median(early) < 0.14
    assert np.std(early) > 0.03


@given(films)
@settings(max_examples=30, deadline=None)
def test_the_subtitle_file_gives_back_the_captions(film: Film) -> None:
    captions = film_captions(film)
    read = parse_subtitles(narration_vtt(captions))
    assert read.word_timed
    assert [(word.text, round(word.start, 3), round(word.end, 3)) for word in read.words] == [
        (caption.text, caption.start_seconds, caption.end_seconds) for caption in captions
    ]


def test_captions_of_no_words_and_of_one() -> None:
    rng = np.random.default_rng(0)
    assert caption_words([], rng) == []
    [caption] = caption_words([Word("hello", 0.01, 0.3)], rng)
    assert caption.start_seconds == 0


def test_a_film_looks_and_sounds_like_its_scenes() -> None:
    film = sample_film(3, num_scenes=4)
    sound = render_film_sound(film)
    assert sound.shape == (round(film.seconds * 22050),)
    for number, scene in enumerate(film.scenes):
        start = film.edges[number]
        own = render_film_frames(film, [start, start + 1.5, start + scene.times[-1]], size=32)
        np.testing.assert_array_equal(own, render_frames(scene, [0, 1.5, scene.times[-1]], size=32))
        heard = sound[round(start * 22050) :][: round(scene.duration_seconds * 22050) - 1]
        np.testing.assert_array_equal(heard, render_sound(scene)[: len(heard)])
    mixed = [film.edges[2] + 1, 0.5, film.edges[1] + 2, 1.0]
    alone = [render_film_frames(film, [time], size=32)[0] for time in mixed]
    np.testing.assert_array_equal(render_film_frames(film, mixed, size=32), alone)
    assert render_film_frames(film, [], size=32).shape == (0, 32, 32, 3)


def test_the_sound_of_a_film_tells_what_happens_in_it() -> None:
    centres = {}
    for action in ACTIONS:
        clips = [spectrum(render_sound(sample_scene(seed, action=action, duration_seconds=5))) for seed in range(4)]
        centres[action.name] = np.mean(clips, axis=0)
    right = total = 0
    for film in (sample_film(8, num_scenes=40), sample_film(9, num_scenes=40)):
        sound = render_film_sound(film)
        for scene, (start, end) in zip(film.scenes, pairwise(film.edges), strict=True):
            heard = spectrum(sound[round(start * 22050) : round(end * 22050)])
            right += max(centres, key=lambda name: float(centres[name] @ heard)) == scene.action
            total += 1
    assert right >= 0.6 * total  # by chance: 1 in 20


def test_a_film_file_holds_the_frames_the_sound_and_the_captions(tmp_path: Path) -> None:
    film = sample_film(4, num_scenes=3)
    truth = write_film(film, tmp_path / "film.mp4", size=64)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["film.mp4", "film.vtt"]
    with av.open(str(tmp_path / "film.mp4")) as container:
        decoded = [(frame.time, frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    assert [time for time, _ in decoded] == pytest.approx(film.times.tolist())
    difference = np.stack([rgb for _, rgb in decoded]).astype(int) - render_film_frames(film, film.times, size=64)
    assert np.abs(difference).mean(axis=(1, 2, 3)).max() < 10
    with av.open(str(tmp_path / "film.mp4")) as container:
        heard = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
    sound = render_film_sound(film)
    assert np.corrcoef(heard[: len(sound)], sound)[0, 1] > 0.9
    captions = read_subtitles(tmp_path / "film.mp4").words
    assert [word.text for word in captions] == [word["text"] for word in truth["captions"]]
    assert [scene["label"] for scene in json.loads(json.dumps(truth))["scenes"]] == [scene.phrase for scene in film.scenes]
    assert truth["scenes"][-1]["end_seconds"] == film.seconds == truth["duration_seconds"]


def test_a_folder_of_films_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def write(num_films: int, seed: int = 1) -> list[str]:
        truth = write_films(tmp_path, num_films, seed=seed, split="unseen", num_scenes=2, size=16)
        return [json.dumps(known) for known in truth]

    write(2)
    first = (tmp_path / "00000.mp4").read_bytes()
    (tmp_path / "00000.mp4").unlink()
    kept = (tmp_path / "00001.mp4").stat().st_mtime_ns
    truth = write(3)
    assert (tmp_path / "00000.mp4").read_bytes() == first
    assert (tmp_path / "00001.mp4").stat().st_mtime_ns == kept
    assert (tmp_path / "truth.jsonl").read_text(encoding="utf-8").splitlines() == truth
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [*(f"{index:05}.{ending}" for index in range(3) for ending in ("mp4", "vtt")), "truth.jsonl"]
    with pytest.raises(InputError, match="other settings"):
        write(3, seed=2)


def test_processes_side_by_side_write_the_same_films(tmp_path: Path) -> None:
    settings: dict[str, Any] = dict(seed=3, num_scenes=2, size=16)
    truth = write_films(tmp_path / "alone", 3, **settings)
    assert write_films(tmp_path / "together", 3, **settings, num_processes=2) == truth
    alone, together = (sorted((tmp_path / name).iterdir()) for name in ("alone", "together"))
    assert [path.name for path in alone] == [path.name for path in together] and len(alone) == 7
    for one, other in zip(alone, together, strict=True):
        if one.suffix != ".mp4":
            assert one.read_bytes() == other.read_bytes()
            continue
        frames = [np.stack([frame.to_ndarray(format="rgb24") for frame in av.open(str(path)).decode(video=0)]) for path in (one, other)]
        assert frames[0].shape == frames[1].shape  # the encoders' bytes may differ from process to process
        assert np.abs(frames[0].astype(int) - frames[1]).mean() < 2


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        sample_film(0, num_scenes=0)
    with pytest.raises(InputError, match="share"):
        sample_film(0, off_time=1.5)
    with pytest.raises(InputError, match="even size"):
        write_films(tmp_path / "films", 1, size=33)
    assert not (tmp_path / "films").exists()
