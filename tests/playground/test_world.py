from __future__ import annotations

from itertools import product

import pytest

from watchword.errors import InputError
from watchword.playground import (
    ACTIONS,
    COLOURS,
    HEARD_PHRASES,
    PHRASES,
    SEEN_ACTIONS,
    SHAPES,
    held_out,
    parse_phrase,
    phrase,
    sample_scene,
)


def test_phrases_are_ordinary_words_with_the_right_article() -> None:
    assert phrase("square", "red", "moves left") == "a red square moves left"
    assert phrase("star", "orange", "spins") == "an orange star spins"
    assert len(set(PHRASES)) == 576
    assert len(set(HEARD_PHRASES)) == 144
    assert not set(PHRASES) & set(HEARD_PHRASES)


def test_parse_phrase_is_the_inverse_of_phrase() -> None:
    for text in PHRASES + HEARD_PHRASES:
        assert phrase(*parse_phrase(text)) == text


@pytest.mark.parametrize("text", ["", "a red square", "a red circle moves left", "a red square moves left."])
def test_parse_phrase_refuses_other_words(text: str) -> None:
    with pytest.raises(InputError, match="no phrase"):
        parse_phrase(text)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="no shape is called 'circle'"):
        phrase("circle", "red", "spins")
    with pytest.raises(InputError, match="no action is called 'sings'"):
        sample_scene(0, action="sings")


def test_every_pair_of_words_occurs_in_training_and_about_a_fifth_is_held_out() -> None:
    train = [c for c in product(SHAPES, COLOURS, ACTIONS) if not held_out(*c)]
    assert {c[:2] for c in train} == set(product(SHAPES, COLOURS))
    assert {c[::2] for c in train} == set(product(SHAPES, ACTIONS))
    assert {c[1:] for c in train} == set(product(COLOURS, ACTIONS))
    unseen = [c for c in product(SHAPES, COLOURS, SEEN_ACTIONS) if held_out(*c)]
    assert 0.18 < len(unseen) / len(PHRASES) < 0.22
    for action in SEEN_ACTIONS:
        assert 5 <= sum(c[2] == action for c in unseen) <= 9


def test_splits_hold_their_own_combinations_only() -> None:
    for seed in range(100):
        for split in ("train", "unseen"):
            scene = sample_scene(seed, split=split)
            assert held_out(scene.shape, scene.colour, scene.action) == (split == "unseen")
    with pytest.raises(InputError, match="no combination"):
        sample_scene(0, shape="square", colour="red", action="moves left", split="train")
