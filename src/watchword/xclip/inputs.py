"""From videos to what the model reads: choose frames, resize and crop them, normalise (spec sections 12 and 13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from ..errors import InputError
from ..media import VideoReader
from .config import Preprocessing, XClipConfig
from .resize import centre_box, rescaled_size, resize, three_boxes
from .sampling import evaluation_indices

__all__ = ["frame_transform", "load_clip", "three_crops", "to_tensor"]

UInt8 = npt.NDArray[np.uint8]


def frame_transform(preprocessing: Preprocessing) -> Callable[[UInt8], UInt8]:
    """The evaluation transform of one frame: upright uint8 RGB (H, W, 3) -> its middle, uint8 (R, R, 3). It can be pickled."""
    return partial(_middle, preprocessing=preprocessing)


def three_crops(frame: UInt8, preprocessing: Preprocessing) -> UInt8:
    """Start, end and middle of the longer side of one frame: uint8 (3, R, R, 3).

    Here the shorter side becomes R and not ``short_side``, as in the released multi-view test (spec quirk 12).
    """
    side = preprocessing.crop_size
    if preprocessing.interpolation == "opencv_bilinear":
        resized = resize(frame, *rescaled_size(frame.shape[1], frame.shape[0], side))
    else:
        resized = _antialiased(frame, side, preprocessing)
    height, width = resized.shape[:2]
    return np.stack([resized[y : y + side, x : x + side] for x, y, _, _ in three_boxes(width, height, side)])


def to_tensor(frames: UInt8 | Tensor, preprocessing: Preprocessing) -> Tensor:
    """Prepared frames uint8 (..., R, R, 3), array or tensor -> the model's input, normalised float32 (..., 3, R, R)."""
    if isinstance(frames, np.ndarray):
        frames = torch.from_numpy(np.require(frames, requirements=["C", "W"]))
    if frames.dtype != torch.uint8 or frames.ndim < 3 or frames.shape[-1] != 3:
        raise InputError(f"frames must be 8-bit RGB, uint8 (..., height, width, 3), but are {frames.dtype} {tuple(frames.shape)}")
    mean = 255 * torch.tensor(preprocessing.mean, dtype=torch.float64, device=frames.device)
    std = 255 * torch.tensor(preprocessing.std, dtype=torch.float64, device=frames.device)
    return frames.float().sub_(mean.float()).mul_((1 / std).float()).movedim(-1, -3).contiguous()


def load_clip(
    source: str | Path | VideoReader | UInt8, config: XClipConfig, *, start: float | None = None, end: float | None = None
) -> Tensor:
    """One clip of the model's number of frames, evenly spread: float32 (T, 3, R, R).

    Args:
        source: a video file, an open reader, or frames as a uint8 array (time, height, width, 3).
        start, end: seconds on the file's clock; frames that start within [start, end) count, or else the one on show. Not for arrays.

    Raises:
        MediaError: the file cannot be read.
        InputError: an array of another type or shape.
    """
    transform = frame_transform(config.preprocessing)
    if isinstance(source, np.ndarray):
        if source.ndim != 4 or source.shape[-1] != 3 or source.dtype != np.uint8:
            raise InputError(f"an array of frames must be 8-bit RGB, uint8 (time, height, width, 3), but is {source.dtype} {source.shape}")
        if start is not None or end is not None:
            raise InputError("start and end are for files, an array of frames has no clock: cut the array")
        chosen = source[evaluation_indices(len(source), config.num_frames)[0]]
        return to_tensor(np.stack([transform(frame) for frame in chosen]), config.preprocessing)
    if isinstance(source, VideoReader):
        frames = source.uniform(config.num_frames, start=start, end=end, transform=transform)
        return to_tensor(frames.rgb, config.preprocessing)
    with VideoReader(source) as reader:
        return load_clip(reader, config, start=start, end=end)


def _middle(frame: UInt8, *, preprocessing: Preprocessing) -> UInt8:
    height, width = frame.shape[:2]
    side = preprocessing.crop_size
    if preprocessing.interpolation == "opencv_bilinear":
        width, height = rescaled_size(width, height, preprocessing.short_side)
        return resize(frame, width, height, centre_box(width, height, side))
    resized = _antialiased(frame, preprocessing.short_side, preprocessing)
    x, y, _, _ = centre_box(resized.shape[1], resized.shape[0], side)
    return np.ascontiguousarray(resized[y : y + side, x : x + side])


def _antialiased(frame: UInt8, short_side: int, preprocessing: Preprocessing) -> UInt8:
    """The frame (H, W, 3) by an antialiased kernel, its shorter side ``short_side``, or squashed to the crop."""
    from torchvision.transforms.v2 import functional as transforms  # seconds to import, and only these branches need it

    if preprocessing.interpolation.startswith("pillow_"):
        mode = transforms.InterpolationMode(preprocessing.interpolation.removeprefix("pillow_"))
        size = [preprocessing.crop_size] * 2 if preprocessing.squash else [short_side]
        return np.array(transforms.resize(Image.fromarray(frame), size, interpolation=mode))
    pixels = torch.from_numpy(np.require(frame, requirements=["C", "W"])).permute(2, 0, 1)
    resized: UInt8 = transforms.resize(pixels, [short_side], antialias=True).permute(1, 2, 0).numpy()
    return resized
