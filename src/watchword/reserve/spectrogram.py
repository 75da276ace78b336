"""Sound to the log-mel spectrograms that Reserve's audio encoder reads.

A segment of five seconds is 188 hops of 64 mel bands; three subsegments of 60 hops are read from it, with the playback speed as a 65th
column. All steps follow the release (merlot-reserve-data spec section 8), whose filters, window and padding are those of librosa 0.8 with a
symmetric window: Slaney's mel scale and area norm, reflected ends.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from ..errors import InputError

__all__ = [
    "HOP",
    "NUM_BANDS",
    "RATE",
    "SEGMENT_HOPS",
    "SEGMENT_SAMPLES",
    "SUBSEGMENTS",
    "SUBSEGMENT_HOPS",
    "WINDOW",
    "crop_starts",
    "crop_times",
    "from_levels",
    "levels",
    "log_compress_",
    "log_mel",
    "mel_filters",
    "mel_power",
    "num_hops",
    "quantise",
    "stored_values",
    "subsegments",
]

RATE = 22050
WINDOW = 1536
HOP = 588
NUM_BANDS = 64
SEGMENT_SAMPLES = 5 * RATE
SEGMENT_HOPS = 1 + SEGMENT_SAMPLES // HOP
SUBSEGMENTS = 3
SUBSEGMENT_HOPS = 60

_LOWEST_HZ, _HIGHEST_HZ = 20.0, 11025.0
_LINEAR_HZ, _LINEAR_STEP = 1000.0, 200.0 / 3
_LOG_STEP = np.log(6.4) / 27
_FLOOR = 0.1
_MAX_LEVEL = 32767
_FLOAT_LEVELS = 32768

FloatArray = npt.NDArray[np.floating]


def levels(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """Samples from -1 to 1 as the 16-bit levels that the release reads."""
    found: npt.NDArray[np.int16] = np.clip(np.rint(samples * np.float32(_FLOAT_LEVELS)), -_FLOAT_LEVELS, _MAX_LEVEL).astype(np.int16)
    return found


def from_levels(samples: npt.NDArray[np.int16], peak: int | None = None) -> npt.NDArray[np.float32]:
    """16-bit levels divided by `peak`, which is the largest of the *whole file* (default: of these samples); silence stays silent."""
    if peak is None:
        peak = int(np.abs(samples.astype(np.int32)).max(initial=0))
    return samples.astype(np.float32) / np.float32(max(peak, 1))


@lru_cache(maxsize=4)
def mel_filters(window: int = WINDOW) -> Tensor:
    """float32 (64, window // 2 + 1): triangles on Slaney's mel scale (linear to 1000 Hz, logarithmic above), each of equal area."""

    def mel(hz: float) -> float:
        return hz / _LINEAR_STEP if hz < _LINEAR_HZ else _LINEAR_HZ / _LINEAR_STEP + float(np.log(hz / _LINEAR_HZ)) / _LOG_STEP

    mels = np.linspace(mel(_LOWEST_HZ), mel(_HIGHEST_HZ), NUM_BANDS + 2)
    knee = _LINEAR_HZ / _LINEAR_STEP
    edges = np.where(mels < knee, mels * _LINEAR_STEP, _LINEAR_HZ * np.exp(_LOG_STEP * (mels - knee)))
    bins = np.linspace(0, RATE / 2, window // 2 + 1)
    lower, centre, upper = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.maximum(0, np.minimum((bins - lower) / (centre - lower), (upper - bins) / (upper - centre)))
    return torch.from_numpy((triangles * (2 / (upper - lower))).astype(np.float32))


@lru_cache(maxsize=4)
def _window(length: int) -> Tensor:
    # Symmetric, as released: a periodic window, the usual one for spectra, changes values by up to 0.01.
    return torch.hann_window(length, periodic=False, dtype=torch.float64).float()


def num_hops(num_samples: int, speed: int = 1) -> int:
    """Hops of a spectrogram of so many samples."""
    return 1 + num_samples // (HOP * speed)


def mel_power(wave: Tensor, speed: int = 1) -> Tensor:
    """Power in each mel band: (..., hops, 64) of a (..., samples) float32 wave at 22050 Hz.

    speed: playback speed; window and hop are that many times longer, so that a segment of 5 x speed seconds has 188 hops again.

    Raises InputError if the wave is too short to be reflected at its ends (half a window).
    """
    window = WINDOW * speed
    if speed < 1 or wave.shape[-1] <= window // 2:
        raise InputError(
            f"{wave.shape[-1]} samples at speed {speed}: a spectrogram needs more than {window // 2} and a speed of at least 1"
        )
    flat = wave.reshape(-1, wave.shape[-1]).float()
    mel = torch.stack([_mel_power(clip, speed) for clip in flat])  # one by one: its arrays stay in the cache
    return mel.reshape(*wave.shape[:-1], mel.shape[-2], NUM_BANDS)


def _mel_power(clip: Tensor, speed: int) -> Tensor:
    window = WINDOW * speed
    padded = functional.pad(clip[None], (window // 2, window // 2), mode="reflect")[0]
    spectrum = torch.fft.rfft(padded.unfold(-1, window, HOP * speed) * _window(window))
    power: Tensor = spectrum.real.square() + spectrum.imag.square()
    return power @ mel_filters(window).T


def log_compress_(power: Tensor) -> Tensor:
    """ln(power + 0.1) - ln(0.1), in place: at least 0, and 0 for silence."""
    return power.add_(_FLOOR).log_().sub_(float(np.log(np.float32(_FLOOR)))).clamp_(min=0)


def log_mel(wave: Tensor, speed: int = 1) -> Tensor:
    """(..., hops, 64) log-mel spectrogram of a (..., samples) wave at 22050 Hz, from -1 to 1. Arguments, errors: see `mel_power`."""
    return log_compress_(mel_power(wave, speed))


def subsegments(spectrogram: Tensor, starts: tuple[int, ...] | None = None, *, speed: float = 1.0) -> Tensor:
    """(..., 3, 60, 65) float32: three slices of a (..., hops, 64) spectrogram, the playback speed as the last column.

    starts: first hop of each slice. Default: the slices of inference, with equal gaps before, between and after them: 2 hops where there
    are 188, none where there are 180 (finetuning).

    Raises InputError if a slice does not fit, or by default for another number of hops than 180 to 188 in steps of 4.
    """
    hops = spectrogram.shape[-2]
    if starts is None:
        gap, odd = divmod(hops - SUBSEGMENTS * SUBSEGMENT_HOPS, SUBSEGMENTS + 1)
        if odd or not 0 <= gap <= 2:
            raise InputError(f"a spectrogram of {hops} hops; 180 or {SEGMENT_HOPS} are needed: pad or cut the sound, or give the starts")
        starts = tuple(gap + i * (SUBSEGMENT_HOPS + gap) for i in range(SUBSEGMENTS))
    if min(starts) < 0 or max(starts) + SUBSEGMENT_HOPS > hops:
        raise InputError(f"slices of {SUBSEGMENT_HOPS} hops from {starts} of a spectrogram of {hops}; pad the sound")
    slices = torch.stack([spectrogram[..., start : start + SUBSEGMENT_HOPS, :] for start in starts], dim=-3)
    return torch.cat([slices, slices.new_full((*slices.shape[:-1], 1), speed)], dim=-1)


def crop_starts(draws: FloatArray) -> tuple[int, ...]:
    """First hops of three slices of 60 out of 188, from four uniform draws: the 8 spare hops are shared out before, between and after."""
    shares = np.asarray(draws, np.float32)
    ends = np.cumsum(shares / shares.sum(dtype=np.float32), dtype=np.float32)
    spare = np.float32(SEGMENT_HOPS - SUBSEGMENTS * SUBSEGMENT_HOPS)
    return tuple(int(spare * end) + SUBSEGMENT_HOPS * j for j, end in enumerate(ends[:SUBSEGMENTS]))


def crop_times(starts: tuple[int, ...]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """(start, end) in seconds of the sound in each slice, in the sped-up clock. The end is one hop late, as released (defect D11)."""
    first = np.asarray(starts, np.float32) * np.float32(HOP / RATE) - np.float32(WINDOW / 2 / RATE)
    return first, first + np.float32(SUBSEGMENT_HOPS * HOP / RATE + WINDOW / RATE)


def quantise(spectrogram: FloatArray) -> tuple[float, npt.NDArray[np.uint8]]:
    """(magic number, uint8 (64, hops)): a (hops, 64) spectrogram as the picture in which records keep it, lowest band first."""
    values = np.asarray(spectrogram).T
    magic = 255 / max(float(np.percentile(values, 99)), 1.0)
    return magic, np.minimum(values * magic, 255).astype(np.uint8)


def stored_values(picture: npt.NDArray[np.uint8], magic: float) -> Tensor:
    """float32 (hops, 64): what `quantise` kept, read back."""
    return torch.from_numpy(np.ascontiguousarray(picture.T).astype(np.float32) / np.float32(magic))
