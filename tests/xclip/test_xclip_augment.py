"""What the random changes of training clips promise: drawn once a clip or once a frame, in range, repeatable, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_clips import write_video
from watchword.datasets.videos import VideoClips
from watchword.errors import ConfigError
from watchword.xclip import Preprocessing, XClipConfig
from watchword.xclip.augment import Augmentation
from watchword.xclip.resize import rescaled_size, resize
from watchword.xclip.sampling import crop_choices

PAPERS = Augmentation()
STILL = Augmentation(flip_probability=0, jitter_probability=0, grey_probability=0)  # the crop alone
LARGER = Preprocessing.official(64)


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def noise(num_frames: int = 3, size: tuple[int, int] = (80, 100)) -> np.ndarray:
    """The same coloured noise in every frame."""
    return np.repeat(generator(0).integers(0, 256, (1, *size, 3), dtype=np.uint8), num_frames, axis=0)


def changed(augmentation: Augmentation, frames: np.ndarray, seed: int = 3, preprocessing: Preprocessing = LARGER) -> np.ndarray:
    return augmentation.draw(len(frames), generator(seed)).clip(frames, preprocessing)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans())
def test_what_is_drawn_lies_in_its_range_and_is_a_function_of_the_seed(seed: int, num_frames: int, per_frame: bool) -> None:
    augmentation = Augmentation(jitter_per_frame=per_frame)
    changes = augmentation.draw(num_frames, generator(seed))
    assert changes == augmentation.draw(num_frames, generator(seed))
    assert len(changes.jitters) in (0, num_frames)
    assert per_frame or len(set(changes.jitters)) <= 1
    for jitter in changes.jitters:
        brightness, contrast, saturation, hue = jitter.factors
        assert 0.6 <= brightness <= 1.4 and 0.6 <= contrast <= 1.4 and 0.8 <= saturation <= 1.2 and -0.1 <= hue <= 0.1
        assert sorted(jitter.order) == [0, 1, 2, 3]


def test_gates_open_as_often_as_they_say_and_orders_and_factors_vary() -> None:
    drawn = [Augmentation().draw(2, generator(seed)) for seed in range(2000)]
    for share, expected in (
        (np.mean([changes.flipped for changes in drawn]), 0.5),
        (np.mean([bool(changes.jitters) for changes in drawn]), 0.8),
        (np.mean([changes.grey for changes in drawn]), 0.2),
    ):
        assert share == pytest.approx(expected, abs=0.04)
    jitters = [jitter for changes in drawn for jitter in changes.jitters]
    assert len({jitter.order for jitter in jitters}) == 24
    low, high = (function([jitter.factors for jitter in jitters], axis=0) for function in (np.min, np.max))
    assert np.allclose(low, [0.6, 0.6, 0.8, -0.1], atol=0.01) and np.allclose(high, [1.4, 1.4, 1.2, 0.1], atol=0.01)


@pytest.mark.parametrize("size", [(80, 100), (150, 70), (64, 64)])
def test_the_crop_is_one_of_the_released_ones_resized_twice(size: tuple[int, int]) -> None:
    frame = noise(1, size)[0]
    width, height = rescaled_size(size[1], size[0], LARGER.short_side)
    whole = resize(frame, width, height)
    possible = {
        resize(whole[y : y + choice.height, x : x + choice.width], 64, 64).tobytes()
        for choice in crop_choices(width, height, 64)
        for x, y in choice.offsets
    }
    found = {changed(STILL, frame[None], seed).tobytes() for seed in range(300)}
    assert found == possible and len(found) > 20


@pytest.mark.parametrize("interpolation", ["opencv_bilinear", "antialiased_bilinear"])
def test_crop_and_flip_are_drawn_once_a_clip(interpolation: str) -> None:
    preprocessing = replace(LARGER, interpolation=interpolation)  # type: ignore[arg-type]
    clip = changed(STILL, noise(), preprocessing=preprocessing)
    assert clip.shape == (3, 64, 64, 3) and clip.dtype == np.uint8
    assert (clip == clip[0]).all()
    mirrored = changed(replace(STILL, flip_probability=1), noise(), preprocessing=preprocessing)
    assert np.array_equal(mirrored, clip[:, :, ::-1])


def test_without_a_jitter_an_antialiased_crop_is_near_its_place() -> None:
    ramp = np.broadcast_to(np.linspace(0, 255, 100).astype(np.uint8)[None, :, None], (80, 100, 3))[None]
    exact, smooth = (
        changed(STILL, ramp, preprocessing=replace(LARGER, interpolation=name)).astype(int)  # type: ignore[arg-type]
        for name in ("opencv_bilinear", "antialiased_bilinear")
    )
    assert abs(exact - smooth).max() <= 5


def test_colours_change_frame_by_frame_as_released_or_alike_in_the_whole_clip() -> None:
    flickering = changed(replace(STILL, jitter_probability=1), noise())
    assert not np.array_equal(flickering[0], flickering[1]) and not np.array_equal(flickering[1], flickering[2])
    steady = changed(replace(STILL, jitter_probability=1, jitter_per_frame=False), noise())
    assert (steady == steady[0]).all()
    assert not np.array_equal(steady[0], changed(STILL, noise())[0])


def test_a_jitter_of_nothing_changes_nothing_but_the_rounding_of_hue() -> None:
    nothing = Augmentation(flip_probability=0, jitter_probability=1, grey_probability=0, brightness=0, contrast=0, saturation=0, hue=0)
    smooth = np.full((2, 80, 100, 3), (200, 120, 40), np.uint8)
    assert abs(changed(nothing, smooth).astype(int) - changed(STILL, smooth)).max() <= 2


def test_a_grey_clip_is_grey_by_luma() -> None:
    coloured = np.full((2, 80, 100, 3), (255, 0, 0), np.uint8)
    assert (changed(replace(STILL, grey_probability=1), coloured) == round(0.299 * 255)).all()
    jittered = changed(Augmentation(jitter_probability=1, grey_probability=1), noise())
    assert (jittered == jittered[..., :1]).all()


@pytest.mark.parametrize(
    ("values", "named"),
    [({"flip_probability": 1.5}, "flip_probability"), ({"hue": 0.6}, "hue is 0.6"), ({"brightness": -0.1}, "brightness")],
)
def test_values_out_of_range_are_named(values: dict[str, float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Augmentation(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., VideoClips]:
    folder = tmp_path_factory.mktemp("clips")
    annotations = [(write_video(folder / f"{number}.mp4", num_frames=num_frames), "x") for number, num_frames in enumerate((20, 3))]
    config = XClipConfig(image_size=32, patch_size=16, num_frames=4, preprocessing=Preprocessing.official(32))

    def make(*, training: bool = True, seed: int = 0, augment: Augmentation | None = PAPERS) -> VideoClips:
        return VideoClips(annotations, ["x"], config, training=training, seed=seed, augment=augment)

    return make


def test_a_training_clip_is_a_function_of_seed_epoch_and_index(clips: Callable[..., VideoClips]) -> None:
    positions = [(epoch, index) for epoch in (0, 1) for index in (0, 1)]
    first = {position: clips()[position]["frames"] for position in positions}
    data = clips()
    for position in reversed(positions):  # another order of reading gives the same clips
        assert np.array_equal(data[position]["frames"], first[position])
    assert all(frames.shape == (4, 32, 32, 3) for frames in first.values())
    assert not np.array_equal(first[0, 0], first[1, 0])
    assert not np.array_equal(first[0, 0], clips(seed=1)[0, 0]["frames"])


def test_held_out_clips_are_never_changed(clips: Callable[..., VideoClips]) -> None:
    plain, told_to = (clips(training=False, augment=augment)[0, 0]["frames"] for augment in (None, Augmentation()))
    assert np.array_equal(plain, told_to)
