"""Resizing of pictures with antialiasing, by the kernels that the release draws from in training (TensorFlow's image resizing).

Half-pixel centres; on reduction the kernel is widened; weights at the border are normalised. torch has two of the kernels; for the others a
resize is two matrices, one for the rows and one for the columns, ten to thirty times slower. Source: merlot-reserve-data spec section 7.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from ..errors import InputError

__all__ = ["KERNELS", "resample"]

FloatArray = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

_GAUSSIAN_SIGMA = 0.5
_BY_TORCH = ("bicubic", "bilinear")


def _mitchell(x: Values) -> Values:
    """The cubic kernel of Mitchell and Netravali with B = C = 1/3."""
    near = (21 * x**3 - 36 * x**2 + 16) / 18
    far = (-7 * x**3 + 36 * x**2 - 60 * x + 32) / 18
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(radius: int) -> Callable[[Values], Values]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def _gaussian(x: Values) -> Values:
    return np.where(x < 3 * _GAUSSIAN_SIGMA, np.exp(-(x**2) / (2 * _GAUSSIAN_SIGMA**2)), 0)


_SMOOTH: dict[str, Callable[[Values], Values]] = {
    "gaussian": _gaussian,
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "mitchellcubic": _mitchell,
}
KERNELS = ("area", "bicubic", "bilinear", "gaussian", "lanczos3", "lanczos5", "mitchellcubic", "nearest")


@lru_cache(maxsize=64)
def _weights(size: int, new_size: int, kernel: str) -> FloatArray:
    """(new_size, size): how much each old pixel counts in each new one."""
    step = size / new_size
    old = np.arange(size)
    new = np.arange(new_size)[:, None]
    if kernel == "nearest":
        weights = (old == np.minimum(np.floor((new + 0.5) * step), size - 1)).astype(np.float64)
    elif kernel == "area":
        weights = np.clip(np.minimum(old + 1, (new + 1) * step) - np.maximum(old, new * step), 0, None)
    else:
        weights = _SMOOTH[kernel](np.abs(old + 0.5 - (new + 0.5) * step) / max(step, 1.0))
    normalised: FloatArray = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised


def resample(picture: FloatArray, height: int, width: int, kernel: str = "bilinear") -> FloatArray:
    """A float32 (h, w, channels) picture at `height` x `width`. Kernels with negative lobes may leave its range of values.

    Raises InputError for a kernel that is not one of KERNELS.
    """
    if kernel not in KERNELS:
        raise InputError(f"kernel is {kernel!r}; it must be one of {', '.join(KERNELS)}")
    if kernel in _BY_TORCH:
        planes = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None]
        resized = functional.interpolate(planes, (height, width), mode=kernel, antialias=True)
        return np.ascontiguousarray(resized[0].permute(1, 2, 0).numpy())
    old_height, old_width, channels = picture.shape
    if old_height != height:
        picture = (_weights(old_height, height, kernel) @ picture.reshape(old_height, -1)).reshape(height, old_width, channels)
    if old_width != width:
        picture = np.matmul(_weights(old_width, width, kernel), picture)
    return picture
