"""The sound of a video as spectrograms of stretches of it, in one pass and little memory whatever its length.

All sound is scaled by the peak of the whole video, as released (a clip cut out of it may sound louder on its own, defect D22). The peak is
known at the end only, so spectra are computed of unscaled sound and scaled afterwards: 33 MB an hour are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..media import DEFAULT_LIMITS, Limits, iter_sound
from ..media.opening import Path
from . import spectrogram as sp
from .segmentation import SEGMENT_SECONDS, Span

__all__ = ["SampleRange", "SegmentSounds", "centred_samples", "clip_of", "samples_from", "segment_sounds"]

_LEVEL = np.float32(1 / 32768)
_GAP = 2
_MIN_SOUND_SECONDS = 0.02


@dataclass(frozen=True)
class SampleRange:
    """What a five-second clip is made of: `left` zeros, then `count` samples from sample `first` on, then zeros. At 22050 Hz."""

    first: int
    count: int = sp.SEGMENT_SAMPLES
    left: int = 0


def samples_from(span: Span, origin: float = 0.0) -> SampleRange:
    """Five seconds from the start of the span on. origin: time of sample 0."""
    return SampleRange(_sample(span.start - origin))


def centred_samples(span: Span, origin: float = 0.0) -> SampleRange:
    """A span shorter than five seconds in the middle of silence; of a longer one the five seconds around its middle (spec section 16)."""
    if span.seconds >= SEGMENT_SECONDS:
        return SampleRange(_sample(span.middle - SEGMENT_SECONDS / 2 - origin))
    first = _sample(span.start - origin)
    count = max(_sample(span.end - origin) - first, 0)
    return SampleRange(first, count, (sp.SEGMENT_SAMPLES - count) // 2)


def _sample(seconds: float) -> int:
    return int(np.floor(sp.RATE * seconds + 1e-6))


def clip_of(wave: npt.NDArray[np.float32], samples: SampleRange, position: int = 0) -> npt.NDArray[np.float32]:
    """float32 (110250,): the clip out of a wave whose first sample is number `position`; zeros where the wave has nothing."""
    clip = np.zeros(sp.SEGMENT_SAMPLES, np.float32)
    low, high = max(samples.first, position), min(samples.first + samples.count, position + len(wave))
    if low < high:
        into = samples.left + low - samples.first
        clip[into : into + high - low] = wave[low - position : high - position]
    return clip


@dataclass(frozen=True)
class SegmentSounds:
    """Sound of segments.

    spectrograms: float32 (segments, 3, 60, 65), last column 1 (the playback speed).
    present: bool (segments, 3), whether the file has sound in a subsegment; silence is sound, nothing recorded is not.
    missing: the file has no sound at all.  warnings: what was damaged, a line each.
    """

    spectrograms: Tensor
    present: npt.NDArray[np.bool_]
    missing: bool
    warnings: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, count: int) -> SegmentSounds:
        """What stands for sound that is not read: silence, nowhere present."""
        silence = torch.zeros(count, sp.SUBSEGMENTS, sp.SUBSEGMENT_HOPS, sp.NUM_BANDS + 1)
        silence[..., -1] = 1
        return cls(silence, np.zeros((count, sp.SUBSEGMENTS), np.bool_), True)


def segment_sounds(
    path: Path, ranges: Sequence[SampleRange], *, start: float, end: float, limits: Limits = DEFAULT_LIMITS
) -> SegmentSounds:
    """Spectrograms of stretches of a video's sound.

    start, end: of the picture in seconds; sample 0 lies at `start`. Raises MediaError as `read_sound` does.
    """
    sounds = SegmentSounds.nothing(len(ranges))
    power, present = sounds.spectrograms[..., : sp.NUM_BANDS], sounds.present
    waiting = sorted(range(len(ranges)), key=lambda i: ranges[i].first + ranges[i].count, reverse=True)
    heard = np.zeros(len(ranges), np.bool_)
    wave, position, peak = np.zeros(0, np.float32), 0, 1.0
    missing, warnings = True, list[str]()

    def finish(known_until: int | None) -> None:
        """Work on the ranges whose sound is all there."""
        ready = []
        while waiting and (known_until is None or ranges[waiting[-1]].first + ranges[waiting[-1]].count <= known_until):
            index = waiting.pop()
            if heard[index]:
                ready.append(index)
        for low in range(0, len(ready), 12):
            some = ready[low : low + 12]
            clips = torch.from_numpy(np.stack([clip_of(wave, ranges[i], position) for i in some]))
            power[some] = sp.subsegments(sp.mel_power(clips))[..., : sp.NUM_BANDS]

    for block in iter_sound(path, rate=sp.RATE, start=start, end=max(end, start), limits=limits):
        missing &= block.missing
        warnings += block.warnings
        for index in waiting if block.covered else ():
            present[index] |= _covered(ranges[index], block.covered, start)
        if block.covered:
            heard[waiting] = True
            new = sp.levels(block.samples).astype(np.float32)
            peak = max(peak, float(np.abs(new).max(initial=0)))
        else:
            new = np.zeros(len(block.samples), np.float32)
        wave = np.concatenate([wave, new * _LEVEL])
        finish(position + len(wave))
        needed = min((ranges[i].first for i in waiting), default=position + len(wave))
        if needed > position:
            wave, position = wave[needed - position :], min(needed, position + len(wave))
    finish(None)
    if heard.any():
        sp.log_compress_(power.mul_((1 / (peak * float(_LEVEL))) ** 2))
    return replace(sounds, missing=missing, warnings=tuple(warnings))


def _covered(samples: SampleRange, covered: Sequence[tuple[float, float]], origin: float) -> npt.NDArray[np.bool_]:
    """(3,) whether some of the covered seconds lie in each subsegment of a clip."""
    found = np.zeros(sp.SUBSEGMENTS, np.bool_)
    began = origin + (samples.first - samples.left) / sp.RATE
    low, high = origin + samples.first / sp.RATE, origin + (samples.first + samples.count) / sp.RATE
    for j in range(sp.SUBSEGMENTS):
        first_hop = _GAP + j * (sp.SUBSEGMENT_HOPS + _GAP)
        since = max(began + first_hop * sp.HOP / sp.RATE, low)
        until = min(began + (first_hop + sp.SUBSEGMENT_HOPS) * sp.HOP / sp.RATE, high)
        found[j] = any(min(until, stop) - max(since, begin) > _MIN_SOUND_SECONDS for begin, stop in covered)
    return found
