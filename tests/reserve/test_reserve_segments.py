"""Any video becomes segments: what lies where in time, what is masked, and what is said about it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from clips_with_sound import sine, write_clip
from shared_folders import MEDIA_ROOT
from watchword.errors import InputError
from watchword.media.errors import MediaError
from watchword.media.subtitles import Word
from watchword.reserve import spectrogram as sp
from watchword.reserve.inputs import mask_query, preprocess, sound_of
from watchword.reserve.segmentation import Span
from watchword.reserve.segments import VideoSegments
from watchword.reserve.sounds import SampleRange, clip_of, samples_from
from watchword.reserve.timing import TimingRegressor

BAND_880 = int(np.argmax(sp.mel_filters()[:, round(880 * sp.WINDOW / sp.RATE)].numpy()))


def test_no_sound_is_masked_and_said_once(tmp_path: Path) -> None:
    with VideoSegments(write_clip(tmp_path / "mute.mkv", seconds=8), subtitles=False) as video:
        segments = list(video)
        list(video)
        assert [note for note in video.notes if "no sound" in note] == ["no sound"]
    assert not any(segment.has_sound.any() for segment in segments)
    inputs = preprocess(segments, [mask_query("a <mask>"), sound_of(segments[1])], grid=(2, 3))
    assert not inputs.audio_clips.any() and not (inputs.tokens == 5).any()


def test_silence_is_sound_and_not_masked(tmp_path: Path) -> None:
    mute = list(VideoSegments(write_clip(tmp_path / "mute.mkv", seconds=10)))
    silent = list(VideoSegments(write_clip(tmp_path / "silent.mkv", seconds=10, sounds={0: np.zeros(220500, np.float32)})))
    assert all(segment.has_sound.all() for segment in silent)
    assert not silent[0].spectrogram[..., :64].any() and (silent[0].spectrogram[..., 64] == 1).all()
    contents = [mask_query("a <mask>"), None]
    masked, heard = (preprocess(segments, contents, grid=(2, 3)) for segments in (mute, silent))
    assert (heard.tokens == 5).sum() == 18 and (masked.tokens == 5).sum() == 0
    released = preprocess(mute, contents, grid=(2, 3), released=True)
    assert torch.equal(released.tokens, heard.tokens)


def test_late_and_short_sound_lies_where_it_belongs(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "late.mkv", seconds=15, sounds={2.5: sine(880, 3)})
    segments = list(VideoSegments(path))
    assert [segment.has_sound.tolist() for segment in segments] == [[False, True, True], [True, False, False], [False] * 3]
    for segment in segments:
        for j in range(3):
            hops = segment.span.start + (2 + 62 * j + np.arange(60)) * sp.HOP / sp.RATE
            loud = segment.spectrogram[j, :, BAND_880].numpy() > 1
            inside = (hops > 2.5) & (hops < 5.5)
            near_an_edge = (abs(hops - 2.5) < sp.WINDOW / sp.RATE) | (abs(hops - 5.5) < sp.WINDOW / sp.RATE)
            assert (loud == inside)[~near_an_edge].all()


def test_sound_longer_than_the_picture_and_a_picture_shorter_than_a_segment(tmp_path: Path) -> None:
    (segment,) = VideoSegments(write_clip(tmp_path / "long.mkv", seconds=3, sounds={0: sine(440, 12)}))
    assert segment.span == Span(0.0, 3.0)
    assert segment.has_sound.tolist() == [True, True, False]


def test_the_peak_of_the_whole_file_scales_every_segment(tmp_path: Path) -> None:
    wave = np.concatenate([sine(440, 5, 0.1), sine(300, 5, 0.8), sine(700, 4, 0.2)])
    segments = list(VideoSegments(write_clip(tmp_path / "loud.mkv", seconds=14, sounds={0: wave})))
    levels = sp.from_levels(np.round(wave * 32767).astype(np.int16))
    for segment in segments:
        expected = sp.subsegments(sp.log_mel(torch.from_numpy(clip_of(levels, samples_from(segment.span)))))
        assert float((segment.spectrogram - expected).abs().max()) < 1e-3


def test_a_long_video_comes_in_windows_and_in_little_memory(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "long.mkv", seconds=205, fps=1, sounds={0: sine(440, 100), 150.0: sine(440, 20, 0.1)})
    with VideoSegments(path) as video:
        windows = list(video.windows())
    assert [len(window) for window in windows] == [6, 7, 7, 7, 7, 7]
    segments = [segment for window in windows for segment in window]
    assert [segment.index for segment in segments] == list(range(41))
    assert [i for i, segment in enumerate(segments) if not segment.has_sound.any()] == [*range(20, 30), *range(34, 41)]
    assert [segment.frame_seconds for segment in segments[:3]] == [3, 8, 13]
    loud, quiet = (float(segments[i].spectrogram[..., :64].max()) for i in (3, 31))
    assert loud - quiet == pytest.approx(2 * np.log(5), abs=0.05)
    assert loud == pytest.approx(float(sp.log_mel(torch.from_numpy(sine(440, 5, 1.0))).max()), abs=0.05)
    assert [segment.index for segment in video.read([40, 3])] == [40, 3]
    with pytest.raises(InputError, match="it has 41"):
        video.read([41])


def test_parts_of_a_video(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", seconds=30, sounds={0: sine(440, 30)})
    with VideoSegments(path, start=7, end=18.5) as video:
        assert video.spans == [Span(7, 12), Span(12, 17), Span(17, 18.5)]
    with VideoSegments(path, limit=2) as video:
        assert len(list(video)) == 2
    with VideoSegments(path, sound=False) as video:
        assert not any(segment.has_sound.any() for segment in video) and not any("sound" in note for note in video.notes[1:])
    with pytest.raises(InputError, match="in order"):
        VideoSegments(path, start=40)


def test_what_the_released_demo_refuses_is_an_error_only_there(tmp_path: Path) -> None:
    short = write_clip(tmp_path / "short.mkv", seconds=4, sounds={0: sine(440, 4)})
    with pytest.raises(InputError, match="needs 6 s"):
        VideoSegments(short, released=True)
    with pytest.raises(InputError, match="no sound"):
        VideoSegments(write_clip(tmp_path / "mute.mkv", seconds=10), released=True)
    assert len(VideoSegments(short)) == 1


def test_words_go_to_the_segment_of_their_middle(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", seconds=10.6)
    path.with_suffix(".srt").write_text("1\n00:00:03,000 --> 00:00:09,000\none two three\n\n2\n00:00:10,200 --> 00:00:10,500\nlast\n")
    segments = list(VideoSegments(path))
    assert [segment.text for segment in segments] == ["one", "two three last"]  # the rest of 0.6 s has no segment of its own
    assert [segment.text for segment in VideoSegments(path, subtitles=False)] == ["", ""]
    assert VideoSegments(path, subtitles=path.with_suffix(".srt")).words == VideoSegments(path).words


class _LateBySome(TimingRegressor):
    def __init__(self) -> None:
        pass

    def correct(self, words: list[Word], tokenizer: object = None) -> list[Word]:  # type: ignore[override]
        return [Word(word.text, word.start + 1, word.end + 1) for word in words]


def test_timing_is_corrected_only_where_words_are_timed(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mkv", seconds=10)
    captions = tmp_path / "captions.vtt"
    body = "hello<00:00:04.000><c> there</c>"
    captions.write_text(f"WEBVTT\n\n00:00:03.000 --> 00:00:05.000 align:start position:0%\n \n{body}\n")
    assert [word.start for word in VideoSegments(path, subtitles=captions, timing=_LateBySome()).words] == [4.0, 5.0]
    captions.write_text("WEBVTT\n\n00:00:03.000 --> 00:00:05.000\nhello there\n")
    assert [word.start for word in VideoSegments(path, subtitles=captions, timing=_LateBySome()).words] == [3.0, 4.0]


def test_black_bars_are_cut_in_all_segments_alike(tmp_path: Path) -> None:
    segments = list(VideoSegments(write_clip(tmp_path / "bars.mkv", seconds=10, bars=6)))
    assert [segment.frame.shape for segment in segments] == [(36, 64, 3)] * 2
    assert segments[0].frame.min() > 60


def test_a_slide_show_gives_the_slide_on_show(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "slides.mkv", seconds=40, fps=5, steps=100)  # slides at 0 and 20 s
    with VideoSegments(path, end=30) as video:
        assert [segment.frame_seconds for segment in video] == [0.0, 0.0, 0.0, 20.0, 20.0, 20.0]


def test_a_clip_that_begins_before_the_sound_is_padded() -> None:
    wave = np.arange(1, 1001, dtype=np.float32)
    clip = clip_of(wave, SampleRange(-100, left=7))
    assert not clip[:107].any() and clip[107:1107].tolist() == wave.tolist() and not clip[1107:].any()
    later = clip_of(wave, SampleRange(400, 100), position=450)
    assert not later[:50].any() and later[50:100].tolist() == wave[:50].tolist() and not later[100:].any()


@pytest.mark.skipif(not MEDIA_ROOT.is_dir(), reason=f"{MEDIA_ROOT} is not there: set $WATCHWORD_MEDIA to the folder of media")
@pytest.mark.parametrize("folder", ["clips", "hard"])
def test_every_file_gives_segments_or_says_why_not(folder: str) -> None:
    for name, facts in json.loads((MEDIA_ROOT / folder / "expected.json").read_text(encoding="utf-8"))["files"].items():
        path = MEDIA_ROOT / folder / name
        if facts["outcome"] in ("error", "audio_only"):
            with pytest.raises(MediaError):
                list(VideoSegments(path, limit=2))
            continue
        with VideoSegments(path, limit=2) as video:
            segments = list(video)
        inputs = preprocess(segments, [mask_query("it is <mask>"), *(sound_of(s) for s in segments[1:])], grid=(12, 20))
        assert inputs.images.shape == (len(segments), 240, 768) and 0 <= float(inputs.images.min()) <= float(inputs.images.max()) <= 1
        assert torch.isfinite(inputs.audio_clips).all()
        assert any(segment.has_sound.any() for segment in segments) == (facts["audio"] is not None), name


def test_the_released_peak_counts_sound_after_the_picture(tmp_path: Path) -> None:
    wave = np.concatenate([sine(440, 8, 0.1), sine(440, 4, 0.8)])
    path = write_clip(tmp_path / "loud_end.mkv", seconds=8, sounds={0: wave})
    ours, released = (next(iter(VideoSegments(path, released=released))) for released in (False, True))
    assert float(ours.spectrogram[..., :64].max() - released.spectrogram[..., :64].max()) == pytest.approx(2 * np.log(8), abs=0.05)
