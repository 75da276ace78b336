from __future__ import annotations

import numpy as np

from watchword.playground import COLOURS, SHAPES, render_still, sample_still
from watchword.playground.stills import CAPTION_KINDS, COLUMNS, ROWS, SIZES, place_words


def test_a_seed_fixes_a_still() -> None:
    for seed in range(10):
        first, second = render_still(seed, size=48), render_still(sample_still(seed), size=48)
        np.testing.assert_array_equal(first[0], second[0])
        assert first[1] == second[1]
        assert first[0].shape == (48, 48, 3)
        assert first[0].dtype == np.uint8


def test_captions_are_true_and_each_tells_its_own_aspect() -> None:
    for seed in range(400):
        still = sample_still(seed)
        assert len(still.captions) == len(CAPTION_KINDS)
        shape, colour, place, state = still.captions
        if still.opacity == 0:
            assert shape == colour == place == "an empty scene"
            assert state.startswith("an empty scene")
            continue
        for caption in still.captions:
            article, noun = caption.split()[:2]
            assert article == ("two" if still.offset else "an" if noun[0] in "aeiou" else "a")
        assert still.shape in shape
        assert not any(name in shape for name in COLOURS)
        assert f"{still.colour} {still.shape}" in colour
        assert ("faint" in colour) == (still.opacity < 1)
        assert place.endswith(f", {place_words(still.x, still.y)}")
        assert not any(name in place for name in (*COLOURS, *SHAPES))
        assert ("grey" in state) == (still.prop is not None)
        assert ("tilted" in state) == (abs(still.angle) > 0.2)


def test_captions_use_all_words() -> None:
    text = " ".join(caption for seed in range(1500) for caption in sample_still(seed).captions)
    words = [*SHAPES, *COLOURS, *SIZES, *COLUMNS, *ROWS, "tilted", "upright", "faint", "two", "close together", "crosses side by side"]
    for word in (*words, "far apart", "beside a grey wall", "near a grey post", "an empty scene, with a grey wall"):
        assert word in text


def test_places_have_natural_names() -> None:
    assert place_words(0.1, 0.1) == "top far left"
    assert place_words(0.5, 0.5) == "centre"
    assert place_words(0.5, 0.9) == "bottom centre"
    assert place_words(0.35, 0.5) == "middle left"


def test_the_object_is_where_its_caption_says() -> None:
    for seed in range(60):
        still = sample_still(seed)
        frame, _ = render_still(still, size=64)
        saturation = np.ptp(frame.astype(int), axis=-1)
        if still.opacity == 1 and still.offset is None and still.radius > 0.1:
            y, x = np.argwhere(saturation > 110).mean(axis=0) / 64
            assert abs(x - still.x) < 0.08 and abs(y - still.y) < 0.08
