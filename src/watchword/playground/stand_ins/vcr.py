"""A stand-in for VCR: pictures of coloured shapes, under names of its classes of objects, with questions that only the picture answers.

Asked is for an object's colour, where it is, or what colour two objects share. A rationale follows from its answer: what has the colour, or
where the other object is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from watchword.files import write_text
from watchword.playground.motion import Poses
from watchword.playground.render import paint
from watchword.playground.setting import generator, sample_colour, sample_setting
from watchword.playground.shapes import outline
from watchword.playground.world import COLOURS, SHAPES, with_article

__all__ = ["CLASS_NAMES", "write_vcr"]

CLASS_NAMES: Final = {"square": "tv", "triangle": "kite", "star": "bird", "heart": "person", "cross": "airplane", "moon": "banana"}
"""The class of objects, one of VCR's 81, that stands for a shape."""

_COLOURED_LIKE: Final = dict(zip(COLOURS, ("cherry", "pumpkin", "lemon", "frog", "sapphire", "plum"), strict=True))
_OPPOSITES: Final = {"left": "right", "right": "left", "above": "below", "below": "above"}
_SIDES: Final = {"left": ("to", "the", "left", "of"), "right": ("to", "the", "right", "of"), "above": ("above",), "below": ("below",)}
_SPLITS: Final = ("train", "val", "test")
_QUESTIONS_A_PICTURE, _PICTURES_A_FILM, _MAX_OBJECTS = 2, 50, 3
_SEED_STREAM: Final = 21

Tokens = list[Any]


@dataclass(frozen=True)
class _Thing:
    """An object: its colour, box and outline in pixels of the picture."""

    name: str
    colour: str
    corners: NDArray[np.float64]

    @property
    def box(self) -> list[float]:
        (left, top), (right, bottom) = self.corners.min(axis=0), self.corners.max(axis=0)
        return [round(float(side), 2) for side in (left, top, right, bottom)]


@dataclass(frozen=True)
class _Question:
    question: Tokens
    answers: list[Tokens]  # the right one first, as are the rationales
    rationales: list[Tokens]


