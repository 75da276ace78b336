"""The words of the playground: shapes, colours, actions, and the phrases made of them.

A phrase such as ``"a red square moves left"`` names one shape, one colour and one action. Everything else in a rendered
scene (place, size, speed, background, ...) is left unsaid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from watchword.errors import InputError

Split = Literal["train", "unseen"]

SHAPES: Final = ("square", "triangle", "star", "heart", "cross", "moon")
"""Shape names. None looks the same at every angle, so spinning shows on all of them."""

COLOURS: Final = ("red", "orange", "yellow", "green", "blue", "purple")
"""Colour names, well apart in hue."""


@dataclass(frozen=True)
class Action:
    """Something an object does.

    Attributes:
        name: the verb phrase, such as ``"moves left"``.
        order_dependent: the action is another action played backwards, so that only the order of the frames tells it.
        heard_only: the picture is the same for all such actions (the object rests); only the sound tells it.
    """

    name: str
    order_dependent: bool = False
    heard_only: bool = False


ACTIONS: Final = (
    Action("moves left", order_dependent=True),
    Action("moves right", order_dependent=True),
    Action("moves up", order_dependent=True),
    Action("moves down", order_dependent=True),
    Action("grows", order_dependent=True),
    Action("shrinks", order_dependent=True),
    Action("splits", order_dependent=True),
    Action("merges", order_dependent=True),
    Action("appears", order_dependent=True),
    Action("vanishes", order_dependent=True),
    Action("spins"),
    Action("bounces"),
    Action("orbits"),
    Action("blinks"),
    Action("collides"),
    Action("shakes"),
    Action("rings", heard_only=True),
    Action("buzzes", heard_only=True),
    Action("knocks", heard_only=True),
    Action("whistles", heard_only=True),
)
"""All actions: the 16 that can be seen, then the 4 that can only be heard."""

SEEN_ACTIONS: Final = tuple(action for action in ACTIONS if not action.heard_only)
HEARD_ACTIONS: Final = tuple(action for action in ACTIONS if action.heard_only)

REVERSED: Final = {
    "moves right": "moves left",
    "moves down": "moves up",
    "shrinks": "grows",
    "merges": "splits",
    "vanishes": "appears",
}
"""Actions that are rendered as another one played backwards."""

_BY_NAME: Final = {action.name: action for action in ACTIONS}


def find_action(action: Action | str) -> Action:
    """The action of a name such as ``"moves left"``; an `Action` is given back as it is.

    Raises:
        InputError: no action has this name.
    """
    if isinstance(action, Action):
        return action
    if action not in _BY_NAME:
        raise InputError(f"no action is called {action!r}: choose one of {', '.join(_BY_NAME)}")
    return _BY_NAME[action]


def with_article(words: str) -> str:
    """The words with ``"a"`` or ``"an"`` before them."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def phrase(shape: str, colour: str, action: Action | str) -> str:
    """The phrase that names a scene, such as ``"an orange star spins"``.

    Raises:
        InputError: the shape, the colour or the action is none of this world's.
    """
    _index(shape, colour)
    return f"{with_article(f'{colour} {shape}')} {find_action(action).name}"


def parse_phrase(text: str) -> tuple[str, str, Action]:
    """The shape, colour and action that a phrase names: the inverse of `phrase`.

    Raises:
        InputError: the text is no phrase of this world.
    """
    match = _PHRASE.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is no phrase of the playground: write one like 'a red square moves left'")
    colour, shape, action = match.groups()
    return shape, colour, _BY_NAME[action]


def held_out(shape: str, colour: str, action: Action | str) -> bool:
    """Whether a combination belongs to the ``"unseen"`` test split, about a fifth of all.

    A Latin-square rule: every (shape, colour), (shape, action) and (colour, action) pair still occurs in training, and
    each of them is held out about as often as any other.
    """
    shape_index, colour_index = _index(shape, colour)
    return (shape_index + 2 * colour_index + ACTIONS.index(find_action(action))) % 5 == 0


@cache
def combinations(*, split: Split | None = None, heard: bool = False) -> tuple[tuple[str, str, Action], ...]:
    """All (shape, colour, action) of a split in a fixed order; those that can only be heard come last, if asked for."""
    if split not in (None, "train", "unseen"):
        raise InputError(f"no split is called {split!r}: choose 'train', 'unseen' or None for both")
    return tuple(
        (shape, colour, action)
        for actions in ((SEEN_ACTIONS, HEARD_ACTIONS) if heard else (SEEN_ACTIONS,))
        for shape in SHAPES
        for colour in COLOURS
        for action in actions
        if split is None or held_out(shape, colour, action) == (split == "unseen")
    )


def _index(shape: str, colour: str) -> tuple[int, int]:
    if shape not in SHAPES:
        raise InputError(f"no shape is called {shape!r}: choose one of {', '.join(SHAPES)}")
    if colour not in COLOURS:
        raise InputError(f"no colour is called {colour!r}: choose one of {', '.join(COLOURS)}")
    return SHAPES.index(shape), COLOURS.index(colour)


_PHRASE: Final = re.compile(rf"an? ({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) ({'|'.join(_BY_NAME)})")

PHRASES: Final = tuple(phrase(*combination) for combination in combinations())
"""The 576 phrases that can be seen, in a fixed order."""

HEARD_PHRASES: Final = tuple(phrase(*combination) for combination in combinations(heard=True)[len(PHRASES) :])
"""The 144 phrases that can only be heard, in a fixed order."""
