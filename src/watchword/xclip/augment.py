"""Random changes of training clips, in the released order (spec section 13.2, steps 1 to 6).

The shorter side is resized, a multi-scale crop is cut out and resized to the input size, then the clip is mirrored: each drawn once a
clip. Colours are changed last, by 8-bit operators (torchvision's on PIL images, whose hue is up to 15 grey levels from that of tensors).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError
from .config import Preprocessing
from .resize import Box, rescaled_size, resize
from .sampling import draw_crop

__all__ = ["Augmentation", "ClipChanges", "Jitter"]

UInt8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Jitter:
    """One change of colours: brightness, contrast and saturation are multiplied, hue is shifted by a share of its circle.

    ``order`` holds the positions of ``factors`` (brightness, contrast, saturation, hue) in the order they are applied.
    """

    factors: tuple[float, float, float, float]
    order: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The distribution that a clip's changes are drawn from; the defaults are the paper's.

    Attributes:
        flip_probability: that the clip is mirrored left to right.
        jitter_probability, grey_probability: that the clip's colours are changed, and that it then loses them.
        brightness, contrast, saturation: factors are uniform over 1 - x to 1 + x, x in [0, 1].
        hue: the shift is uniform over -x to x of the hue circle, x in [0, 0.5].
        jitter_per_frame: change each frame's colours by itself, so that they flicker, as the released weights were trained (spec
            quirk 11); False changes the whole clip alike.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # a recipe's `augment` is read into this class

    flip_probability: float = 0.5
    jitter_probability: float = 0.8
    grey_probability: float = 0.2
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1
    jitter_per_frame: bool = True

    def __post_init__(self) -> None:
        for f in fields(self):
            value, most = getattr(self, f.name), 0.5 if f.name == "hue" else 1
            if not 0 <= value <= most:
                raise ConfigError(f"augmentation: {f.name} is {value}, must lie between 0 and {most}")

    def draw(self, num_frames: int, random: np.random.Generator) -> ClipChanges:
        """The changes of one clip of ``num_frames`` frames: a function of the generator's state alone, whatever the pictures are."""
        crop_seed = int(random.integers(2**32))
        flipped, jittered, grey = random.random(3) < (self.flip_probability, self.jitter_probability, self.grey_probability)
        jitters: tuple[Jitter, ...] = ()
        if jittered:
            drawn = [self._jitter(random) for _ in range(num_frames if self.jitter_per_frame else 1)]
            jitters = tuple(drawn if self.jitter_per_frame else drawn * num_frames)
        return ClipChanges(crop_seed, bool(flipped), jitters, bool(grey))

    def _jitter(self, random: np.random.Generator) -> Jitter:
        reach = np.array([self.brightness, self.contrast, self.saturation, self.hue])
        brightness, contrast, saturation, hue = (np.array([1, 1, 1, 0]) + random.uniform(-reach, reach)).tolist()
        return Jitter((brightness, contrast, saturation, hue), tuple(random.permutation(4).tolist()))


@dataclass(frozen=True)
class ClipChanges:
    """What is done to one clip.

    Attributes:
        crop_seed: draws the crop, see ``sampling.draw_crop``: the same for all frames of one size.
        flipped: mirrored left to right.
        jitters: one a frame, or none.
        grey: the colours are dropped.
    """

    crop_seed: int
    flipped: bool
    jitters: tuple[Jitter, ...]
    grey: bool

    def clip(self, frames: UInt8, preprocessing: Preprocessing) -> UInt8:
        """All changes of a clip's upright frames, uint8 (T, H, W, 3) -> (T, R, R, 3)."""
        return self.colours(np.stack([self.place(frame, preprocessing) for frame in frames]))

    def place(self, frame: UInt8, preprocessing: Preprocessing) -> UInt8:
        """Crop, resize and mirror one upright frame, uint8 (H, W, 3) -> (R, R, 3)."""
        side = preprocessing.crop_size
        width, height = rescaled_size(frame.shape[1], frame.shape[0], preprocessing.short_side)
        box = draw_crop(width, height, side, np.random.default_rng(self.crop_seed))
        if preprocessing.interpolation == "opencv_bilinear":
            cut = resize(resize(frame, width, height, box), side, side)
        else:
            cut = _antialiased(frame, width, height, box, side)
        return np.ascontiguousarray(cut[:, ::-1]) if self.flipped else cut

    def colours(self, frames: UInt8) -> UInt8:
        """Change the colours of the frames of a clip, uint8 (T, R, R, 3), which is not written to."""
        if not self.jitters and not self.grey:
            return frames
        from PIL import Image
        from torchvision.transforms.v2 import functional as transforms  # seconds to import

        operators = (transforms.adjust_brightness, transforms.adjust_contrast, transforms.adjust_saturation, transforms.adjust_hue)
        changed = []
        for number, frame in enumerate(frames):
            image = Image.fromarray(frame)
            if self.jitters:
                jitter = self.jitters[number]
                for which in jitter.order:
                    image = operators[which](image, jitter.factors[which])
            if self.grey:
                image = transforms.rgb_to_grayscale(image, num_output_channels=3)
            changed.append(np.asarray(image))
        return np.stack(changed)


def _antialiased(frame: UInt8, width: int, height: int, box: Box, side: int) -> UInt8:
    """``frame`` resized to ``width`` x ``height``, of that ``box``, of that ``side`` x ``side``, both times by torchvision."""
    import torch
    from torchvision.transforms.v2 import functional as transforms

    pixels = torch.from_numpy(np.require(frame, requirements=["C", "W"])).permute(2, 0, 1)
    pixels = transforms.resize(pixels, [height, width], antialias=True)
    pixels = transforms.resized_crop(pixels, box.y, box.x, box.height, box.width, [side, side], antialias=True)
    cut: UInt8 = pixels.permute(1, 2, 0).contiguous().numpy()
    return cut
