"""Frames to tensors: the resizing rule, the crops, Hugging Face's variant, and clips from files and arrays."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.errors import InputError
from watchword.xclip import Preprocessing, XClipConfig, frame_transform, load_clip, to_tensor
from watchword.xclip.huggingface import preprocessing_from_huggingface
from watchword.xclip.inputs import three_crops
from watchword.xclip.resize import Box, rescaled_size, resize
from watchword.xclip.sampling import evaluation_indices

Picture = npt.NDArray[np.uint8]
sides = st.integers(1, 24)


def noise(height: int, width: int, seed: int = 0) -> Picture:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def resized_by_the_formula(frame: Picture, width: int, height: int) -> Picture:
    """Spec section 13.1, one pixel at a time."""

    def weights(ratio: np.float32) -> tuple[int, int]:
        return round(float((np.float32(1) - ratio) * np.float32(2048))), round(float(ratio * np.float32(2048)))

    def position(index: int, source: int, target: int) -> tuple[int, np.float32]:
        exact = np.float32((index + 0.5) * (source / target) - 0.5)
        return math.floor(exact), np.float32(exact - np.floor(exact))

    source_height, source_width = frame.shape[:2]
    out = np.zeros((height, width, 3), np.uint8)
    pixels = frame.astype(int)
    for y in range(height):
        row, ratio = position(y, source_height, height)
        upper, lower = weights(ratio)
        rows = [min(max(row, 0), source_height - 1), min(max(row + 1, 0), source_height - 1)]
        for x in range(width):
            column, ratio = position(x, source_width, width)
            if column < 0 or column >= source_width - 1:
                column, ratio = min(max(column, 0), source_width - 1), np.float32(0)
            left, right = weights(ratio)
            h = [left * pixels[r, column] + right * pixels[r, min(column + 1, source_width - 1)] for r in rows]
            out[y, x] = (((upper * (h[0] >> 4)) >> 16) + ((lower * (h[1] >> 4)) >> 16) + 2) >> 2
    return out


@settings(max_examples=60, deadline=None)
@given(sides, sides, sides, sides, st.integers(0, 99))
def test_resizing_is_the_formula(height: int, width: int, new_height: int, new_width: int, seed: int) -> None:
    frame = noise(height, width, seed)
    assert np.array_equal(resize(frame, new_width, new_height), resized_by_the_formula(frame, new_width, new_height))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 90), st.integers(2, 90), st.integers(2, 90), st.integers(2, 90), st.data())
def test_a_box_is_a_part_of_the_whole(height: int, width: int, new_height: int, new_width: int, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(0, new_width - 1)), data.draw(st.integers(0, new_height - 1))
    box = Box(x, y, data.draw(st.integers(1, new_width - x)), data.draw(st.integers(1, new_height - y)))
    frame = noise(height, width)
    whole = resize(frame, new_width, new_height)
    assert np.array_equal(resize(frame, new_width, new_height, box), whole[y : y + box.height, x : x + box.width])


@pytest.mark.parametrize(("height", "width"), [(90, 160), (160, 90), (64, 64), (30, 20), (1, 1), (7, 400)])
def test_the_middle_of_any_frame_has_the_model_size(height: int, width: int) -> None:
    for interpolation in ("opencv_bilinear", "antialiased_bilinear"):
        preprocessing = Preprocessing(crop_size=32, short_side=36, interpolation=interpolation)  # type: ignore[arg-type]
        transform = pickle.loads(pickle.dumps(frame_transform(preprocessing)))
        assert transform(noise(height, width)).shape == (32, 32, 3)


def test_frames_may_be_read_only_and_views() -> None:
    frame = noise(90, 160)
    frame.setflags(write=False)
    for interpolation in ("opencv_bilinear", "antialiased_bilinear"):
        preprocessing = Preprocessing(crop_size=64, short_side=73, interpolation=interpolation)  # type: ignore[arg-type]
        transform = frame_transform(preprocessing)
        assert np.array_equal(transform(frame[:, ::-1]), transform(frame[:, ::-1].copy()))
    assert to_tensor(frame, Preprocessing()).shape == (3, 90, 160)


def test_three_crops_cover_the_longer_side() -> None:
    frame = noise(64, 115)
    crops = three_crops(frame, Preprocessing.official(64))
    assert np.array_equal(crops, np.stack([frame[:, :64], frame[:, 50:114], frame[:, 25:89]]))


def test_values_are_normalised() -> None:
    preprocessing = Preprocessing(mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    frames = np.full((2, 1, 4, 4, 3), 255, np.uint8)
    tensor = to_tensor(frames, preprocessing)
    assert tensor.shape == (2, 1, 3, 4, 4) and tensor.dtype == torch.float32 and tensor.is_contiguous()
    assert torch.allclose(tensor[0, 0, :, 0, 0], torch.tensor([1.0, 3.0, 1.0]))
    assert torch.equal(tensor, to_tensor(torch.from_numpy(frames), preprocessing))


@pytest.mark.parametrize("frames", [np.zeros((2, 4, 4, 3), np.float32), np.zeros((2, 3, 4, 4), np.uint8), np.zeros(3, np.uint8)])
def test_other_arrays_are_refused(frames: Picture) -> None:
    with pytest.raises(InputError, match="8-bit RGB"):
        to_tensor(frames, Preprocessing())


@pytest.mark.parametrize(("height", "width"), [(90, 160), (161, 97), (40, 50)])
def test_antialiased_frames_are_those_of_hugging_face(height: int, width: int) -> None:
    transformers = pytest.importorskip("transformers")
    processor = transformers.VideoMAEImageProcessor(size={"shortest_edge": 52}, crop_size={"height": 48, "width": 48}, image_std=[0.2] * 3)
    preprocessing = preprocessing_from_huggingface(processor.to_dict(), 48)
    assert (preprocessing.short_side, preprocessing.interpolation) == (52, "antialiased_bilinear")
    frames = [noise(height, width, seed) for seed in range(2)]
    theirs = processor(frames, return_tensors="pt")["pixel_values"][0]
    ours = to_tensor(np.stack([frame_transform(preprocessing)(frame) for frame in frames]), preprocessing)
    assert float((ours - theirs).abs().max()) < 2e-6


def test_a_clip_of_an_array() -> None:
    config = XClipConfig(image_size=32, patch_size=16, num_frames=4, preprocessing=Preprocessing.official(32))
    frames = np.stack([noise(40, 60, seed) for seed in range(11)])
    clip = load_clip(frames, config)
    transform = frame_transform(config.preprocessing)
    chosen = frames[evaluation_indices(11, 4)[0]]
    assert torch.equal(clip, to_tensor(np.stack([transform(frame) for frame in chosen]), config.preprocessing))
    with pytest.raises(InputError, match="array of frames"):
        load_clip(frames[0], config)


@pytest.mark.parametrize(
    "frames",
    [np.zeros((5, 40, 60, 3), np.float32), np.zeros((5, 40, 60, 4), np.uint8), np.zeros((5, 3, 40, 60), np.uint8), np.zeros((5, 40, 60))],
)
def test_a_clip_of_another_array_is_refused(frames: npt.NDArray[Any]) -> None:
    with pytest.raises(InputError, match="8-bit RGB"):
        load_clip(frames, XClipConfig())


def test_a_clip_of_a_file(media_root: Path) -> None:
    path = next((path for path in sorted(media_root.rglob("*.mp4"))), None)
    if path is None:
        pytest.skip(f"no .mp4 in {media_root}")
    config = XClipConfig(image_size=32, patch_size=16, num_frames=4, preprocessing=Preprocessing.official(32))
    clip = load_clip(path, config)
    assert clip.shape == (4, 3, 32, 32) and clip.isfinite().all()


def test_sizes_keep_the_ratio_and_round_half_up() -> None:
    assert rescaled_size(1280, 720, 256) == (455, 256)
    assert rescaled_size(90, 160, 64) == (64, 114)
    assert rescaled_size(3, 2, 3) == (5, 3)
