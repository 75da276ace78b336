"""Every file of $WATCHWORD_MEDIA/hard and /clips gives what its expected.json says."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from shared_folders import MEDIA_ROOT
from watchword.media import MediaError, VideoReader, probe

TIME_TOLERANCE = 0.002


def _cases() -> list[Any]:
    cases = []
    for folder in ("hard", "clips"):
        expected = MEDIA_ROOT / folder / "expected.json"
        if expected.is_file():
            files = json.loads(expected.read_text())["files"]
            cases += [pytest.param(MEDIA_ROOT / folder / name, facts, id=f"{folder}/{name}") for name, facts in files.items()]
    return cases or [pytest.param(None, None, marks=pytest.mark.skip(f"no expected.json under {MEDIA_ROOT}: set $WATCHWORD_MEDIA"))]


CASES = _cases()


def _frames_tolerance(wanted: str) -> int:
    stated = re.search(r"(?:\+-|\+/-|±)\s*(\d+)", wanted)
    return int(stated[1]) if stated else 0


def _block_means(rgb: np.ndarray) -> np.ndarray:
    height, width = rgb.shape[:2]
    rows, columns = [height * i // 4 for i in range(5)], [width * i // 4 for i in range(5)]
    blocks = [rgb[rows[y] : rows[y + 1], columns[x] : columns[x + 1]] for y in range(4) for x in range(4)]
    return np.array([block.mean((0, 1)) for block in blocks])


@pytest.mark.parametrize(("path", "facts"), CASES)
def test_probe(path: Any, facts: Any) -> None:
    if facts["outcome"] == "error":
        with pytest.raises(MediaError) as caught:
            probe(path)
        assert caught.value.reason == facts["error"]
        assert "\n" not in str(caught.value)
        return
    info = probe(path)
    streams, video, audio = facts["streams"], facts.get("video"), facts.get("audio")
    assert info.container == facts["container"]["format"]
    assert info.num_video_streams == streams["video"]
    assert info.num_audio_streams == streams["audio"]
    assert info.num_subtitle_streams == streams["subtitle"]
    assert info.num_attached_pictures == streams["attached_pic"]
    assert info.num_other_streams == streams["other"]
    assert [s.stream for s in info.subtitles] == [s["stream_index"] for s in facts.get("subtitles", [])] or "subtitles" not in facts
    assert (info.video is None) == (video is None)
    if info.video is not None:
        shown = info.video
        assert (shown.stream, shown.codec, shown.pixel_format) == (video["stream_index"], video["codec"], video["pix_fmt"])
        assert [shown.coded_width, shown.coded_height] == video["coded_size"]
        assert "{}:{}".format(*shown.pixel_aspect) == video["sar"]
        assert shown.rotation == video["rotate_cw"]
        assert [shown.width, shown.height] == video["display_size_after_sar_and_rotation"]
        assert (shown.bit_depth, shown.interlaced) == (video["bit_depth"], video["interlaced"])
        for name, value in video.get("color", {}).items():
            assert value is None or getattr(shown, name) == value, name
    assert (info.audio is None) == (audio is None)
    if info.audio is not None and "depending on the choice" not in (facts.get("wanted") or ""):
        heard = info.audio
        assert (heard.stream, heard.codec, heard.sample_rate) == (audio["stream_index"], audio["codec"], audio["sample_rate"])
        assert (heard.num_channels, heard.channel_layout) == (audio["channels"], audio["layout"])
    json.dumps(info.as_dict())


@pytest.mark.parametrize(("path", "facts"), CASES)
def test_frames(path: Any, facts: Any) -> None:
    if facts["outcome"] in ("error", "audio_only"):
        with pytest.raises(MediaError) as caught, VideoReader(path) as reader:
            reader.uniform(8, size=64)
        assert caught.value.reason == (facts.get("error") or "no_video")
        return
    video, wanted = facts["video"], facts.get("wanted") or ""
    with VideoReader(path) as reader:
        tolerance = _frames_tolerance(wanted)
        assert abs(reader.num_frames - video["decoded_frames"]) <= tolerance
        _check_times(reader, video, wanted)
        _check_pictures(reader, video)
        assert bool(reader.warnings) == (facts["outcome"] == "partial")


def _check_times(reader: VideoReader, video: dict[str, Any], wanted: str) -> None:
    slack = TIME_TOLERANCE
    if "times uncertain by up to 2 frames" in wanted:
        assert np.abs(np.diff(reader.times) - video["median_step"]).max() < TIME_TOLERANCE
        slack += 2 * video["median_step"]
    unknown = video.get("frames_without_pts", 0) if "number them" in wanted else 0
    assert abs(reader.times[unknown] - video["first_pts"]) <= slack
    assert abs(reader.times[-1] - video["last_pts"]) <= slack
    assert abs(reader.end_seconds - reader.times[unknown] - video["presented_duration"]) <= slack
    if video.get("pts"):
        np.testing.assert_allclose(reader.times, video["pts"], atol=TIME_TOLERANCE)
    else:
        assert (np.diff(reader.times) > 0).all()


def _check_pictures(reader: VideoReader, video: dict[str, Any]) -> None:
    pictures = video.get("rgb4x4") or {}
    numbers = [int(number) for number in pictures] or [0]
    full = reader.read(numbers)
    width, height = video["display_size_after_sar_and_rotation"]
    assert full.rgb.shape == (len(numbers), height, width, 3)
    np.testing.assert_array_equal(full.times, reader.times[numbers])
    short = reader.uniform(8, size=64)
    assert len(short) == 8 and min(short.rgb.shape[1:3]) == 64
    small = reader.read(numbers, size=64)
    for rgb, reduced, expected in zip(full.rgb, small.rgb, pictures.values(), strict=False):
        assert np.abs(_block_means(rgb) - expected).max() < 6
        assert np.abs(_block_means(reduced) - expected).max() < 12


@pytest.mark.parametrize(("path", "facts"), CASES)
def test_a_frame_asked_for_alone_equals_the_same_in_sequence(path: Any, facts: Any) -> None:
    if facts["outcome"] in ("error", "audio_only"):
        pytest.skip("no frames")
    with VideoReader(path, num_threads=2) as reader:
        sequence = [(frame.rgb, frame.time_seconds) for frame in reader.iterate(size=96)]
        assert len(sequence) == reader.num_frames
    draw = np.random.default_rng(0)
    for count in (1, 2):
        numbers = draw.integers(0, len(sequence), count)
        with VideoReader(path, num_threads=1) as fresh:
            frames = fresh.read(numbers, size=96)
        for rgb, time, number in zip(frames.rgb, frames.times, numbers, strict=True):
            np.testing.assert_array_equal(rgb, sequence[number][0])
            assert time == sequence[number][1]
