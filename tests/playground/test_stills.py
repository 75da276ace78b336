from __future__ import annotations

from collections import Counter

import numpy as np

from watchword.playground import COLOURS, SHAPES, render_still, sample_still
from watchword.playground.stills import COLUMNS, ROWS, SIZES, place_words


def test_a_seed_fixes_a_still() -> None:
    for seed in range(10):
        first, second = render_still(seed, size=48), render_still(sample_still(seed), size=48)
        np.testing.assert_array_equal(first[0], second[0])
        assert first[1] == second[1]
        assert first[0].shape == (48, 48, 3)
        assert first[0].dtype == np.uint8


def test_captions_are_true() -> None:
    for seed in range(400):
        still = sample_still(seed)
        caption = still.caption
        if still.opacity == 0:
            assert caption.startswith("an empty scene")
            continue
        assert f"{still.colour} {still.shape}" in caption
        assert caption.startswith("two ") == (still.offset is not None)
        assert ("faint" in caption) == (still.opacity < 1)
        assert caption.split()[0] in ("a", "an", "two")
        if "grey" in caption:
            assert still.prop is not None
        place = place_words(still.x, still.y)
        told = [part for part in caption.split(", ")[1:] if part.split()[0] in (*ROWS, "centre")]
        assert told in ([], [place])


def test_captions_use_all_words_and_leave_parts_out() -> None:
    captions = [sample_still(seed).caption for seed in range(1500)]
    text = " ".join(captions)
    words = [*SHAPES, *COLOURS, *SIZES, *COLUMNS, *ROWS, "tilted", "upright", "faint", "two", "close together"]
    for word in (*words, "far apart", "beside a grey wall", "near a grey post", "an empty scene"):
        assert word in text
    assert max(Counter(captions).values()) < 120
    assert any(caption.count(" ") == 2 for caption in captions)


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
