"""A whole video as vectors: which segment each is of, and that they are what the encoders give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from clips_with_sound import sine, write_clip
from tiny_reserve import tiny_reserve
from watchword.media import MediaError
from watchword.media.subtitles import parse_subtitles
from watchword.reserve.images import fit, patches
from watchword.reserve.segments import VideoSegments


def test_vectors_of_each_segment(tmp_path: Path) -> None:
    model = tiny_reserve()
    path = write_clip(tmp_path / "late.mkv", seconds=48, fps=1, sounds={5.0: sine(440, 5), 20.0: sine(900, 20)})
    vectors = model.embed_video(path)
    assert vectors.spans[:, 0].tolist() == [5.0 * n for n in range(10)] and vectors.spans[-1].tolist() == [45, 48]
    assert vectors.frames.shape == vectors.blanks.shape == (10, 64) and vectors.sounds.shape == (10, 3, 64)
    with VideoSegments(path, subtitles=False) as video:
        segments = list(video)
    with torch.no_grad():
        frames = model.embed_frames(torch.stack([patches(fit(segment.frame, model.config.grid).pixels) for segment in segments]))
        sounds = model.embed_sounds(torch.cat([segment.spectrogram for segment in segments]))
    assert torch.allclose(vectors.frames, frames, atol=1e-5)
    heard = torch.from_numpy(vectors.has_sound)
    assert heard.any(dim=1).tolist() == [False, True, False, False, True, True, True, True, False, False]
    assert torch.allclose(vectors.sounds[heard], sounds.unflatten(0, (10, 3))[heard], atol=1e-5)
    assert not vectors.sounds[~heard].any()
    assert torch.allclose(vectors.blanks.norm(dim=1), torch.ones(10), atol=1e-3)
    assert vectors.notes[0] == "no subtitles"


def test_a_blank_stands_on_its_own_segment_whatever_is_said_there(tmp_path: Path) -> None:
    model = tiny_reserve()
    path = write_clip(tmp_path / "mute.mkv", seconds=10)
    words = parse_subtitles(f"WEBVTT\n\n00:01.000 --> 00:04.900\n{'chatter ' * 800}\n\n00:06.000 --> 00:08.000\nsilence\n")
    plain, told = model.embed_video(path, use="frames"), model.embed_video(path, use="subtitles", subtitles=words)
    assert not torch.allclose(plain.blanks[0], plain.blanks[1], atol=1e-5)
    assert not torch.allclose(plain.blanks, told.blanks, atol=1e-3)
    assert np.array_equal(plain.spans, told.spans) and torch.equal(plain.frames, told.frames)


def test_a_video_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MediaError):
        tiny_reserve().embed_video(tmp_path / "missing.mkv")
