"""MERLOT Reserve's sound and frames against numbers of the authors' code."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from reserve_data_files import arrays_beginning, arrays_with, each, objects_with, read_arrays, read_json

from watchword.media import read_sound
from watchword.reserve import spectrogram as sp
from watchword.reserve.images import PATCH, BlackBars, FittedImage, fit, patches, stored_size, turn_tall

AUDIO = each(arrays_with("wave22k_int16", "logmel_T188x64"), "sound")
IMAGES = arrays_beginning("patches_u8_")


def difference(ours: object, theirs: np.ndarray) -> float:
    found = np.asarray(ours, np.float64)
    assert found.shape == theirs.shape
    return float(np.abs(found - theirs).max())


def spectrogram_of(levels: np.ndarray, speed: int = 1) -> torch.Tensor:
    return sp.log_mel(torch.from_numpy(sp.from_levels(levels)), speed)


@AUDIO
def test_spectrograms(path: Path) -> None:
    expected = read_arrays(path)
    wave22k = sp.from_levels(expected["wave22k_int16"])
    head = expected["wave22k_norm_f32_head"]
    assert difference(wave22k[: len(head)], head) <= 1e-7
    assert difference(sp.mel_filters(), expected["mel_basis_64x769"]) <= 1e-7
    found = spectrogram_of(expected["wave22k_int16"])
    assert difference(found, expected["logmel_T188x64"]) <= 1e-4
    assert difference(sp.subsegments(found), expected["spec_subsegments"]) <= 1e-4
    assert difference(sp.subsegments(sp.log_mel(torch.from_numpy(wave22k[:105619]))), expected["spec_pad0_subsegments"]) <= 1e-4
    assert difference(spectrogram_of(expected["wave_ps2_int16"], 2), expected["logmel_ps2_T188x64"]) <= 1e-4


@AUDIO
def test_a_periodic_window_would_fail(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tolerance is tight enough to tell the usual window from the released one."""
    expected = read_arrays(path)
    monkeypatch.setattr(sp, "_window", lambda length: torch.hann_window(length, periodic=True))
    assert difference(spectrogram_of(expected["wave22k_int16"]), expected["logmel_T188x64"]) > 1e-4


@AUDIO
def test_stored_spectrograms(path: Path) -> None:
    expected = read_arrays(path)
    for name, levels, speed in (("store", "wave22k_int16", 1), ("store_ps2", "wave_ps2_int16", 2)):
        magic, picture = sp.quantise(spectrogram_of(expected[levels], speed).numpy())
        assert magic == pytest.approx(float(expected[f"{name}_magic_number"]), rel=1e-4)
        assert difference(picture, expected[f"{name}_quantised_u8_64x188"].astype(np.float64)) <= 1
    decoded = np.asarray(Image.open(io.BytesIO(expected["store_jpeg_bytes"].tobytes())))
    assert difference(decoded, expected["store_decoded_u8_64x188"].astype(np.float64)) <= 16


@AUDIO
def test_training_crops_with_given_draws(path: Path) -> None:
    expected = read_arrays(path)
    stored = sp.stored_values(expected["store_decoded_u8_64x188"], float(expected["store_magic_number"]))
    for i, draws in enumerate(expected["train_pad_draws"]):
        starts = sp.crop_starts(draws)
        assert starts == tuple(expected["train_start_idx"][i])
        speed = float(expected["train_playback_speed"][i])
        assert difference(sp.subsegments(stored, starts, speed=speed), expected["train_clips"][i]) <= 1e-6
        since, until = sp.crop_times(starts)
        assert difference(since, expected["train_audio_start"][i]) <= 1e-5
        assert difference(until, expected["train_audio_end"][i]) <= 1e-5


@AUDIO
def test_other_rates_and_channels(path: Path, tmp_path: Path) -> None:
    expected = read_arrays(path)
    stereo = expected["stereo44k_int16"]
    with wave.open(str(tmp_path / "stereo.wav"), "wb") as file:
        file.setnchannels(stereo.shape[1])
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(stereo.tobytes())
    levels = sp.levels(read_sound(tmp_path / "stereo.wav", rate=sp.RATE).samples)
    assert difference(levels, expected["resampled22k_int16"].astype(np.float64)) <= 2
    assert difference(sp.subsegments(spectrogram_of(levels)), expected["resampled_spec_subsegments"]) <= 1e-3


def info_of(image: FittedImage) -> list[float]:
    height, width, _ = image.pixels.shape
    y, x = image.offset
    return [
        image.content[0] / height,
        image.content[1] / width,
        1 / image.scale,
        *image.source,
        y / image.source[0],
        x / image.source[1],
    ]


def grid_of(name: str) -> tuple[int, int]:
    rows, columns = name.split("x")
    return int(rows), int(columns)


@each(IMAGES, "frames")
def test_frames_as_patches(path: Path) -> None:
    expected = read_arrays(path)
    names = [name.removeprefix("patches_u8_") for name in expected if name.startswith("patches_u8_")]
    assert names
    for name in names:
        frame, _, grid = name.rpartition("_")
        image = fit(expected[f"frame_{frame}"], grid_of(grid))
        found = patches(image.pixels).numpy()
        assert difference(np.rint(found * 255), expected[f"patches_u8_{name}"].astype(np.float64)) <= 1
        assert difference(found[expected[f"patch_index_{name}"]], expected[f"patches_f32_{name}"]) <= 5e-5
        assert np.allclose(info_of(image), expected[f"info_{name}"], atol=1e-5)


@each(IMAGES, "frames")
def test_training_frames_with_given_draws(path: Path) -> None:
    expected = read_arrays(path)
    names = [name.removesuffix("_draws") for name in expected if name.endswith("_draws")]
    assert names
    for name in names:
        kind, frame, *grid = name.split("_")
        zoom, y, x = (float(draw) for draw in expected[f"{name}_draws"])
        fixed = kind == "fixres"  # adaptation to another resolution: no turning, no shrinking of both sides
        picture = expected[f"frame_{frame}"]
        size = expected[f"{name}_u8"].shape
        image = fit(
            picture if fixed else turn_tall(picture),
            grid_of(grid[0]) if grid else (size[0] // PATCH, size[1] // PATCH),
            zoom=zoom,
            shift=(y, x),
            random=True,
            shrink_both=not fixed,
        )
        assert difference(np.rint(image.pixels * 255), expected[f"{name}_u8"].astype(np.float64)) <= 1
        assert np.allclose(info_of(image), expected[f"{name}_info"], atol=1e-5)
    for name in expected:
        if name.startswith("flip_"):
            turned = np.rint(turn_tall(expected[name.replace("flip", "frame").removesuffix("_u8")]) * 255)
            assert difference(turned, expected[name].astype(np.float64)) <= 1


@each(objects_with("stored_frame_size", "black_bars"), "sizes")
def test_sizes_and_black_bars(path: Path) -> None:
    for case in read_json(path)["stored_frame_size"]:
        assert list(stored_size(*case["in_wh"], short=case["short"], long=case["long"])) == case["out_wh"]
    for case in read_json(path)["black_bars"]:
        frames = np.full(case["shape"], case["border_value"], np.uint8)
        _, height, width, _ = frames.shape
        if not case.get("all_black"):
            frames[:, case["top"] : height - case["bottom"], case["left"] : width - case["right"]] = case["content_value"]
        bars = BlackBars()
        bars.see(frames)
        assert bars.box() == (case["y1"], case["y2"], case["x1"], case["x2"])
