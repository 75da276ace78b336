"""Spectrograms against a slow and plain computation in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from watchword.errors import InputError
from watchword.reserve import spectrogram as sp

SECONDS = np.arange(sp.SEGMENT_SAMPLES) / sp.RATE
WAVES = {
    "sine": np.sin(2 * np.pi * 440 * SECONDS),
    "chirp": np.sin(2 * np.pi * (50 + 995 * SECONDS) * SECONDS),
    "impulse": (np.arange(sp.SEGMENT_SAMPLES) == 50000).astype(float),
    "noise": np.random.default_rng(0).uniform(-1, 1, sp.SEGMENT_SAMPLES),
    "silence": np.zeros(sp.SEGMENT_SAMPLES),
}


def hz_of(mel: float) -> float:
    return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)


def slow_log_mel(wave: np.ndarray, speed: int = 1) -> np.ndarray:
    """Hop by hop and band by band, every number in float64."""
    window, hop = 1536 * speed, 588 * speed
    padded = np.pad(wave, window // 2, mode="reflect")
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / (window - 1))
    power = [np.abs(np.fft.rfft(padded[i : i + window] * hann)) ** 2 for i in range(0, len(padded) - window + 1, hop)]
    low, high = 20 * 3 / 200, 15 + 27 * np.log(11025 / 1000) / np.log(6.4)
    edges = [hz_of(low + (high - low) * i / 65) for i in range(66)]
    bins = np.arange(window // 2 + 1) * sp.RATE / window
    bands = []
    for left, centre, right in zip(edges, edges[1:], edges[2:], strict=False):
        triangle = np.interp(bins, [left, centre, right], [0, 1, 0])
        bands.append(np.array(power) @ triangle * 2 / (right - left))
    return np.log(np.stack(bands, 1) + 0.1) - np.log(0.1)


@pytest.mark.parametrize("name", WAVES)
@pytest.mark.parametrize("speed", [1, 2])
def test_equal_to_the_slow_way(name: str, speed: int) -> None:
    found = sp.log_mel(torch.from_numpy(WAVES[name]).float(), speed).numpy()
    expected = slow_log_mel(WAVES[name], speed)
    assert found.shape == expected.shape == (sp.num_hops(sp.SEGMENT_SAMPLES, speed), 64)
    assert np.abs(found - expected).max() < 1e-4


def test_silence_is_zero_and_keeps_its_speed() -> None:
    slices = sp.subsegments(sp.log_mel(torch.zeros(sp.SEGMENT_SAMPLES)))
    assert slices.shape == (3, 60, 65) and not slices[..., :64].any() and (slices[..., 64] == 1).all()


def test_many_at_once_are_each_as_alone() -> None:
    waves = torch.from_numpy(np.stack([WAVES["sine"], WAVES["noise"]])).float()
    assert torch.equal(sp.log_mel(waves), torch.stack([sp.log_mel(wave) for wave in waves]))


def test_slices_are_the_hops_they_say() -> None:
    hops = torch.arange(188.0)[:, None].expand(188, 64)
    assert sp.subsegments(hops)[:, [0, -1], 0].tolist() == [[2, 61], [64, 123], [126, 185]]
    assert sp.subsegments(hops[:180])[:, [0, -1], 0].tolist() == [[0, 59], [60, 119], [120, 179]]
    assert sp.subsegments(hops, (0, 60, 128))[:, 0, 0].tolist() == [0, 60, 128]


@pytest.mark.parametrize(("hops", "starts"), [(187, None), (100, None), (400, None), (188, (0, 60, 129)), (188, (-1, 60, 120))])
def test_slices_that_do_not_fit_are_errors(hops: int, starts: tuple[int, ...] | None) -> None:
    with pytest.raises(InputError, match=f"of {hops}"):
        sp.subsegments(torch.zeros(hops, 64), starts)


def test_too_short_a_wave_is_an_error() -> None:
    with pytest.raises(InputError, match="more than 768"):
        sp.log_mel(torch.zeros(768))


def test_levels_are_scaled_by_the_peak_that_is_given() -> None:
    levels = sp.levels(np.array([0, 0.5, -1, 1], np.float32))
    assert levels.tolist() == [0, 16384, -32768, 32767]
    assert sp.from_levels(levels).tolist() == pytest.approx([0, 0.5, -1, 1], abs=1e-4)
    assert sp.from_levels(levels[:2], peak=32768).tolist() == [0, 0.5]
    assert sp.from_levels(np.zeros(3, np.int16)).tolist() == [0, 0, 0]


def test_what_is_stored_comes_back_nearly() -> None:
    spectrogram = sp.log_mel(torch.from_numpy(WAVES["chirp"]).float()).numpy()
    magic, picture = sp.quantise(spectrogram)
    back = sp.stored_values(picture, magic).numpy()
    below = spectrogram < np.percentile(spectrogram, 99)
    assert picture.shape == (64, 188) and np.abs(back - spectrogram)[below].max() <= 1 / magic