def write_vcr(
    folder: str | Path,
    num_questions: int,
    *,
    num_val: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
    size: int = 96,
) -> None:
    """Write ``train.jsonl`` of so many questions, ``val.jsonl``, ``test.jsonl`` (without labels) and ``vcr1images`` into the folder.

    The same values give the same files; test.jsonl is written last. ``num_val``, ``num_test``: a quarter of ``num_questions`` where they
    are not given. ``size``: side in pixels of the square that an object has; one to three of them side by side, or one above the other,
    make a picture.
    """
    folder = Path(folder)
    (folder / "vcr1images").mkdir(parents=True, exist_ok=True)
    write_text(folder / "vcr1images" / "VERSION.txt", "1.0\n")
    quarter = max(1, num_questions // 4)
    for split, count in zip(_SPLITS, (num_questions, num_val or quarter, num_test or quarter), strict=True):
        rows: list[dict[str, Any]] = []
        while len(rows) < count:
            rows += _write_picture(folder, split, len(rows), seed, size)
        write_text(folder / f"{split}.jsonl", "".join(json.dumps(row) + "\n" for row in rows[:count]))


def _write_picture(folder: Path, split: str, first: int, seed: int, size: int) -> list[dict[str, Any]]:
    """Writes a picture with its objects; the rows of its questions, the first of number ``first``."""
    number = first // _QUESTIONS_A_PICTURE
    draw = generator(seed, _SEED_STREAM, _SPLITS.index(split), number)
    pixels, things, upright = _sample_picture(draw, size)
    film = f"playground_{split}_{number // _PICTURES_A_FILM:03d}"
    name = f"{film}/{number:06d}@0"
    place = folder / "vcr1images" / name
    place.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(place.with_name(place.name + ".jpg"), quality=95)
    metadata = {
        "boxes": [[*thing.box, round(float(draw.uniform(0.8, 1.0)), 4)] for thing in things],
        "segms": [[np.rint(thing.corners).astype(int).tolist()] for thing in things],
        "names": [thing.name for thing in things],
        "width": pixels.shape[1],
        "height": pixels.shape[0],
    }
    place.with_name(place.name + ".json").write_text(json.dumps(metadata), encoding="utf-8")
    shared = {
        "movie": film, "objects": metadata["names"], "interesting_scores": [0], "img_fn": f"{name}.jpg", "metadata_fn": f"{name}.json",
        "img_id": f"{split}-{number}", "match_fold": f"{split}-0",
    }  # fmt: skip
    rows = []
    for turn in range(_QUESTIONS_A_PICTURE):
        asked = {**shared, "question_number": turn, "annot_id": f"{split}-{first + turn}", "match_index": first + turn}
        rows.append({**asked, **_row(draw, _sample_question(draw, things, upright), labelled=split != "test")})
    return rows


def _sample_picture(draw: np.random.Generator, size: int) -> tuple[NDArray[np.uint8], list[_Thing], bool]:
    """The pixels (height, width, 3), the objects from left to right, or from above, and whether they are one above the other."""
    count, upright, alike = int(draw.integers(1, _MAX_OBJECTS + 1)), bool(draw.random() < 0.4), bool(draw.random() < 0.4)
    setting = replace(sample_setting(draw), jitter=0.0)
    tiles, things, colour = [], [], COLOURS[draw.integers(len(COLOURS))]
    for place in range(count):
        shape = SHAPES[draw.integers(len(SHAPES))]
        colour = colour if alike else COLOURS[draw.integers(len(COLOURS))]
        radius, angle = draw.uniform(0.24, 0.36), draw.uniform(-0.4, 0.4)
        along, across = draw.uniform(radius, 1 - radius), draw.uniform(0.45, 0.55)  # in a row none is above another
        x, y = (across, along) if upright else (along, across)
        pose = Poses(*(np.array([[value]]) for value in (x, y, radius, angle, 1.0)))
        tile = paint(setting, (), shape, sample_colour(draw, colour), pose, np.zeros(1), seed=int(draw.integers(2**31)), size=size)
        tiles.append(tile[0])
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        corners = (outline(shape) @ turn * radius + [x, y]) * size
        corners[:, int(upright)] += place * size
        things.append(_Thing(CLASS_NAMES[shape], colour, corners))
    return np.concatenate(tiles, axis=0 if upright else 1), things, upright


def _sample_question(draw: np.random.Generator, things: Sequence[_Thing], upright: bool) -> _Question:
    about, *others = draw.permutation(len(things)).tolist()
    kind = draw.random()
    if others and kind < 0.3:
        return _about_place(about, others[0], upright)
    twin = next((other for other in others if things[other].colour == things[about].colour), None)
    if twin is not None and kind < 0.6:
        both = sorted([about, twin])
        return _about_colour(draw, ["What", "do", both, "have", "in", "common", "?"], ["They", "are", "both"], both, things[about].colour)
    return _about_colour(draw, ["What", "colour", "is", [about], "?"], [[about], "is"], [about], things[about].colour)


def _about_colour(draw: np.random.Generator, question: Tokens, begin: Tokens, tag: list[int], colour: str) -> _Question:
    others = [other for other in draw.permutation(COLOURS).tolist() if other != colour][:3]
    colours = [colour, *others]
    likes = [with_article(_COLOURED_LIKE[each]).split() for each in colours]
    answers = [[*begin, each, "."] for each in colours]
    return _Question(question, answers, [[tag, "could", "have", "been", *like, ",", "could", "n't", "it", "?"] for like in likes])


def _about_place(about: int, other: int, upright: bool) -> _Question:
    before, behind = ("above", "below") if upright else ("left", "right")
    right = before if about < other else behind
    sides = [right, *(side for side in _SIDES if side != right)]
    answers = [["It", "'s", *_SIDES[side], [other], "."] for side in sides]
    rationales = [[[other], "is", "seen", *_SIDES[_OPPOSITES[side]], [about], "."] for side in sides]
    return _Question(["Where", "'s", [about], "?"], answers, rationales)


def _row(draw: np.random.Generator, asked: _Question, *, labelled: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"question": asked.question}
    for name, choices in (("answer", asked.answers), ("rationale", asked.rationales)):
        order = draw.permutation(len(choices))
        row[f"{name}_choices"] = [choices[place] for place in order]
        if labelled:
            label = int(np.flatnonzero(order == 0)[0])
            row |= {f"{name}_label": label, f"{name}_match_iter": order.tolist(), f"{name}_sources": order.tolist()}
            row[f"{name}_orig"] = " ".join(map(str, choices[0]))
    return row | ({"question_orig": " ".join(map(str, asked.question)), "answer_likelihood": "likely"} if labelled else {})
