"""MERLOT Reserve's reading of a whole video, and its joint sequences, against numbers of the authors' code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reserve_data_files import FOLDER, each, objects_with, read_arrays, read_json

from watchword.errors import InputError
from watchword.media import VideoReader
from watchword.reserve import spectrogram as sp
from watchword.reserve.inputs import preprocess, token_sequence
from watchword.reserve.segmentation import Span, centred_spans, released_spans, spans_before
from watchword.reserve.segments import Segment, VideoSegments, first_frame_from
from watchword.reserve.sounds import centred_samples, clip_of, samples_from

INFERENCE = each(objects_with("segments", "token_cases"), "inference")
SPECTROGRAM_TOLERANCE = 1e-3


def clip_for(path: Path) -> Path:
    named = path.with_name(path.stem.replace("inference", "clip") + ".mp4")
    videos = sorted(FOLDER.glob("*.mp4"))
    if not named.exists() and len(videos) != 1:
        pytest.skip(f"no video for {path.name} in the folder")
    return named if named.exists() else videos[0]


def span_of(times: dict[str, float]) -> Span:
    return Span(times["start_time"], times["end_time"])


def assert_spans(found: list[Span], expected: list[dict[str, float]]) -> None:
    assert np.allclose(
        [(span.start, span.end, span.middle) for span in found],
        [(times["start_time"], times["end_time"], times["mid_time"]) for times in expected],
        rtol=0,
        atol=0.0051,
    )
    assert np.allclose([(span.start, span.end) for span in found], [(t["start_time"], t["end_time"]) for t in expected], rtol=0, atol=1e-6)


@INFERENCE
def test_a_video_to_segments(path: Path) -> None:
    expected, arrays, clip = read_json(path), read_arrays(path.with_suffix(".npz")), clip_for(path)
    with VideoSegments(clip, released=True) as video:
        times = VideoReader(clip).times
        segments = list(video)
    assert len(segments) == len(expected["segments"])
    for segment, facts in zip(segments, expected["segments"], strict=True):
        assert_spans([segment.span], [facts])
        assert segment.frame_seconds == pytest.approx(facts["frame_pts"], abs=1e-6)
        assert segment.frame_seconds == times[facts["frame_index"]]
        assert list(segment.frame.shape) == facts["frame_shape"]
        samples = samples_from(segment.span)
        assert (samples.first, samples.first + samples.count) == (facts["sample_start"], facts["sample_end"])
        assert float((segment.spectrogram - torch.from_numpy(arrays["spectrograms"][facts["idx"]])).abs().max()) < SPECTROGRAM_TOLERANCE
        assert segment.has_sound.all()
    means = np.stack([segment.frame.mean((0, 1)) for segment in segments])
    assert np.abs(means - arrays["first_frame_mean_rgb"]).max() <= 1.0


@INFERENCE
def test_a_later_start_and_a_limit(path: Path) -> None:
    expected, clip = read_json(path)["variant_start2_max2"], clip_for(path)
    with VideoSegments(clip, released=True, start=2.0, limit=2) as video:
        segments = list(video)
        assert_spans(video.spans, expected)
    times = VideoReader(clip).times
    assert [segment.frame_seconds for segment in segments] == [times[facts["frame_index"]] for facts in expected]


@INFERENCE
def test_seeking(path: Path) -> None:
    times = VideoReader(clip_for(path)).times
    seconds, numbers = zip(*read_json(path)["seek"], strict=True)
    assert first_frame_from(times, seconds).tolist() == list(numbers)


@INFERENCE
def test_spectrograms_of_the_stored_sound(path: Path) -> None:
    arrays, expected = read_arrays(path.with_suffix(".npz")), read_json(path)
    wave = sp.from_levels(arrays["mono22k_int16"])
    assert np.abs(arrays["mono22k_int16"].astype(np.int32)).max() == expected["mono22k_peak"]
    for place, facts, stored in (
        (samples_from, expected["segments"], arrays["spectrograms"]),
        (centred_samples, expected["zero_shot"], arrays["zero_shot_spectrograms"]),
    ):
        for times, spectrogram in zip(facts, stored, strict=True):
            samples = place(span_of(times))
            assert (samples.first, samples.first + samples.count) == (times["sample_start"], times["sample_end"])
            assert samples.left == times.get("left_pad", 0)
            found = sp.subsegments(sp.log_mel(torch.from_numpy(clip_of(wave, samples))))
            assert float((found - torch.from_numpy(spectrogram)).abs().max()) < SPECTROGRAM_TOLERANCE


@INFERENCE
def test_windows_of_zero_shot_tasks(path: Path) -> None:
    expected, clip = read_json(path), clip_for(path)
    stored = read_arrays(path.with_suffix(".npz"))["zero_shot_spectrograms"]
    with VideoSegments(clip, spans=[span_of(times) for times in expected["zero_shot"]], centred=True) as video:
        segments, times = list(video), VideoReader(clip).times
    for segment, facts, spectrogram in zip(segments, expected["zero_shot"], stored, strict=True):
        assert segment.frame_seconds == times[facts["frame_index"]]
        assert float((segment.spectrogram - torch.from_numpy(spectrogram)).abs().max()) < SPECTROGRAM_TOLERANCE
    for duration, windows in expected["msrvtt_times"].items():
        assert_spans(centred_spans(float(duration)), windows)
    for case in expected["action_anticipation_windows"]:
        observed, interval = case["observed_segments"], case["interval"]
        assert_spans(spans_before(case["action"][0] - 1, observed, interval), case["times"][:observed])


@INFERENCE
def test_how_many_segments(path: Path) -> None:
    for seconds, count in read_json(path)["segment_count_table"]:
        if count is None:
            with pytest.raises(InputError, match="needs 6 s"):
                released_spans(seconds)
        else:
            assert len(released_spans(seconds)) == count, seconds


def plain_segment(index: int) -> Segment:
    return Segment(index, Span(5 * index, 5 * index + 5), np.zeros((32, 32, 3), np.uint8), 0.0, torch.ones(3, 60, 65), np.ones(3, bool))


@INFERENCE
def test_joint_sequences(path: Path) -> None:
    for name, case in read_json(path)["token_cases"].items():
        contents: list[Any] = case["segments"]
        length = len(case["tokens"])
        found = token_sequence(contents, length=length, released=True)
        assert found.tokens.tolist() == case["tokens"], name
        assert found.subsegments.tolist() == case["subseg_idxs"], name
        assert (bool(found.tokens[-1]) or found.num_cut > 0) == case["warned"], name
        if found.num_cut:
            continue  # the rule for what does not fit is another by default; see tests/reserve
        assert token_sequence(contents, length=length).tokens.tolist() == case["tokens"], name
        inputs = preprocess([plain_segment(i) for i in range(len(contents))], contents, grid=(2, 3), length=length)
        assert inputs.images.shape == (len(contents), 6, 768)
        assert inputs.audio_clips.flatten(1).any(1).tolist() == case["audio_clip_nonzero"], name
