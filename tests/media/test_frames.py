"""What callers of VideoReader rely on, beyond the files of the media folder."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random

import numpy as np
import pytest
from counting_clips import HEIGHT, NUM_FRAMES, RATE, WIDTH, copy_packets, encode, field_pairs, ids
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.media import Limits, VideoReader, probe, uniform_indices
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


@pytest.fixture(params=["kept", "read again"])
def packets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with small files, whose packets are kept, and as with all others."""
    if request.param == "read again":
        monkeypatch.setattr("watchword.media.decode._KEPT_BYTES", 0)


@given(st.integers(1, 5000), st.integers(1, 64))
def test_uniform_indices_are_the_middles_of_equal_parts(num_frames_total: int, num_frames: int) -> None:
    indices = uniform_indices(num_frames_total, num_frames)
    assert len(indices) == num_frames
    assert (np.diff(indices) >= 0).all() and indices[0] >= 0 and indices[-1] < num_frames_total
    exact = (2 * np.arange(num_frames) + 1) * num_frames_total // (2 * num_frames)
    assert np.abs(indices - exact).max() <= 1
    if num_frames_total % (2 * num_frames) == 0:
        np.testing.assert_array_equal(indices, exact)


@pytest.mark.usefixtures("packets")
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


@pytest.fixture(scope="module")
def counted(folder: Path) -> dict[str, Path]:
    """Files whose packets cannot tell which frames there are: 1000 frames each, five times 0 to 199."""
    avi = encode(folder / "packed.avi", codec="mpeg4", max_b_frames=2, tag="XVID", options={"qscale": "3", "g": "30"})
    mpeg = encode(folder / "program.mpg", codec="mpeg2video", max_b_frames=2, options={"g": "15", "qscale": "2"})
    joined = folder / "joined.ts"
    joined.write_bytes(encode(folder / "one.ts", options={"preset": "veryfast", "g": "50"}).read_bytes() * 5)
    return {"avi": copy_packets(avi, folder / "five.avi", times=5), "mpg": mpeg, "ts": joined}


@pytest.mark.usefixtures("packets")
@pytest.mark.parametrize("kind", ["avi", "mpg", "ts"])
def test_frames_that_must_be_counted_are_the_same_alone_and_in_any_order(counted: dict[str, Path], kind: str) -> None:
    with VideoReader(counted[kind]) as reader:
        expected = [number % NUM_FRAMES for number in range(reader.num_frames)]
        assert len(expected) == NUM_FRAMES * (1 if kind == "mpg" else 5)
        sequence = np.stack([frame.rgb for frame in reader.iterate(size=(24, 64))])
        assert ids(sequence) == expected
    draw = np.random.default_rng(0)
    with VideoReader(counted[kind]) as reader:
        assert reader.num_frames == len(expected)
        assert any("start anew" in warning for warning in reader.warnings) == (kind == "ts")
        reader.close()  # forgets what it kept of the pass that counted the frames
        for numbers in ([len(expected) - 1], [5, 3], *draw.integers(0, len(expected), (12, 3)).tolist()):
            np.testing.assert_array_equal(reader.read(numbers, size=(24, 64)).rgb, sequence[numbers])


def test_fields_in_packets_of_their_own_are_not_frames(folder: Path) -> None:
    path = field_pairs(folder / "fields.mkv", 40)
    with VideoReader(path) as reader:
        assert reader.num_frames == 40
        assert [int(frame.rgb.mean() // 4) for frame in reader.iterate()] == list(range(10, 50))
        assert int(reader.read([33]).rgb.mean() // 4) == 43
        np.testing.assert_allclose(np.diff(reader.times), 0.04, atol=2e-3)


def test_pictures_that_grow_beyond_the_limit_are_not_decoded(folder: Path, clip: Path) -> None:
    path = folder / "grows.ts"
    path.write_bytes(b"".join(encode(folder / f"{n}.ts", numbers=range(9), scale=n).read_bytes() for n in (1, 4)))
    with VideoReader(path, limits=Limits(max_pixels=WIDTH * HEIGHT)) as reader:
        assert len([frame.rgb for frame in reader.iterate()]) == 9 and reader.warnings
    with VideoReader(path) as reader:
        assert len([frame.rgb for frame in reader.iterate()]) == 18 and not reader.warnings


@pytest.mark.usefixtures("packets")
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


STEPS = st.lists(st.integers(1, 6), min_size=20, max_size=90)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS, st.integers(1, 40), st.integers(0, 6), st.sampled_from(["mp4", "mkv", "ts", "mov"]), st.integers(0, 9), st.randoms())
def test_any_structure_and_any_times(
    tmp_path: Path, steps: list[int], gop: int, num_b: int, suffix: str, start: int, random: Random
) -> None:
    times = start + np.cumsum([0, *steps])
    options = {"preset": "veryfast", "g": str(gop), "bf": str(num_b), "x264-params": f"open-gop={gop % 2}:ref=4"}
    path = encode(tmp_path / f"any.{suffix}", options=options, numbers=range(len(times)), steps=times.tolist())
    wanted = random.choices(range(len(times)), k=5)
    with VideoReader(path) as reader:
        np.testing.assert_allclose(np.diff(reader.times), np.diff(times) / RATE, atol=2e-3)
        if suffix != "ts":
            assert reader.start_seconds == pytest.approx(start / RATE, abs=2e-3)
        assert ids(reader.read(wanted, size=(24, 64)).rgb) == wanted
        for number in wanted:
            assert ids(reader.at([reader.times[number] + steps[min(number, len(steps) - 1)] / RATE * 0.9]).rgb) == [number]
        assert ids(np.stack([frame.rgb for frame in reader.iterate(size=(24, 64))])) == list(range(len(times)))


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
        ticks = reader.iterate(start=2.01, end=5.01, every_seconds=1, size=16)
        assert [round(frame.time_seconds * RATE) for frame in ticks] == [50, 75, 100]
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
        for wrong in (lambda rgb: rgb / 255, lambda rgb: rgb[: 1 + len(shapes.append(0) or shapes)]):
            with pytest.raises(InputError, match="transform"):
                reader.read([1, 2], transform=wrong)
        with pytest.raises(InputError, match="whole numbers"):
            reader.read([0.5])


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
