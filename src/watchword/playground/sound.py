"""What a scene sounds like: every action has its own sound, timed by the picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.playground.motion import action_span, event_times
from watchword.playground.scene import Scene
from watchword.playground.setting import generator

Samples = NDArray[np.float32]

SOUND_RATE: Final = 22050

_LOUDNESS: Final = 0.5
_HISS: Final = 0.002
_FADE_SECONDS: Final = 0.03
_INAUDIBLE_DECAYS: Final = 12
_NOISE_SAMPLES: Final = 1 << 19


@lru_cache(maxsize=2)
def _noise_tile(num_samples: int) -> Samples:
    tile = np.random.Generator(np.random.Philox(1)).standard_normal(num_samples, dtype=np.float32)
    tile.flags.writeable = False
    return tile


@dataclass(frozen=True)
class _Stage:
    """What the sounds are made of: the clip's sample times, how far the action is, and when it is on."""

    scene: Scene
    rng: np.random.Generator
    rate: int
    times: Samples
    share: Samples
    gate: Samples
    pitch: float
    begin: float
    end: float

    def tone(self, frequency: Samples | float, num_partials: int = 3) -> Samples:
        """A harmonic tone of a changing frequency in Hz; partials fall off as one over their number."""
        phase = _phase(np.cumsum(np.broadcast_to(frequency, self.times.shape), dtype=np.float64) / self.rate)
        tone = np.sin(phase)
        for k in range(2, num_partials + 1):
            tone += np.sin(np.float32(k) * phase) * np.float32(1 / k)
        return tone

    def noise(self, num_samples: int | None = None) -> Samples:
        """White noise, from a random place of a long stretch of it, since to draw it anew would take half of all time."""
        num_samples = len(self.times) if num_samples is None else num_samples
        tile = _noise_tile(max(_NOISE_SAMPLES, 2 * num_samples))
        first = int(self.rng.integers(len(tile) - num_samples))
        return tile[first : first + num_samples]

    def strike(self, seconds: float, frequency: float, decay_seconds: float, noise: float = 0.0) -> Samples:
        """Something hit at one time: a decaying tone, with a share of noise."""
        sound = np.zeros_like(self.times)
        first = min(math.ceil(seconds * self.rate), len(sound))
        heard = sound[first : first + math.ceil(_INAUDIBLE_DECAYS * decay_seconds * self.rate)]
        since = np.arange(first, first + len(heard)) / self.rate - seconds
        heard += np.sin(_phase(frequency * since))
        if noise:
            heard += np.float32(noise) * self.noise(len(heard))
        heard *= np.exp(since.astype(np.float32) * np.float32(-1 / decay_seconds))
        return sound


def render_sound(scene: Scene, *, rate: int = SOUND_RATE) -> Samples:
    """The sound of a scene, as long as its clip; the same scene and rate give the same sound everywhere.

    Returns:
        float32 mono samples in [-0.5, 0.5], (round(duration_seconds * rate),).
    """
    rng = generator(scene.seed, 3)
    times = (np.arange(round(scene.duration_seconds * rate)) / rate).astype(np.float32)
    begin, end = action_span(scene)
    gate = np.clip(np.minimum(times - begin, end - times) / _FADE_SECONDS, 0, 1)
    share = np.clip((times - begin) / (end - begin), 0, 1)
    stage = _Stage(scene, rng, rate, times, share, gate, float(rng.uniform(260, 420)), begin, end)
    sound = _SOUNDS[scene.action](stage)
    loudness = _LOUDNESS * rng.uniform(0.6, 0.96)
    hiss = np.float32(_HISS) * np.clip(stage.noise(), -4, 4)
    samples: Samples = sound * np.float32(loudness / np.abs(sound).max()) + hiss
    return samples


def _phase(turns: NDArray[np.float64]) -> Samples:
    """Turns to radians in float32, in which numpy's sine is ten times as fast; whole turns are taken off before, to lose no digits."""
    return ((turns - np.floor(turns)) * (2 * np.pi)).astype(np.float32)


def _moves_left(stage: _Stage) -> Samples:
    return _tremolo(stage, 10 - 7 * stage.share)


def _moves_right(stage: _Stage) -> Samples:
    return _tremolo(stage, 3 + 7 * stage.share)


def _tremolo(stage: _Stage, frequency: Samples) -> Samples:
    wobble = 0.5 - 0.5 * np.cos(np.float32(2 * np.pi / stage.rate) * np.cumsum(frequency))
    trembling: Samples = stage.gate * wobble * stage.tone(stage.pitch)
    return trembling


def _moves_up(stage: _Stage) -> Samples:
    return stage.gate * stage.tone(stage.pitch * 2 ** (1.5 * stage.share))


def _moves_down(stage: _Stage) -> Samples:
    return stage.gate * stage.tone(stage.pitch * 2 ** (1.5 * (1 - stage.share)))


def _grows(stage: _Stage) -> Samples:
    return _swell(stage, stage.share)


def _shrinks(stage: _Stage) -> Samples:
    return _swell(stage, 1 - stage.share)


def _swell(stage: _Stage, largeness: Samples) -> Samples:
    return stage.gate * (0.1 + largeness ** np.float32(1.5)) * stage.tone(0.5 * stage.pitch * 2**-largeness, num_partials=8)


