"""Single frames with captions, such as ``"a red square"`` and ``"a small shape, top left"``.

They look like frames of clips, but their captions tell size, place and state, so that a model trained on them knows
what it sees in each frame of a clip before it learns what moves. Each caption tells one aspect and leaves the others out:
of captions that tell everything, colour and place alone tell most of a batch apart, and the shape is hardly learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from watchword.playground.motion import Poses
from watchword.playground.render import paint
from watchword.playground.setting import RGB, Block, Setting, generator, sample_colour, sample_grey, sample_setting
from watchword.playground.shapes import FOLDS
from watchword.playground.world import COLOURS, SHAPES, with_article

CAPTION_KINDS: Final = ("shape", "colour and shape", "size and place", "state and surroundings")
"""What each caption of a still tells, such as ``"a square"``, ``"a faint red square"``, ``"two small shapes side by side, top left"`` and
``"a tilted shape, near a grey post"``."""

SIZES: Final = ("tiny", "small", "medium", "large", "huge")
"""Size words; the bounds between them, as radius in frame sides, are `SIZE_BOUNDS`."""

SIZE_BOUNDS: Final = (0.125, 0.15, 0.18, 0.215)

COLUMNS: Final = ("far left", "left", "centre", "right", "far right")
ROWS: Final = ("top", "upper", "middle", "lower", "bottom")
"""Place words; the bounds between them, as the centre in frame sides, are `PLACE_BOUNDS` in both directions."""

PLACE_BOUNDS: Final = (0.26, 0.42, 0.58, 0.74)

_PLURALS: Final = {shape: "crosses" if shape == "cross" else f"{shape}s" for shape in (*SHAPES, "shape")}


@dataclass(frozen=True)
class Still:
    """One frame: where the object is, what it looks like, and what is said of it.

    Attributes:
        captions: one of each of `CAPTION_KINDS`.
        shape, colour, rgb: what the object is.
        radius, x, y, angle: size, place (the middle of two copies) and tilt.
        opacity: 0 (nothing to see) to 1.
        offset: (x, y) from the middle to one of two copies, or None if there is one.
        prop: a wall or a post.
        setting: everything around it.
    """

    seed: int
    captions: tuple[str, ...]
    shape: str
    colour: str
    rgb: RGB
    radius: float
    x: float
    y: float
    angle: float
    opacity: float
    offset: tuple[float, float] | None
    prop: Block | None
    setting: Setting


def sample_still(seed: int) -> Still:
    """A random still; the same seed gives the same still everywhere."""
    rng = generator(seed, 2)
    setting = sample_setting(rng)
    shape, colour = SHAPES[rng.integers(len(SHAPES))], COLOURS[rng.integers(len(COLOURS))]
    rgb = sample_colour(rng, colour)
    opacity = float(rng.choice([1.0, rng.uniform(0.25, 0.65), 0.0], p=[0.82, 0.13, 0.05]))
    size = int(rng.integers(len(SIZES)))
    radius = float(rng.uniform((0.1, *SIZE_BOUNDS)[size], (*SIZE_BOUNDS, 0.26)[size]))
    tilted = bool(rng.random() < 0.35)
    angle = float(rng.uniform(0.3, 2 * np.pi / FOLDS[shape] - 0.3) if tilted else rng.uniform(-0.12, 0.12))
    offset = _sample_offset(rng, radius) if rng.random() < 0.22 else None
    reach_x, reach_y = (radius + abs(step) for step in offset or (0.0, 0.0))
    x, y = float(rng.uniform(reach_x, 1 - reach_x)), float(rng.uniform(reach_y, 1 - reach_y))
    prop, beside = (None, "") if offset or rng.random() < 0.6 else _sample_prop(rng, setting, x, y, radius)
    captions = _captions(shape, colour, SIZES[size], tilted, opacity, offset, radius, place_words(x, y), beside)
    return Still(seed, captions, shape, colour, rgb, radius, x, y, angle, opacity, offset, prop, setting)


def render_still(seed: int | Still, *, size: int = 128) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """A still and its captions.

    Args:
        seed: any whole number >= 0, or a still from `sample_still`.
        size: side of the square frame in pixels, at least 16.

    Returns:
        uint8 RGB (size, size, 3), and one caption of each of `CAPTION_KINDS`.
    """
    still = seed if isinstance(seed, Still) else sample_still(seed)
    sides = np.array([[0.0]] if still.offset is None else [[-1.0], [1.0]])
    step_x, step_y = still.offset or (0.0, 0.0)
    same = np.ones_like(sides)
    where = Poses(
        x=still.x + step_x * sides,
        y=still.y + step_y * sides,
        radius=still.radius * same,
        angle=still.angle * same,
        opacity=still.opacity * same,
    )
    props = () if still.prop is None else (still.prop,)
    frames = paint(still.setting, props, still.shape, still.rgb, where, np.zeros(1), seed=still.seed, size=size)
    return frames[0], still.captions


def _sample_offset(rng: np.random.Generator, radius: float) -> tuple[float, float]:
    """From the middle of two copies to one of them: they overlap at most by half, and fit into the frame."""
    direction = rng.uniform(0, 2 * np.pi)
    distance = rng.uniform(0.5 * radius, min(0.3, 0.48 - radius))
    return float(distance * np.cos(direction)), float(distance * np.sin(direction))


def _sample_prop(rng: np.random.Generator, setting: Setting, x: float, y: float, radius: float) -> tuple[Block | None, str]:
    """A wall or a post next to the object, and the words for it; neither where it would stand outside the frame."""
    grey = sample_grey(rng, setting)
    if rng.random() < 0.5:
        half = float(rng.uniform(0.018, 0.032))
        direction, distance = rng.uniform(0, 2 * np.pi), radius + rng.uniform(0.04, 0.18)
        post_x, post_y = x + float(distance * np.cos(direction)), y + float(distance * np.sin(direction))
        inside = 0.05 < post_x < 0.95 and 0.05 < post_y < 0.95
        return (Block("disc", post_x, post_y, half, half, grey), "near a grey post") if inside else (None, "")
    depth, length = rng.uniform(0.02, 0.035), rng.uniform(0.15, 0.22)
    along = ((1, 0), (-1, 0), (0, 1), (0, -1))[rng.integers(4)]
    distance = radius + depth + rng.uniform(0.0, 0.06)
    wall_x, wall_y = float(x + distance * along[0]), float(y + distance * along[1])
    if not (0.03 < wall_x < 0.97 and 0.03 < wall_y < 0.97):
        return None, ""
    half_width, half_height = (depth, length) if along[0] else (length, depth)
    return Block("bar", wall_x, wall_y, float(half_width), float(half_height), grey), "beside a grey wall"


def _captions(
    shape: str,
    colour: str,
    size: str,
    tilted: bool,
    opacity: float,
    offset: tuple[float, float] | None,
    radius: float,
    place: str,
    beside: str,
) -> tuple[str, ...]:
    if opacity == 0:
        empty = "an empty scene"
        scenery = beside.replace("beside", "with").replace("near", "with")
        return empty, empty, empty, f"{empty}, {scenery}" if scenery else empty

    def told(*words: str) -> str:
        *adjectives, noun = (word for word in words if word)
        return f"two {' '.join([*adjectives, _PLURALS[noun]])} side by side" if offset else with_article(" ".join([*adjectives, noun]))

    faint = "faint" if opacity < 1 else ""
    apart = ("far apart" if np.hypot(*offset) > 1.3 * radius + 0.04 else "close together") if offset else ""
    return (
        told(shape),
        told(faint, colour, shape),
        f"{told(size, 'shape')}, {place}",
        ", ".join(part for part in (told("tilted" if tilted else "upright", "shape"), apart, beside) if part),
    )


def place_words(x: float, y: float) -> str:
    """Where a point is, such as ``"top left"``, ``"lower far right"`` or ``"centre"``; x and y in frame sides."""
    column = COLUMNS[int(np.searchsorted(PLACE_BOUNDS, x))]
    row = ROWS[int(np.searchsorted(PLACE_BOUNDS, y))]
    return "centre" if (row, column) == ("middle", "centre") else f"{row} {column}"
