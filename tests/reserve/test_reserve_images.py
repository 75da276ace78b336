"""Resizing by every kernel, and black bars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from watchword.errors import InputError
from watchword.reserve.images import BlackBars, fit, patches, training_scale_range, turn_tall
from watchword.reserve.resample import KERNELS, resample

PICTURE = np.random.default_rng(0).random((45, 70, 3), np.float32)


@pytest.mark.parametrize(
    ("kernel", "pillow"),
    [("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC), ("lanczos3", Image.Resampling.LANCZOS)],
)
@pytest.mark.parametrize("size", [(20, 33), (90, 200), (45, 20)])
def test_kernels_are_those_of_another_library(kernel: str, pillow: Image.Resampling, size: tuple[int, int]) -> None:
    found = resample(PICTURE, *size, kernel)
    for channel in range(3):
        expected = np.asarray(Image.fromarray(PICTURE[..., channel]).resize(size[::-1], pillow))
        assert np.abs(found[..., channel] - expected).max() < 2e-5


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KERNELS), st.integers(1, 40), st.integers(1, 40), st.floats(0, 1, width=32))
def test_one_colour_stays_that_colour(kernel: str, height: int, width: int, value: float) -> None:
    found = resample(np.full((13, 9, 3), value, np.float32), height, width, kernel)
    assert found.shape == (height, width, 3) and np.abs(found - value).max() < 1e-5


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_picture_turned_over_is_resized_the_same(kernel: str) -> None:
    found = resample(PICTURE, 23, 31, kernel)
    flipped = resample(PICTURE[::-1, ::-1], 23, 31, kernel)[::-1, ::-1]
    assert np.abs(found - flipped).max() < (1e-5 if kernel != "nearest" else 1)


def test_area_is_the_mean_of_whole_blocks() -> None:
    blocks = PICTURE[:44, :66].reshape(22, 2, 22, 3, 3).mean((1, 3))
    assert np.abs(resample(PICTURE[:44, :66], 22, 22, "area") - blocks).max() < 1e-6


def test_an_unknown_kernel_is_an_error() -> None:
    with pytest.raises(InputError, match="lanczos5"):
        resample(PICTURE, 3, 3, "sinc")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([(12, 20), (18, 32), (24, 24), (2, 3)]))
def test_every_shape_fits_into_every_grid(height: int, width: int, grid: tuple[int, int]) -> None:
    image = fit(np.full((height, width, 3), 255, np.uint8), grid)
    assert patches(image.pixels).shape == (grid[0] * grid[1], 768)
    rows, columns = image.content
    assert image.pixels[:rows, :columns].min() > 0.999
    assert not image.pixels[rows:].any() and not image.pixels[:, columns:].any()
    short = min(grid[0] * 16 - rows, grid[1] * 16 - columns)
    assert short <= 1  # one side is filled, but for a pixel lost by rounding


def test_a_patch_is_rows_then_columns_then_channels() -> None:
    pixels = np.arange(32 * 48 * 3, dtype=np.float32).reshape(32, 48, 3)
    assert patches(pixels)[4].numpy().tolist() == pixels[16:, 16:32].reshape(-1).tolist()


def test_only_tall_frames_are_turned() -> None:
    tall = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
    assert turn_tall(tall).shape == (6, 16, 3)
    assert np.allclose(turn_tall(tall)[0, 4] * 255, tall[0, -1])
    assert turn_tall(tall[:7]) is not None and turn_tall(tall[:7]).dtype == np.uint8


def test_the_range_of_zoom_for_other_resolutions() -> None:
    assert training_scale_range((18, 32)) == (1.0, pytest.approx(1.1))
    assert training_scale_range((24, 24)) == (1.0, pytest.approx(1.878, abs=1e-3))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 29), st.sampled_from([31, 32, 200])), min_size=1, max_size=5))
def test_bars_seen_frame_by_frame_are_those_seen_at_once(spots: list[tuple[int, int, int]]) -> None:
    frames = np.zeros((len(spots), 20, 30, 3), np.uint8)
    for frame, (y, x, value) in zip(frames, spots, strict=True):
        frame[y, x, 1] = value
    together, apart = BlackBars(), BlackBars()
    together.see(frames)
    for frame in frames:
        apart.see([frame])
    box = together.box()
    assert box == apart.box()
    assert box.y1 <= 4 and box.y2 >= 16 and box.x1 <= 6 and box.x2 >= 24
    for y, x, value in spots:
        assert value < 32 or (box.y1 <= y < box.y2 and box.x1 <= x < box.x2)


def test_frames_of_two_sizes_or_none_are_errors() -> None:
    bars = BlackBars()
    with pytest.raises(InputError, match="at least one"):
        bars.box()
    bars.see(np.zeros((1, 4, 6, 3), np.uint8))
    with pytest.raises(InputError, match="4x6 and 5x6"):
        bars.see(np.zeros((1, 5, 6, 3), np.uint8))