def _splits(stage: _Stage) -> Samples:
    crack = stage.strike(stage.begin, 900, 0.03, noise=1.0)
    return 1.5 * crack + stage.gate * _two_voices(stage, stage.share)


def _merges(stage: _Stage) -> Samples:
    pop = stage.strike(stage.end - 0.1, 240, 0.05, noise=0.2)
    return 2.5 * pop + stage.gate * _two_voices(stage, 1 - stage.share)


def _two_voices(stage: _Stage, apart: Samples) -> Samples:
    return stage.tone(stage.pitch * 2 ** (0.8 * apart)) + stage.tone(stage.pitch * 2 ** (-0.8 * apart))


def _appears(stage: _Stage) -> Samples:
    return stage.gate * (0.03 + stage.share**2) * _shimmer(stage)


def _vanishes(stage: _Stage) -> Samples:
    return stage.gate * (0.03 + (1 - stage.share) ** 2) * _shimmer(stage)


def _shimmer(stage: _Stage) -> Samples:
    partials = [stage.tone(stage.pitch * ratio, num_partials=1) for ratio in (4.0, 5.04, 5.99, 8.02)]
    return sum(partials, np.zeros_like(stage.times)) + 0.5 * np.diff(stage.noise(), prepend=np.float32(0))


def _spins(stage: _Stage) -> Samples:
    turns = 2 * np.pi * abs(stage.scene.motion.cycles) * stage.share
    whir: Samples = stage.gate * (1 + 0.9 * np.sin(6 * turns)) * (0.4 * stage.noise() + stage.tone(0.4 * stage.pitch, 6))
    return whir


def _bounces(stage: _Stage) -> Samples:
    return _strikes(stage, event_times(stage.scene), 0.35 * stage.pitch, 0.08, noise=0.15)


def _orbits(stage: _Stage) -> Samples:
    turns = 2 * np.pi * stage.scene.motion.cycles * stage.share
    return stage.gate * stage.tone(1.3 * stage.pitch * 2 ** (0.5 * np.sin(turns)), num_partials=2)


def _blinks(stage: _Stage) -> Samples:
    return _strikes(stage, event_times(stage.scene), 7 * stage.pitch, 0.012, noise=0.5)


def _collides(stage: _Stage) -> Samples:
    impact = event_times(stage.scene)[0]
    rush = stage.gate * np.clip((stage.times - stage.begin) / (impact - stage.begin), 0, 1) * (stage.times < impact)
    smooth = np.convolve(stage.noise(), np.full(12, 1 / 12, np.float32), mode="same")
    crash: Samples = 0.5 * rush * smooth + 2 * stage.strike(impact, 0.25 * stage.pitch, 0.15, noise=0.8)
    return crash


def _shakes(stage: _Stage) -> Samples:
    sway = np.abs(np.sin(2 * np.pi * stage.scene.motion.cycles * stage.share))
    rattle: Samples = stage.gate * sway**4 * np.diff(stage.noise(), prepend=np.float32(0))
    return rattle


def _rings(stage: _Stage) -> Samples:
    sound = np.zeros_like(stage.times)
    for seconds in _spread(stage, int(stage.rng.integers(2, 4))):
        for ratio, strength in ((1, 1), (2.0, 0.6), (2.76, 0.5), (5.4, 0.3)):
            sound += strength * stage.strike(seconds, 2 * stage.pitch * ratio, 0.5 / np.sqrt(ratio))
    return sound


def _buzzes(stage: _Stage) -> Samples:
    pulse = np.sin(np.pi * stage.rng.integers(1, 4) * stage.share) ** 2 > 0.1
    buzz: Samples = stage.gate * pulse * stage.tone(0.35 * stage.pitch, num_partials=24)
    return buzz


def _knocks(stage: _Stage) -> Samples:
    return _strikes(stage, _spread(stage, int(stage.rng.integers(3, 6))), 0.8 * stage.pitch, 0.025, noise=0.3)


def _whistles(stage: _Stage) -> Samples:
    bend = np.sin(np.pi * stage.rng.integers(1, 3) * stage.share) + 0.03 * np.sin(2 * np.pi * 6 * stage.times)
    return stage.gate * (stage.tone(5 * stage.pitch * 2 ** (0.4 * bend), num_partials=1) + 0.03 * stage.noise())


def _strikes(stage: _Stage, moments: list[float], frequency: float, decay_seconds: float, noise: float) -> Samples:
    strikes = [stage.strike(seconds, frequency, decay_seconds, noise) for seconds in moments]
    return sum(strikes, np.zeros_like(stage.times))


def _spread(stage: _Stage, number: int) -> list[float]:
    """So many moments, evenly spread over the action."""
    return [stage.begin + (stage.end - stage.begin) * k / number for k in range(number)]


_SOUNDS: Final[dict[str, Callable[[_Stage], Samples]]] = {
    "moves left": _moves_left,
    "moves right": _moves_right,
    "moves up": _moves_up,
    "moves down": _moves_down,
    "grows": _grows,
    "shrinks": _shrinks,
    "splits": _splits,
    "merges": _merges,
    "appears": _appears,
    "vanishes": _vanishes,
    "spins": _spins,
    "bounces": _bounces,
    "orbits": _orbits,
    "blinks": _blinks,
    "collides": _collides,
    "shakes": _shakes,
    "rings": _rings,
    "buzzes": _buzzes,
    "knocks": _knocks,
    "whistles": _whistles,
}
