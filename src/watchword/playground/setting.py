"""What surrounds the object of a scene: background, distractors, pixel noise, camera jitter, changing light.

Lengths and places are in units of the frame's side, x to the right, y down; colours are RGB in [0, 255].
"""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from watchword.errors import InputError

RGB = tuple[float, float, float]

BackgroundKind = Literal["plain", "gradient", "checker", "stripes", "blobs", "texture"]
BACKGROUND_KINDS: Final[tuple[BackgroundKind, ...]] = ("plain", "gradient", "checker", "stripes", "blobs", "texture")

_HUES: Final = {"red": 0.995, "orange": 0.078, "yellow": 0.148, "green": 0.37, "blue": 0.606, "purple": 0.785}
_VALUES: Final = {"red": 0.86, "orange": 0.96, "yellow": 0.97, "green": 0.66, "blue": 0.87, "purple": 0.72}


@dataclass(frozen=True)
class Background:
    """Two muted colours in a pattern of `cells` per frame side, turned by `angle` radians; `seed` places the blobs."""

    kind: BackgroundKind
    first: RGB
    second: RGB
    cells: float
    angle: float
    seed: int


@dataclass(frozen=True)
class Block:
    """A grey disc or bar: a distractor, or the wall or post that an action needs.

    Half its width and height are given (equal for a disc), and its speed in frame sides a second.
    """

    kind: Literal["disc", "bar"]
    x: float
    y: float
    half_width: float
    half_height: float
    grey: float
    speed_x: float = 0.0
    speed_y: float = 0.0


@dataclass(frozen=True)
class Setting:
    """The surroundings of a scene.

    Attributes:
        background: the picture behind everything.
        distractors: small grey blocks that mean nothing.
        noise: standard deviation of the pixel noise, in grey levels.
        jitter: the furthest that the camera shakes, in frame sides.
        flicker: the largest relative change of brightness.
        phases: three phases in [0, 1) of the camera's and the light's slow waves.
    """

    background: Background
    distractors: tuple[Block, ...]
    noise: float
    jitter: float
    flicker: float
    phases: tuple[float, float, float]


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The random numbers of a seed for one purpose: each purpose has a stream of its own, so that none shifts another.

    Raises:
        InputError: the seed is negative.
    """
    if seed < 0:
        raise InputError(f"a seed cannot be {seed}: give a whole number >= 0")
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, *stream))))


def sample_colour(rng: np.random.Generator, colour: str) -> RGB:
    """A shade of a named colour: slightly varied in hue, saturation and brightness."""
    hue = (_HUES[colour] + rng.uniform(-0.012, 0.012)) % 1
    value = min(1.0, _VALUES[colour] * rng.uniform(0.92, 1.06))
    return _rgb(hue, rng.uniform(0.8, 0.95), value)


def sample_setting(rng: np.random.Generator) -> Setting:
    """Random surroundings, the same in kind for every action."""
    value = rng.uniform(0.22, 0.88)
    step = rng.uniform(0.06, 0.18) * (1 if value < 0.5 else -1)
    hue, other_hue = rng.uniform(size=2)
    saturation, other_saturation = rng.uniform(0.0, 0.2, size=2)
    background = Background(
        kind=BACKGROUND_KINDS[rng.integers(len(BACKGROUND_KINDS))],
        first=_rgb(hue, saturation, value),
        second=_rgb(hue if rng.random() < 0.6 else other_hue, other_saturation, value + step),
        cells=float(rng.uniform(3, 9)),
        angle=float(rng.choice([0.0, np.pi / 2, rng.uniform(0, np.pi)])),
        seed=int(rng.integers(2**31)),
    )
    distractors = tuple(_sample_distractor(rng, value) for _ in range(rng.choice(3, p=[0.4, 0.35, 0.25])))
    first, second, third = rng.uniform(size=3).tolist()
    return Setting(
        background=background,
        distractors=distractors,
        noise=float(rng.choice([0.0, rng.uniform(1, 7)])),
        jitter=float(rng.choice([0.0, rng.uniform(0.004, 0.015)])),
        flicker=float(rng.choice([0.0, rng.uniform(0.01, 0.06)])),
        phases=(first, second, third),
    )


def sample_grey(rng: np.random.Generator, setting: Setting) -> float:
    """A grey that stands out from the background, for walls and posts."""
    brightness = sum(setting.background.first) / 3
    return float(np.clip(brightness + rng.uniform(70, 100) * (1 if brightness < 128 else -1), 25, 230))


def _sample_distractor(rng: np.random.Generator, value: float) -> Block:
    kind: Literal["disc", "bar"] = "disc" if rng.random() < 0.5 else "bar"
    half_width = rng.uniform(0.015, 0.035)
    half_height = half_width if kind == "disc" else half_width * rng.uniform(1.5, 4)
    if kind == "bar" and rng.random() < 0.5:
        half_width, half_height = half_height, half_width
    speed_x, speed_y = rng.uniform(-0.05, 0.05, size=2) if rng.random() < 0.5 else (0.0, 0.0)
    x, y = rng.uniform(0.08, 0.92, size=2)
    grey = np.clip(255 * (value + rng.choice([-1, 1]) * rng.uniform(0.1, 0.25)), 20, 235)
    values = (x, y, half_width, half_height, grey, speed_x, speed_y)
    return Block(kind, *(float(number) for number in values))


def _rgb(hue: float, saturation: float, value: float) -> RGB:
    red, green, blue = colorsys.hsv_to_rgb(hue, saturation, value)
    return 255 * red, 255 * green, 255 * blue
