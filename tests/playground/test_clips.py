from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import av
import numpy as np
import pytest

from spectra import spectrum
from watchword.errors import InputError
from watchword.media.subtitles import read_subtitles
from watchword.playground import (
    ACTIONS,
    HEARD_ACTIONS,
    PHRASES,
    folder_scenes,
    narration,
    parse_phrase,
    render_frames,
    render_sound,
    sample_scene,
    write_clip,
    write_folder,
)
from watchword.playground.motion import action_span, event_times
from watchword.playground.speech import narration_vtt


def test_a_clip_holds_the_frames_the_sound_and_the_words_of_its_scene(tmp_path: Path) -> None:
    scene = sample_scene(4, action="bounces", duration_seconds=2.5)
    truth = write_clip(scene, tmp_path / "clip.mp4", size=128)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mp4", "clip.vtt"]
    with av.open(str(tmp_path / "clip.mp4")) as container:
        video, audio = container.streams.video[0], container.streams.audio[0]
        assert (video.codec_context.name, video.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (audio.codec_context.name, audio.codec_context.layout.name) == ("aac", "mono")
        assert video.duration is not None and video.time_base is not None and container.duration is not None
        assert float(video.duration * video.time_base) == pytest.approx(2.5)
        assert container.duration / av.time_base == pytest.approx(2.5, abs=0.05)
        decoded = [(frame.time, frame.to_ndarray(format="rgb24")) for frame in container.decode(video)]
    assert [time for time, _ in decoded] == pytest.approx(scene.times.tolist())
    difference = np.stack([rgb for _, rgb in decoded]).astype(int) - render_frames(scene, scene.times, size=128)
    assert np.abs(difference).mean() < 6
    with av.open(str(tmp_path / "clip.mp4")) as container:
        heard = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(audio=0)])
    sound = render_sound(scene)
    assert np.corrcoef(heard[: len(sound)], sound)[0, 1] > 0.9
    assert truth["label"] == scene.phrase
    assert json.loads(json.dumps(truth))["scene"]["action"] == "bounces"


def test_the_subtitle_file_gives_back_every_word_and_when_it_begins(tmp_path: Path) -> None:
    for seed in range(20):
        words = narration(sample_scene(seed))
        (tmp_path / "clip.vtt").write_text(narration_vtt(words), encoding="utf-8")
        read = read_subtitles(tmp_path / "clip.vtt").words
        assert [word.text for word in read] == [word.text for word in words]
        starts = [word.start for word in read]
        assert starts == pytest.approx([word.start_seconds for word in words], abs=0.02)


def test_the_narration_says_the_phrase_within_the_clip() -> None:
    for seed in range(50):
        scene = sample_scene(seed, action=HEARD_ACTIONS[seed % 4] if seed % 2 else None)
        words = narration(scene)
        length = len(scene.phrase.split())
        shape, colour, action = parse_phrase(" ".join(word.text for word in words[-length:]))
        assert (shape, colour, action.name) == (scene.shape, scene.colour, scene.action)
        times = [time for word in words for time in (word.start_seconds, word.end_seconds)]
        assert times == sorted(times)
        assert times[0] > 0 and times[-1] < scene.duration_seconds


def test_sound_is_fixed_by_the_seed_and_fits_the_clip() -> None:
    for action in ACTIONS:
        scene = sample_scene(2, action=action)
        sound = render_sound(scene, rate=16000)
        assert sound.shape == (32000,)
        assert sound.dtype == np.float32
        assert 0.1 < np.abs(sound).max() <= 0.5
        np.testing.assert_array_equal(sound, render_sound(scene, rate=16000))


def test_every_two_actions_sound_different() -> None:
    sounds = {}
    for action in ACTIONS:
        clips = [spectrum(render_sound(sample_scene(seed, action=action))) for seed in range(4)]
        sounds[action.name] = np.stack(clips)
    centers = {name: vectors.mean(axis=0) for name, vectors in sounds.items()}
    right = 0
    for action in ACTIONS:
        for seed in range(10, 14):
            vector = spectrum(render_sound(sample_scene(seed, action=action)))
            right += max(centers, key=lambda name: float(centers[name] @ vector)) == action.name
    assert right >= 0.6 * 4 * len(ACTIONS)  # by chance: 1 in 20


def test_a_bounce_is_heard_when_it_is_seen() -> None:
    scene = sample_scene(7, action="bounces")
    sound = render_sound(scene, rate=22050)
    for seconds in event_times(scene)[:-1]:
        at = round(seconds * 22050)
        assert np.abs(sound[at : at + 1000]).max() > 3 * np.abs(sound[at - 400 : at]).max()
    begin, _ = action_span(scene)
    assert np.abs(sound[: round(begin * 22050)]).max(initial=0) < 0.02


def test_a_folder_is_balanced_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    def names() -> list[str]:
        return sorted(path.name for path in tmp_path.iterdir())

    write_folder(tmp_path, 3, seed=1, split="unseen", size=32, duration_seconds=1)
    first = {name: (tmp_path / name).read_bytes() for name in names()}
    (tmp_path / "00001.mp4").unlink()
    kept = (tmp_path / "00002.mp4").stat().st_mtime_ns
    truth = write_folder(tmp_path, 4, seed=1, split="unseen", size=32, duration_seconds=1)
    assert (tmp_path / "00002.mp4").stat().st_mtime_ns == kept
    assert (tmp_path / "00001.mp4").read_bytes() == first["00001.mp4"]
    with (tmp_path / "annotations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["path"], row["label"]) for row in rows] == [(known["path"], known["label"]) for known in truth]
    assert all(known["split"] == "unseen" and (tmp_path / known["path"]).exists() for known in truth)
    lines = (tmp_path / "truth.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == [row["label"] for row in rows]
    assert not [name for name in names() if "partial" in name]
    with pytest.raises(InputError, match="other settings"):
        write_folder(tmp_path, 4, seed=2, split="unseen", size=32, duration_seconds=1)


def test_a_folder_shows_every_combination_equally_often() -> None:
    scenes = folder_scenes(2 * len(PHRASES), seed=3)
    assert set(Counter(scene.phrase for scene in scenes).values()) == {2}
    assert len({scene.seed for scene in scenes}) == len(scenes)


def test_an_odd_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="even size"):
        write_clip(sample_scene(0), tmp_path / "clip.mp4", size=33)
