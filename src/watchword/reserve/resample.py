"""Resizing of pictures with antialiasing, by the kernels that the release draws from in training (TensorFlow's image resizing).

A resize is two small matrices, one for the rows and one for the columns, so any kernel costs the same. Half-pixel centres; on reduction the
kernel is widened; weights at the border are normalised. Source: merlot-reserve-data spec section 7.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..errors import InputError

__all__ = ["KERNELS", "resample"]

FloatArray = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

_GAUSSIAN_SIGMA = 0.5


def _triangle(x: Values) -> Values:
    return np.maximum(0, 1 - x)


def _cubic(b: float, c: float) -> Callable[[Values], Values]:
    """The cubic kernels of Mitchell and Netravali; b = 0 gives Keys's with a = -c."""

    def kernel(x: Values) -> Values:
        near = ((12 - 9 * b - 6 * c) * x**3 + (-18 + 12 * b + 6 * c) * x**2 + (6 - 2 * b)) / 6
        far = ((-b - 6 * c) * x**3 + (6 * b + 30 * c) * x**2 + (-12 * b - 48 * c) * x + (8 * b + 24 * c)) / 6
        return np.where(x < 1, near, np.where(x < 2, far, 0))

    return kernel


def _lanczos(radius: int) -> Callable[[Values], Values]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def _gaussian(x: Values) -> Values:
    return np.where(x < 3 * _GAUSSIAN_SIGMA, np.exp(-(x**2) / (2 * _GAUSSIAN_SIGMA**2)), 0)


_SMOOTH: dict[str, Callable[[Values], Values]] = {
    "bicubic": _cubic(0, 0.5),
    "bilinear": _triangle,
    "gaussian": _gaussian,
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "mitchellcubic": _cubic(1 / 3, 1 / 3),
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
    old_height, old_width, channels = picture.shape
    if old_height != height:
        picture = (_weights(old_height, height, kernel) @ picture.reshape(old_height, -1)).reshape(height, old_width, channels)
    if old_width != width:
        picture = np.matmul(_weights(old_width, width, kernel), picture)
    return picture
