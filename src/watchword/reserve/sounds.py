"""The sound of a video as spectrograms of stretches of it, in one pass and little memory whatever its length.

All sound is scaled by the peak of the whole video, as released (a clip cut out of it may sound louder on its own, defect D22). The peak is
known at the end only, so spectra are computed of unscaled sound and scaled afterwards: 33 MB an hour are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..media import DEFAULT_LIMITS, Limits, iter_sound
from ..media.opening import Path
from . import spectrogram as sp
from .segmentation import SEGMENT_SECONDS, Section, Span

__all__ = [
    "SampleRange", "SectionSounds", "SegmentSounds",
    "centred_samples", "clip_of", "samples_from", "section_sounds", "segment_sounds",
]  # fmt: skip

Covered = Sequence[tuple[float, float]]

_LEVEL = np.float32(1 / 32768)
_GAP = 2
_MIN_SOUND_SECONDS = 0.02


@dataclass(frozen=True)
class SampleRange:
    """What a clip of five seconds, times `speed`, is made of: `left` zeros, then `count` samples from sample `first` on, then zeros. At
    22050 Hz."""

    first: int
    count: int = sp.SEGMENT_SAMPLES
    left: int = 0
    speed: int = 1


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
    """float32 (110250 x speed,): the clip out of a wave whose first sample is number `position`; zeros where the wave has nothing."""
    clip = np.zeros(sp.SEGMENT_SAMPLES * samples.speed, np.float32)
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

    def with_silence(self, count: int) -> SegmentSounds:
        """These, and so many segments without sound behind them."""
        nothing = SegmentSounds.nothing(count)
        spectrograms = torch.cat([self.spectrograms, nothing.spectrograms])
        return replace(self, spectrograms=spectrograms, present=np.concatenate([self.present, nothing.present]))


def segment_sounds(
    path: Path, ranges: Sequence[SampleRange], *, start: float, end: float, limits: Limits = DEFAULT_LIMITS
) -> SegmentSounds:
    """Spectrograms of stretches of a video's sound.

    start, end: of the picture in seconds; sample 0 lies at `start`. Raises MediaError as `read_sound` does.
    """
    sounds = SegmentSounds.nothing(len(ranges))
    power, present = sounds.spectrograms[..., : sp.NUM_BANDS], sounds.present

    def take(index: int, clip: Tensor) -> None:
        power[index] = sp.subsegments(sp.mel_power(clip))[..., : sp.NUM_BANDS]

    def see(index: int, covered: Covered) -> None:
        present[index] |= _covered(ranges[index], covered, start)

    heard = _listen(path, ranges, take, see, start=start, end=end, limits=limits)
    heard.scale_(power)
    return replace(sounds, missing=heard.missing, warnings=heard.warnings)


@dataclass(frozen=True)
class SectionSounds:
    """Sound of sections to learn from.

    log_mels: float32 (sections, 188, 64), each played at its section's speed.
    covered: (sections,) from 0 to 1, of how much of its time the file has sound.
    missing, warnings: as in `SegmentSounds`.
    """

    log_mels: Tensor
    covered: npt.NDArray[np.float64]
    missing: bool
    warnings: tuple[str, ...] = ()


def section_sounds(path: Path, sections: Sequence[Section], *, start: float, end: float, limits: Limits = DEFAULT_LIMITS) -> SectionSounds:
    """Whole log-mel spectrograms of sections, for records. Arguments, errors: see `segment_sounds`."""
    ranges = [_of_section(section, start) for section in sections]
    power, seconds = torch.zeros(len(sections), sp.SEGMENT_HOPS, sp.NUM_BANDS), np.zeros(len(sections))

    def take(index: int, clip: Tensor) -> None:
        power[index] = sp.mel_power(clip, ranges[index].speed)

    def see(index: int, covered: Covered) -> None:
        span = sections[index].span
        seconds[index] += sum(max(min(stop, span.end) - max(begin, span.start), 0.0) for begin, stop in covered)

    heard = _listen(path, ranges, take, see, start=start, end=end, limits=limits)
    heard.scale_(power)
    covered = np.minimum(seconds / np.array([section.span.seconds for section in sections]), 1.0)
    return SectionSounds(power, covered, heard.missing, heard.warnings)


def _of_section(section: Section, origin: float) -> SampleRange:
    return SampleRange(_sample(section.span.start - origin), sp.SEGMENT_SAMPLES * section.speed, speed=section.speed)


@dataclass(frozen=True)
class _Heard:
    """What listening to a file told of it as a whole. peak: the largest 16-bit level."""

    peak: float
    any_sound: bool
    missing: bool
    warnings: tuple[str, ...]

    def scale_(self, power: Tensor) -> None:
        """Power of unscaled sound as the log-mel of sound divided by the peak, in place; silence stays 0."""
        if self.any_sound:
            sp.log_compress_(power.mul_((1 / (self.peak * float(_LEVEL))) ** 2))


def _listen(
    path: Path,
    ranges: Sequence[SampleRange],
    take: Callable[[int, Tensor], None],
    see: Callable[[int, Covered], None],
    *,
    start: float,
    end: float,
    limits: Limits,
) -> _Heard:
    """Go through the sound once. `take` gets each range's clip, unscaled, if there may be sound in it; `see` hears of all stretches where
    the file has sound while a range is not past."""
    waiting = sorted(range(len(ranges)), key=lambda i: ranges[i].first + ranges[i].count, reverse=True)
    heard = np.zeros(len(ranges), np.bool_)
    wave, position, peak = np.zeros(0, np.float32), 0, 1.0
    missing, warnings = True, list[str]()

    def finish(known_until: int | None) -> None:
        """Work on the ranges whose sound is all there."""
        while waiting and (known_until is None or ranges[waiting[-1]].first + ranges[waiting[-1]].count <= known_until):
            index = waiting.pop()
            if heard[index]:
                take(index, torch.from_numpy(clip_of(wave, ranges[index], position)))

    for block in iter_sound(path, rate=sp.RATE, start=start, end=max(end, start), limits=limits):
        missing &= block.missing
        warnings += block.warnings
        for index in waiting if block.covered else ():
            see(index, block.covered)
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
    return _Heard(peak, bool(heard.any()), missing, tuple(warnings))


def _covered(samples: SampleRange, covered: Covered, origin: float) -> npt.NDArray[np.bool_]:
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
