"""What callers of VideoReader rely on, beyond the files of the media folder."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from counting_clips import HEIGHT, NUM_FRAMES, RATE, WIDTH, encode, ids
from hypothesis import given
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.media import VideoReader, probe, uniform_indices
from watchword.media.errors import MediaError, NoMoovError

GOP = "keyint=40:min-keyint=40:scenecut=0"
X265 = f"log-level=none:pools=1:open-gop=1:bframes=4:{GOP}"
STREAMS = {
    "open_gop.ts": {"options": {"preset": "veryfast", "x264-params": f"open-gop=1:bframes=3:{GOP}"}},
    "intra_refresh.mp4": {"options": {"preset": "veryfast", "x264-params": f"intra-refresh=1:bframes=0:{GOP}"}},
    "pyramid.mkv": {"options": {"preset": "veryfast", "x264-params": f"b-pyramid=strict:bframes=8:ref=6:{GOP}"}},
    "hevc_open_gop.ts": {"codec": "libx265", "options": {"preset": "ultrafast", "x265-params": X265}},
    "mpeg2.ts": {"codec": "mpeg2video", "max_b_frames": 2, "options": {"g": "15", "qscale": "2"}},
    "h264.avi": {"options": {"preset": "veryfast", "g": "40"}},
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"g": "40", "cpu-used": "8", "lag-in-frames": "16", "b": "800k"}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def clip(folder: Path) -> Path:
    return encode(folder / "count.mp4", options={"preset": "veryfast", "g": "50"})


@given(st.integers(1, 5000), st.integers(1, 64))
def test_uniform_indices_are_the_middles_of_equal_parts(num_frames_total: int, num_frames: int) -> None:
    indices = uniform_indices(num_frames_total, num_frames)
    assert len(indices) == num_frames
    assert (np.diff(indices) >= 0).all() and indices[0] >= 0 and indices[-1] < num_frames_total
    exact = (2 * np.arange(num_frames) + 1) * num_frames_total // (2 * num_frames)
    assert np.abs(indices - exact).max() <= 1
    if num_frames_total % (2 * num_frames) == 0:
        np.testing.assert_array_equal(indices, exact)


@pytest.mark.parametrize("name", STREAMS)
def test_seeking_and_leaving_frames_out_change_nothing(folder: Path, name: str) -> None:
    path = encode(folder / name, **STREAMS[name])  # type: ignore[arg-type]
    with VideoReader(path) as reader:
        sequence = np.stack([frame.rgb for frame in reader.iterate()])
        assert ids(sequence) == list(range(NUM_FRAMES))
    for number in (199, 120, 79, 81, 3):
        with VideoReader(path, num_threads=2) as reader:
            np.testing.assert_array_equal(reader.read([number, 10]).rgb, sequence[[number, 10]])
            assert reader.warnings == []


@pytest.mark.parametrize("name", ["open_gop.ts", "mpeg2.ts", "hevc_open_gop.ts"])
def test_a_recording_that_begins_and_ends_anywhere(folder: Path, name: str) -> None:
    data = encode(folder / name, **STREAMS[name]).read_bytes()  # type: ignore[arg-type]
    num_packets = len(data) // 188
    path = folder / f"cut_{name}"
    path.write_bytes(data[188 * (num_packets // 10) : 188 * (num_packets * 8 // 10)])
    with VideoReader(path) as reader:
        found = ids(np.stack([frame.rgb for frame in reader.iterate()]))
        # Of the last frames, one may stand before others that are cut off.
        assert len(found) > 80 and found[:-3] == list(range(found[0], found[0] + len(found) - 3))
        assert reader.num_frames - len(found) <= 1
        frames = reader.uniform(4)
        assert ids(frames.rgb) == [found[number] for number in reader.index_at(frames.times)]


def test_order_repeats_and_negative_indices(clip: Path) -> None:
    with VideoReader(clip) as reader:
        frames = reader.read([150, 3, -1, 3])
        assert ids(frames.rgb) == [150, 3, 199, 3]
        np.testing.assert_allclose(frames.times, np.array([150, 3, 199, 3]) / RATE)
        assert len(reader.read([])) == 0
        for wrong in (NUM_FRAMES, -NUM_FRAMES - 1):
            with pytest.raises(InputError, match=str(wrong)):
                reader.read([0, wrong])


def test_frame_at_a_time_is_the_one_on_show(clip: Path) -> None:
    with VideoReader(clip) as reader:
        assert ids(reader.at([-5, 0, 0.0399, 0.04, 1.01, 7.96, 99]).rgb) == [0, 0, 0, 1, 25, 199, 199]
        with pytest.raises(InputError):
            reader.at([float("nan")])
        assert reader.end_seconds == pytest.approx(NUM_FRAMES / RATE)


def test_ranges(clip: Path) -> None:
    with VideoReader(clip) as reader:
        assert ids(reader.uniform(4, start=2, end=4).rgb) == [56, 68, 81, 93]
        assert ids(reader.uniform(2, start=2.01, end=2.02).rgb) == [50, 50]
        assert [round(frame.time_seconds * RATE) for frame in reader.iterate(start=1, end=1.2)] == [25, 26, 27, 28, 29]
        assert [round(frame.time_seconds * RATE) for frame in reader.iterate(every_seconds=2, size=16)] == [0, 50, 100, 150]
        for arguments in ({"start": 3, "end": 2}, {"every_seconds": 0}):
            with pytest.raises(InputError):
                next(reader.iterate(**arguments))


def test_reading_between_two_frames_of_an_iteration(clip: Path) -> None:
    with VideoReader(clip) as reader:
        seen = []
        for frame in reader.iterate(end=0.4):
            seen += ids(frame.rgb[None]) + ids(reader.read([100 + len(seen)]).rgb)
        assert seen[:4] == [0, 100, 1, 102]


def test_sizes_and_transform(clip: Path) -> None:
    with VideoReader(clip) as reader:
        assert reader.read([1], size=120).rgb.shape == (1, 120, 160, 3)
        assert reader.read([1], size=(50, 70)).rgb.shape == (1, 50, 70, 3)
        shapes = []

        def corner(rgb: np.ndarray) -> np.ndarray:
            shapes.append(rgb.shape)
            return rgb[:8, :8]

        assert reader.read([1, 2, 1], transform=corner).rgb.shape == (3, 8, 8, 3)
        assert shapes == [(HEIGHT, WIDTH, 3)] * 2
        for size in (0, -3, (0, 5)):
            with pytest.raises(InputError):
                reader.read([1], size=size)


def test_readers_and_errors_go_through_pickle(clip: Path) -> None:
    with VideoReader(clip) as reader:
        expected = reader.read([7]).rgb
        with pickle.loads(pickle.dumps(reader)) as other:
            np.testing.assert_array_equal(other.read([7]).rgb, expected)
    error = pickle.loads(pickle.dumps(NoMoovError("a\nb", "is cut", stream=1, time_seconds=2.0)))
    assert isinstance(error, MediaError) and (error.path, error.stream, error.time_seconds) == ("a\nb", 1, 2.0)
    assert str(error) == "'a\\nb', stream 1, at 2.000 s: is cut"


def test_probe_is_plain_data(clip: Path) -> None:
    facts = json.loads(json.dumps(probe(clip).as_dict()))
    assert facts["video"]["width"] == WIDTH and facts["video"]["pixel_aspect"] == [1, 1] and facts["audio"] is None
