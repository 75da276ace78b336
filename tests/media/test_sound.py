"""Sound lies on the picture's clock, whatever the file is like."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media_files import files_with_facts

from watchword.errors import InputError
from watchword.media import VideoReader
from watchword.media.errors import LimitError, MediaError, NoAudioError
from watchword.media.limits import Limits
from watchword.media.sound import Sound, iter_sound, read_sound


def sine(frequency: float, seconds: float, rate: int, amplitude: float = 0.5) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def write_media(
    path: Path,
    *,
    parts: list[tuple[float, np.ndarray]],
    rate: int = 48000,
    layout: str = "mono",
    codec: str = "aac",
    picture_seconds: float = 0,
) -> Path:
    """A file with black video of 25 frames a second and sound: `parts` are (time in seconds, samples (num_samples[, channels]))."""
    with av.open(str(path), "w") as container:
        video = None
        if picture_seconds:
            video = container.add_stream("mpeg4", rate=25, width=64, height=48, pix_fmt="yuv420p")
        audio = container.add_stream(codec, rate=rate, layout=layout)
        audio.time_base = Fraction(1, rate)
        if codec == "libmp3lame":
            audio.codec_context.format = "fltp"
        if video is not None:
            for number in range(round(picture_seconds * 25)):
                frame = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 25)
                container.mux(video.encode(frame))
            container.mux(video.encode(None))
        kind = audio.codec_context.format.name if audio.codec_context.format else "fltp"
        for seconds, samples in parts:
            channels = samples.reshape(len(samples), -1).T
            data = channels.astype(np.float32) if kind.startswith("flt") else np.round(channels * 32767).astype(np.int16)
            size = audio.codec_context.frame_size or 1024
            for first in range(0, data.shape[1], size):
                chunk = np.ascontiguousarray(data[:, first : first + size])
                if not kind.endswith("p"):
                    chunk = np.ascontiguousarray(chunk.T).reshape(1, -1)
                frame = av.AudioFrame.from_ndarray(chunk, format=kind, layout=layout)
                frame.sample_rate, frame.pts, frame.time_base = rate, round(seconds * rate) + first, Fraction(1, rate)
                container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


def power_at(frequency: float, samples: np.ndarray, rate: int) -> float:
    """Mean square of the part of `samples` at one frequency."""
    wave = np.exp(-2j * np.pi * frequency * np.arange(len(samples)) / rate)
    return float(2 * np.abs((samples * wave).mean()) ** 2)


def rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))


def covered_seconds(sound: Sound) -> float:
    return sum(end - start for start, end in sound.covered)


def test_every_file_gives_the_sound_that_is_expected(media_root: Path) -> None:
    for path, expected in files_with_facts(media_root):
        if expected["outcome"] == "error":
            with pytest.raises(MediaError) as caught:
                read_sound(path, rate=16000)
            assert caught.value.reason == expected["error"], path
            assert "\n" not in str(caught.value)
        elif expected.get("audio") is None:
            with VideoReader(path) as reader:
                start, end = reader.start_seconds, reader.end_seconds
            sound = read_sound(path, rate=800)
            assert sound.missing and not sound.samples.any() and not sound.covered, path
            assert sound.start_seconds == start and len(sound.samples) == round((end - start) * 800), path
            with pytest.raises(NoAudioError):
                read_sound(path, rate=800, required=True)
        else:
            check_sound(path, expected)


def check_sound(path: Path, expected_of_file: dict) -> None:
    expected = expected_of_file["audio"]
    rate, duration = expected["sample_rate"], expected["decoded_duration"]
    everything = read_sound(path, rate=rate, start=expected["start_time"] - 1, end=expected["start_time"] + duration + 2)
    assert not everything.missing
    assert covered_seconds(everything) == pytest.approx(duration, abs=0.06), path
    assert everything.covered[0][0] == pytest.approx(expected["start_time"], abs=0.05), path
    assert not everything.samples[~everything.mask].any()
    assert np.abs(everything.samples).max() <= 1
    level = rms(everything.samples[everything.mask])
    if expected["channels"] == 1:
        assert level == pytest.approx(expected["rms"], rel=0.15, abs=1e-4), path
    else:  # the mean of channels is never louder than the channels
        assert level <= expected["rms"] * 1.15 + 1e-4, path
    if expected_of_file["outcome"] == "partial" and (expected.get("header_duration") or 0) > duration + 1:
        assert "cut" in " ".join(everything.warnings), path
    default = read_sound(path, rate=rate)
    start, end = everything.covered[0][0], everything.covered[-1][1]
    if expected_of_file.get("video") is not None:
        with VideoReader(path) as reader:
            start, end = reader.start_seconds, reader.end_seconds
    assert default.start_seconds == pytest.approx(start, abs=1 / rate)
    assert default.end_seconds == pytest.approx(end, abs=2 / rate)
    shift = round((default.start_seconds - everything.start_seconds) * rate)
    common = everything.samples[shift : shift + len(default.samples)]
    # Half a sample of rounding moves a wave a little.
    assert rms(default.samples[: len(common)] - common) <= 0.5 * level + 1e-6, path


def test_surround_sound_is_mixed_without_clipping_and_with_its_centre(tmp_path: Path) -> None:
    waves = [sine(frequency, 2, 48000, 0.9) for frequency in (220, 330, 440, 60, 550, 660)]
    sound = read_sound(write_media(tmp_path / "a.mp4", parts=[(0, np.stack(waves, 1))], layout="5.1"), rate=48000)
    assert np.abs(sound.samples).max() < 1
    inside = sound.samples[4800:-4800]
    assert power_at(440, inside, 48000) > 1.7 * power_at(220, inside, 48000) > 1e-4
    assert power_at(60, inside, 48000) < 1e-6


@pytest.mark.parametrize(("layout", "num_channels"), [("mono", 1), ("stereo", 2), ("5.1", 6)])
def test_equal_channels_keep_their_level(tmp_path: Path, layout: str, num_channels: int) -> None:
    wave = np.repeat(sine(440, 1, 48000, 0.99)[:, None], num_channels, axis=1)
    path = write_media(tmp_path / "a.wav", parts=[(0, wave)], layout=layout, codec="pcm_s16le")
    sound = read_sound(path, rate=48000)
    assert len(sound.samples) == 48000
    np.testing.assert_allclose(sound.samples, wave[:, 0], atol=2e-4)


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_late_sound_is_silent_before_and_after(tmp_path: Path, suffix: str) -> None:
    path = write_media(tmp_path / f"late.{suffix}", parts=[(2.5, sine(880, 3, 44100))], rate=44100, picture_seconds=8)
    sound = read_sound(path, rate=22050)
    assert len(sound.samples) == 8 * 22050 and sound.start_seconds == 0
    powers = [power_at(880, sound.samples[i : i + 2205], 22050) for i in range(0, len(sound.samples), 2205)]
    assert max(powers[:24] + powers[56:]) < 1e-6
    assert min(powers[26:54]) > 0.1
    assert sound.covered[0] == pytest.approx((2.5, 5.5), abs=0.05)
    before, after = sound.mask[: 2 * 22050], sound.mask[3 * 22050 : 5 * 22050]
    assert not before.any() and after.all()


def test_sound_longer_than_the_picture_is_cut_at_its_end_unless_asked_for(tmp_path: Path) -> None:
    path = write_media(tmp_path / "long.mp4", parts=[(0, sine(440, 6, 48000))], picture_seconds=3)
    assert len(read_sound(path, rate=8000).samples) == 3 * 8000
    late = read_sound(path, rate=8000, start=4, end=7.5)
    assert late.start_seconds == 4 and len(late.samples) == 28000
    assert late.covered[0] == pytest.approx((4, 6), abs=0.05)


def test_a_gap_stays_a_gap(tmp_path: Path) -> None:
    first, second = np.zeros(24000), np.zeros(24000)
    first[12000] = second[12000] = 0.9
    path = write_media(tmp_path / "gap.mkv", parts=[(0, first), (2.0, second)], codec="pcm_s16le")
    sound = read_sound(path, rate=48000)
    assert sound.covered[0] == pytest.approx((0, 0.5), abs=0.002) and sound.covered[1] == pytest.approx((2, 2.5), abs=0.002)
    peaks = np.flatnonzero(np.abs(sound.samples) > 0.5)
    assert peaks / 48000 == pytest.approx([0.25, 2.25], abs=0.001)


@pytest.mark.parametrize("codec", ["libmp3lame", "libopus", "aac", "flac"])
def test_what_encoders_put_in_front_does_not_shift_the_sound(tmp_path: Path, codec: str) -> None:
    wave = np.zeros(96000)
    wave[48000:50400] = sine(1000, 0.05, 48000, 0.9)
    suffix = "mp4" if codec == "aac" else "mkv"
    sound = read_sound(write_media(tmp_path / f"a.{suffix}", parts=[(0, wave)], codec=codec), rate=48000)
    loud = np.flatnonzero(np.abs(sound.samples) > 0.3) / 48000 + sound.start_seconds
    assert loud[0] == pytest.approx(1.0, abs=0.003) and loud[-1] == pytest.approx(1.05, abs=0.003)


@pytest.mark.parametrize(("from_rate", "to_rate"), [(8000, 22050), (48000, 16000), (44100, 48000)])
def test_resampling_keeps_time_and_level(tmp_path: Path, from_rate: int, to_rate: int) -> None:
    path = write_media(tmp_path / "a.wav", parts=[(0, sine(440, 2, from_rate))], rate=from_rate, codec="pcm_s16le")
    samples = read_sound(path, rate=to_rate).samples
    assert len(samples) == pytest.approx(2 * to_rate, abs=2)
    ideal = sine(440, 2, to_rate)
    np.testing.assert_allclose(samples[1000:-1000], ideal[1000 : len(samples) - 1000], atol=2e-3)


@pytest.fixture(scope="module")
def noise_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    noise = np.random.default_rng(0).normal(0, 0.1, 40 * 16000).clip(-1, 1)
    return write_media(tmp_path_factory.mktemp("noise") / "noise.mp4", parts=[(0, noise)], rate=16000, picture_seconds=40)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 41 * 16000), st.integers(0, 5 * 16000))
def test_a_part_read_alone_equals_the_part_of_the_whole(noise_file: Path, first: int, length: int) -> None:
    whole = read_sound(noise_file, rate=16000, start=0, end=50)
    part = read_sound(noise_file, rate=16000, start=first / 16000, end=(first + length) / 16000)
    assert part.start_seconds == first / 16000 and len(part.samples) == length
    np.testing.assert_allclose(part.samples, whole.samples[first : first + length], atol=1e-4)
    np.testing.assert_array_equal(part.mask, whole.mask[first : first + length])


def test_blocks_follow_each_other(noise_file: Path) -> None:
    whole = read_sound(noise_file, rate=8000, end=43)
    blocks = list(iter_sound(noise_file, rate=8000, end=43, block_seconds=2.5))
    assert [len(block.samples) for block in blocks] == [20000] * 17 + [4000]
    assert [block.start_seconds for block in blocks] == [2.5 * i for i in range(18)]
    np.testing.assert_array_equal(np.concatenate([block.samples for block in blocks]), whole.samples)
    assert blocks[-1].covered == () and not blocks[-1].missing


def test_a_damaged_part_does_not_move_what_follows(tmp_path: Path) -> None:
    wave = np.zeros(10 * 48000)
    wave[9 * 48000] = 0.9
    path = write_media(tmp_path / "a.mkv", parts=[(0, wave + sine(100, 10, 48000, 0.01))], codec="flac", picture_seconds=1)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 600] = np.random.default_rng(0).bytes(600)
    path.write_bytes(data)
    sound = read_sound(path, rate=48000, start=0, end=10)
    assert np.argmax(np.abs(sound.samples[8 * 48000 :])) / 48000 + 8 == pytest.approx(9, abs=0.002)
    assert 9 < covered_seconds(sound) < 10
    assert len(sound.covered) > 1


def test_wrong_requests_say_what_is_wrong(noise_file: Path) -> None:
    for options in ({"rate": 0}, {"rate": 8000, "start": 2, "end": 1}, {"rate": 8000, "start": float("nan")}):
        with pytest.raises(InputError):
            read_sound(noise_file, **options)
    with pytest.raises(InputError):
        iter_sound(noise_file, rate=8000, block_seconds=0)
    with pytest.raises(NoAudioError, match="those are: 1"):
        read_sound(noise_file, rate=8000, stream=0)
    with pytest.raises(LimitError, match="max_output_bytes"):
        read_sound(noise_file, rate=8000, limits=Limits(max_output_bytes=1000))
    with pytest.raises(LimitError, match="max_duration_seconds"):
        read_sound(noise_file, rate=8000, start=0, end=1e6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes_give_a_result_or_a_media_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "any.mp4").write_bytes(data)
    try:
        read_sound(tmp_path / "any.mp4", rate=8000)
    except MediaError as error:
        assert "\n" not in str(error)
