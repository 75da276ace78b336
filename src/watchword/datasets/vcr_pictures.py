"""VCR's pictures as MERLOT Reserve sees them: made smaller, and with a coloured box around every object that is spoken of.

Names are not written into the picture: the colour of a box, made from the name, is all that ties it to the words. Source:
merlot-reserve-data spec section 17.1.
"""

from __future__ import annotations

import colorsys
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageOps

from ..reserve.images import stored_size
from .vcr_files import VcrObjects

__all__ = ["box_colour", "marked_picture"]

SHORT, LONG = 450, 800
_FILL, _LINE = 32, 2  # of 255 that the inside of a box covers; pixels of its outline
_DARKEST = 0.4

RGB = tuple[int, int, int]


def box_colour(name: str) -> RGB:
    """The same for a name in every picture."""
    number = int(hashlib.sha256(name.encode()).hexdigest(), 16)
    lightness = _DARKEST + (1 - _DARKEST) * (number % 1025) / 1025
    red, green, blue = colorsys.hls_to_rgb((number % 1024) / 1024, lightness, (number % 1023) / 1023)
    return int(red * 255), int(green * 255), int(blue * 255)


def marked_picture(
    picture: Image.Image,
    objects: VcrObjects,
    drawn: Mapping[int, str],
    *,
    mirrored: bool = False,
    released_flip: bool = False,
) -> npt.NDArray[np.uint8]:
    """uint8 (height, width, 3): a picture, its shorter side at most 450 pixels and the longer 800, with the boxes of the ``drawn`` objects.

    mirrored: left and right changed, picture and boxes. released_flip: then only the boxes are, as released (defect D2), so that they are
    around the wrong things.
    """
    size = stored_size(*picture.size, short=SHORT, long=LONG)
    picture = picture.copy() if size == picture.size else picture.resize(size, Image.Resampling.BICUBIC)
    if mirrored and not released_flip:
        picture = ImageOps.mirror(picture)
    draw = ImageDraw.Draw(picture, mode="RGBA")
    for number, name in sorted(drawn.items()):
        x1, y1, x2, y2 = _box(objects.boxes[number], picture.width / objects.width)
        if mirrored:
            x1, x2 = picture.width - x2, picture.width - x1
        colour = box_colour(name)
        draw.rectangle([(x1, y1), (x2, y2)], fill=(*colour, _FILL), outline=(*colour, 255), width=_LINE)
    return np.asarray(picture)


def _box(box: Sequence[float], scale: float) -> tuple[float, float, float, float]:
    """Corners in pixels of the resized picture, the upper left first however they are written."""
    (x1, x2), (y1, y2) = sorted((box[0] * scale, box[2] * scale)), sorted((box[1] * scale, box[3] * scale))
    return x1, y1, x2, y2
