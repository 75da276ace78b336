"""What an X-CLIP model is made of, and how frames are prepared for it. Both travel with saved weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from ..errors import ConfigError
from ..fields import check_types, checked_fields

__all__ = ["Preprocessing", "XClipConfig", "XCLIP_SIZES"]

HEAD_SIZE = 64  # of every attention head in the system (spec section 0)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Upright 8-bit RGB frames -> the model's input.

    The shorter side is resized to ``short_side`` (ratio kept), the middle ``crop_size`` x ``crop_size`` is cut out, and values
    scaled to 0..1 are normalised with ``mean`` and ``std`` (three numbers each).

    ``interpolation``: ``opencv_bilinear`` is the rule of the official code (8-bit, no antialiasing, spec section 13.1);
    ``antialiased_bilinear`` is what Hugging Face's processor does (spec section 13.3); ``pillow_bilinear`` and ``pillow_bicubic`` are
    what open_clip's models are given. With ``squash``, an option of the latter two, the whole frame is resized to the crop's size and
    nothing is cut, so its ratio is lost.
    """

    crop_size: int = 224
    short_side: int = 256
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    interpolation: Literal["opencv_bilinear", "antialiased_bilinear", "pillow_bilinear", "pillow_bicubic"] = "opencv_bilinear"
    squash: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 < self.crop_size <= self.short_side:
            raise ConfigError(f"preprocessing: crop_size {self.crop_size} must be positive and at most short_side {self.short_side}")
        if self.interpolation not in ("opencv_bilinear", "antialiased_bilinear", "pillow_bilinear", "pillow_bicubic"):
            raise ConfigError(f"preprocessing: unknown interpolation {self.interpolation!r}")
        if self.squash and not self.interpolation.startswith("pillow_"):
            raise ConfigError(f"preprocessing: squash goes with pillow_bilinear and pillow_bicubic, not with {self.interpolation}")
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ConfigError("preprocessing: mean and std take three numbers each, std above 0")

    @classmethod
    def official(cls, image_size: int) -> Preprocessing:
        """What the released weights were evaluated with: shorter side 256/224 of the input size, centre crop (spec section 13.1)."""
        return cls(crop_size=image_size, short_side=int(256 / 224 * image_size))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        return cls(**checked_fields(cls, values))


@dataclass(frozen=True, kw_only=True)
class XClipConfig:
    """Sizes and switches of an X-CLIP model (spec sections 1 and 15).

    Attributes:
        image_size: input side in pixels; a multiple of ``patch_size``.
        vision_width, text_width, embed_dim: multiples of 64, since every head has size 64.
        num_frames: frames of a clip; the weights are made for this number.
        message: ``on`` is the paper's cross-frame communication; ``off`` encodes every frame by itself; ``joint`` lets every token
            attend to those of all frames.
        mit_layers: layers of the multi-frame integration transformer; 0 takes the mean of the frames.
        prompt_layers: blocks of the video-specific prompt generator; 0 scores with the text alone.
        mit_heads, prompt_heads: None means ``embed_dim / 64``. Hugging Face's conversions of the large models run with 8
            (spec section 9, "head-count trap"); only someone who wants those numbers sets it.
        drop_path: stochastic depth of the last vision block; the first has 0.
        class_names: what the weights were trained to tell apart, if they were trained on a closed list.
        weights: where the weights came from; ``random`` if they were never trained.
    """

    model_type: ClassVar[str] = "watchword-xclip"  # in config.json

    image_size: int = 224
    patch_size: int = 32
    vision_width: int = 768
    vision_layers: int = 12
    embed_dim: int = 512
    text_width: int = 512
    text_layers: int = 12
    vocab_size: int = 49408
    context_length: int = 77
    num_frames: int = 8
    message: Literal["on", "off", "joint"] = "on"
    mit_layers: int = 1
    mit_heads: int | None = None
    prompt_layers: int = 2
    prompt_heads: int | None = None
    prompt_alpha: float = 0.1
    activation: str = "quick_gelu"
    drop_path: float = 0.0
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    class_names: tuple[str, ...] = ()
    weights: str = "random"

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("image_size", "patch_size", "vision_layers", "text_layers", "vocab_size", "context_length", "num_frames"):
            if getattr(self, name) < 1:
                raise ConfigError(f"X-CLIP configuration: {name} is {getattr(self, name)}, must be at least 1")
        self._check_widths()
        if self.preprocessing.crop_size != self.image_size:
            raise ConfigError(
                f"X-CLIP configuration: image_size {self.image_size} differs from the preprocessing's crop_size "
                f"{self.preprocessing.crop_size}"
            )
        if self.message not in ("on", "off", "joint"):
            raise ConfigError(f"X-CLIP configuration: message is {self.message!r}, must be 'on', 'off' or 'joint'")
        if self.activation not in ("quick_gelu", "gelu"):
            raise ConfigError(f"X-CLIP configuration: activation is {self.activation!r}, must be 'quick_gelu' or 'gelu'")

    def _check_widths(self) -> None:
        for name in ("vision_width", "text_width", "embed_dim"):
            if getattr(self, name) < HEAD_SIZE or getattr(self, name) % HEAD_SIZE:
                raise ConfigError(f"X-CLIP configuration: {name} is {getattr(self, name)}, must be a multiple of {HEAD_SIZE}")
        if self.image_size % self.patch_size:
            raise ConfigError(f"X-CLIP configuration: image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")

    @property
    def num_patches(self) -> int:
        """Patches of one frame."""
        return (self.image_size // self.patch_size) ** 2

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``as_dict``. Unknown keys are a ConfigError that names the key."""
        values = dict(values)
        if isinstance(values.get("preprocessing"), Mapping):
            values["preprocessing"] = Preprocessing.from_dict(values["preprocessing"])
        return cls(**checked_fields(cls, values))

    @classmethod
    def named(cls, architecture: str, *, num_frames: int = 8, **changes: Any) -> XClipConfig:
        """One of the paper's sizes: ``base_patch32``, ``base_patch16``, ``large_patch14``, ``large_patch14_336``."""
        if architecture not in XCLIP_SIZES:
            raise ConfigError(f"unknown X-CLIP architecture {architecture!r}; known are {', '.join(XCLIP_SIZES)}")
        return replace(XCLIP_SIZES[architecture], num_frames=num_frames, **changes)


_LARGE = dict(vision_width=1024, vision_layers=24, embed_dim=768, text_width=768, patch_size=14)

XCLIP_SIZES: dict[str, XClipConfig] = {
    "base_patch32": XClipConfig(),
    "base_patch16": XClipConfig(patch_size=16),
    "large_patch14": XClipConfig(**_LARGE),  # type: ignore[arg-type]
    "large_patch14_336": XClipConfig(**_LARGE, image_size=336, preprocessing=Preprocessing.official(336)),  # type: ignore[arg-type]
}
