"""Which frames and which crops, for any number of frames and any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.xclip.sampling import crop_choices, draw_crop, evaluation_indices, train_indices, train_support

totals = st.integers(1, 3000)
lengths = st.integers(1, 40)


@settings(deadline=None)
@given(totals, lengths, st.integers(1, 5))
def test_evaluation_clips_are_ordered_frames_of_the_video(total: int, num_frames: int, num_clips: int) -> None:
    clips = evaluation_indices(total, num_frames, num_clips=num_clips)
    assert clips.shape == (num_clips, num_frames) and clips.dtype == np.int64
    assert clips.min() >= 0 and clips.max() < total
    assert (np.diff(clips, axis=1) >= 0).all() and (np.diff(clips, axis=0) >= 0).all()


@settings(deadline=None)
@given(totals, st.sampled_from([4, 8, 16, 32]))
def test_one_clip_takes_the_middle_of_each_segment(total: int, num_frames: int) -> None:
    exact = [(2 * i + 1) * total // (2 * num_frames) for i in range(num_frames)]
    assert evaluation_indices(total, num_frames)[0].tolist() == exact


def test_four_clips_divide_the_segments() -> None:
    assert evaluation_indices(64, 8, num_clips=4)[:, 0].tolist() == [1, 3, 5, 7]


@settings(deadline=None)
@given(totals, lengths, st.integers(0, 2**32 - 1), st.booleans())
def test_training_draws_stay_in_their_support(total: int, num_frames: int, seed: int, legacy: bool) -> None:
    random = np.random.RandomState(seed) if legacy else np.random.default_rng(seed)
    drawn, support = train_indices(total, num_frames, random), train_support(total, num_frames)
    assert drawn.shape == (num_frames,)
    assert (support[:, 0] <= drawn).all() and (drawn <= support[:, 1]).all()
    assert support.min() >= 0 and support.max() < total


def test_training_reaches_every_frame_of_every_segment() -> None:
    random = np.random.default_rng(0)
    drawn = {int(index) for _ in range(200) for index in train_indices(24, 8, random)}
    assert drawn == set(range(24))


@pytest.mark.parametrize(("total", "num_frames"), [(0, 8), (-1, 8), (8, 0)])
def test_nothing_to_choose_from_is_an_error(total: int, num_frames: int) -> None:
    with pytest.raises(InputError, match="at least 1"):
        evaluation_indices(total, num_frames)
    with pytest.raises(InputError, match="at least 1"):
        train_indices(total, num_frames, np.random.default_rng(0))


@settings(deadline=None)
@given(st.integers(64, 700), st.integers(64, 700), st.integers(0, 1000))
def test_crops_lie_in_the_picture(width: int, height: int, seed: int) -> None:
    crop_size = min(width, height) * 7 // 8
    choices = crop_choices(width, height, crop_size)
    assert len(choices) == 10
    box = draw_crop(width, height, crop_size, np.random.default_rng(seed))
    assert box.x >= 0 and box.x + box.width <= width and box.y >= 0 and box.y + box.height <= height
