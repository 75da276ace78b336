from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from watchword.datasets.playground_films import caption_track, film_segments
from watchword.errors import InputError
from watchword.playground import film_words, folder_films, narrate, sample_film, write_film
from watchword.reserve.segmentation import Span
from watchword.reserve.segments import VideoSegments
from watchword.reserve.spectrogram import subsegments
from watchword.reserve.timing import SpokenTranscript, fit_timing


def test_nearly_all_segments_are_played_as_they_are_with_a_natural_number_of_words() -> None:
    found = [segment for film in folder_films(3, seed=2) for segment in film_segments(film, frame_size=16, seed=0)]
    assert np.mean([segment.speed == 1 for segment in found]) > 0.95
    assert 10 < np.mean([len(segment.words) for segment in found]) < 16
    for segment in found:
        assert segment.end_time - segment.start_time == pytest.approx(5 * segment.speed, abs=0.011)
        assert segment.frame.shape == (16, 16, 3) and segment.frame.dtype == np.uint8
        assert segment.spectrogram.shape == (64, 188) and segment.spectrogram.dtype == np.float32
        assert segment.spectrogram.min() >= 0 and np.isfinite(segment.spectrogram).all()
        middles = (np.array(segment.starts) + segment.ends) / 2
        assert len(middles) == len(segment.words)
        assert ((middles >= 0) & (middles < 5)).all()


def test_segments_cover_a_film_with_all_its_words_in_order() -> None:
    film = sample_film(1, num_scenes=24)
    found = film_segments(film, frame_size=16, seed=0)
    told = [word for segment in found for word in segment.words]
    assert told == [word.text for word in film_words(film)][: len(told)]
    assert found[0].start_time < 3 and found[-1].end_time > film.seconds - 7
    assert all(one.end_time == other.start_time for one, other in pairwise(found))


def test_a_seed_fixes_the_segments() -> None:
    film = sample_film(2, num_scenes=6)
    for one, other in zip(film_segments(film, frame_size=16, seed=1), film_segments(film, frame_size=16, seed=1), strict=True):
        np.testing.assert_array_equal(one.frame, other.frame)
        np.testing.assert_array_equal(one.spectrogram, other.spectrogram)
        assert (one.words, one.starts, one.start_time) == (other.words, other.starts, other.start_time)
    with pytest.raises(InputError, match="at least 16"):
        film_segments(film, frame_size=8, seed=1)


def test_a_quiet_stretch_is_played_faster() -> None:
    found = [segment for film in folder_films(8, seed=1) for segment in film_segments(film, frame_size=16, seed=0) if segment.speed > 1]
    assert found
    for segment in found:
        assert len(segment.words) < 16
        assert segment.end_time - segment.start_time == pytest.approx(5 * segment.speed)
        assert segment.spectrogram.shape == (64, 188)


def test_the_written_film_gives_the_same_segments(tmp_path: Path) -> None:
    film = sample_film(7, num_scenes=6)
    write_film(film, tmp_path / "film.mp4", size=64)
    rendered = film_segments(film, frame_size=64, seed=0)
    spans = [Span(segment.start_time, segment.end_time) for segment in rendered]
    assert len(spans) >= 4 and all(segment.speed == 1 for segment in rendered)
    with VideoSegments(tmp_path / "film.mp4", spans=spans) as video:
        for one, other in zip(rendered, video, strict=True):
            assert np.abs(one.frame.astype(int) - other.frame).mean() < 10
            assert list(one.words) == [word.text for word in other.words]
            starts = [word.start - one.start_time for word in other.words]
            assert list(one.starts) == pytest.approx(starts, abs=1e-6)
            heard, read = subsegments(torch.from_numpy(one.spectrogram.T)), other.spectrogram
            assert np.corrcoef(heard[..., :64].flatten(), read[..., :64].flatten())[0, 1] > 0.97
            assert float((heard - read).abs().mean()) < 0.1


def test_a_network_learns_to_correct_the_captions() -> None:
    transcripts, films = [], folder_films(4, seed=5)
    for film in films:
        spoken = tuple((word.start_seconds, word.end_seconds) for word in narrate(film).words)
        transcripts.append(SpokenTranscript(tuple(caption_track(film)), spoken))
    timing = fit_timing(transcripts[:3], steps=200)
    true = np.array(transcripts[3].spoken)[:, 0]
    early = true - [word.start for word in caption_track(films[3])]
    left = true - [word.start for word in caption_track(films[3], timing)]
    assert np.abs(left).mean() < 0.5 * np.abs(early).mean()
    moved = film_segments(films[3], frame_size=16, seed=0, timing=timing)
    assert np.mean(moved[1].starts) != np.mean(film_segments(films[3], frame_size=16, seed=0)[1].starts)
