"""What a MERLOT Reserve model is made of. Travels with saved weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from ..errors import ConfigError
from ..fields import check_types, checked_fields

__all__ = ["GRIDS", "OPTIONAL_PARTS", "PRETRAINED_PARTS", "RESERVE_SIZES", "ReserveConfig", "kind_of", "size_of"]

GRIDS = ((12, 20), (18, 32), (24, 24))  # patches of a frame: pretraining; after resolution adaptation, wide and square
OPTIONAL_PARTS = ("audio_encoder", "span_encoder", "head", "proj")
PRETRAINED_PARTS = ("audio_encoder", "span_encoder", "head")


@dataclass(frozen=True, kw_only=True)
class ReserveConfig:
    """Sizes and switches of a MERLOT Reserve model (spec section 1).

    Attributes:
        width: features of a token in all four encoders; a multiple of ``head_size``.
        grid: patches of a frame, (rows, columns), each a multiple of ``pooling``. No weight depends on it, only positions do.
        patch_size: side of a patch in pixels.
        pooling: ``pooling`` x ``pooling`` patches become one token of the joint encoder.
        audio_frames: spectrogram frames of one clip of sound, a third of a segment.
        audio_features: of each spectrogram frame: 64 mel bins and the playback speed.
        audio_patch: spectrogram frames that make one token of the audio encoder.
        audio_tokens: tokens of the joint encoder that one clip of sound becomes.
        span_length: most tokens of a text span.
        rotary: ``released`` is the scheme of the released weights, which is not a rotation (spec section 2.2); ``standard`` is rotary
            embedding proper, for weights that are trained anew.
        learned_positions: 0, or the number of learned positions that the joint encoder has in place of the rotary ones (section 4.7).
        parts: which optional parts there are: ``audio_encoder``, ``span_encoder``, ``head`` (projection to the space of spans, sounds and
            frames) and ``proj`` (one number a candidate, of finetuned weights). Vision and joint encoder are always there.
        class_names: that weights finetuned on classes tell apart, in the order of their scores.
        weights: where the weights came from; ``random`` if they were never trained.
    """

    width: int = 768
    head_size: int = 64
    vision_layers: int = 12
    audio_layers: int = 12
    span_layers: int = 4
    joint_layers: int = 12
    grid: tuple[int, int] = (12, 20)
    patch_size: int = 16
    pooling: int = 2
    audio_frames: int = 60
    audio_features: int = 65
    audio_patch: int = 2
    audio_tokens: int = 6
    span_length: int = 15
    vocab_size: int = 32768
    rotary: Literal["released", "standard"] = "released"
    learned_positions: int = 0
    parts: tuple[str, ...] = PRETRAINED_PARTS
    class_names: tuple[str, ...] = ()
    weights: str = "random"

    def __post_init__(self) -> None:
        check_types(self)
        for name, value in self.as_dict().items():
            if isinstance(value, int) and value < (0 if name == "learned_positions" else 1):
                raise ConfigError(f"Reserve configuration: {name} is {value}, must be at least 1")
        if self.width % self.head_size:
            raise ConfigError(f"Reserve configuration: width {self.width} is not a multiple of head_size {self.head_size}")
        if self.head_size % 8:
            raise ConfigError(f"Reserve configuration: head_size {self.head_size} is not a multiple of 8, which four coordinates need")
        if len(self.grid) != 2 or min(self.grid) < 1 or any(side % self.pooling for side in self.grid):
            raise ConfigError(f"Reserve configuration: grid {self.grid} is not two multiples of pooling {self.pooling}")
        if self.audio_frames % (self.audio_patch * self.audio_tokens):
            raise ConfigError(
                f"Reserve configuration: {self.audio_frames} audio_frames do not divide into {self.audio_tokens} audio_tokens of whole "
                f"patches of {self.audio_patch}"
            )
        if self.rotary not in ("released", "standard"):
            raise ConfigError(f"Reserve configuration: rotary is {self.rotary!r}, must be 'released' or 'standard'")
        if set(self.parts) - set(OPTIONAL_PARTS) or len(set(self.parts)) != len(self.parts):
            raise ConfigError(f"Reserve configuration: parts is {self.parts}, must be some of {', '.join(OPTIONAL_PARTS)}, each once")

    @property
    def num_heads(self) -> int:
        return self.width // self.head_size

    @property
    def num_patches(self) -> int:
        """Patches of one frame."""
        return self.grid[0] * self.grid[1]

    @property
    def pooled_grid(self) -> tuple[int, int]:
        """The grid of the joint encoder's tokens of one frame."""
        return self.grid[0] // self.pooling, self.grid[1] // self.pooling

    @property
    def patch_features(self) -> int:
        """Numbers of one patch: rows, columns, red-green-blue."""
        return self.patch_size**2 * 3

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReserveConfig:
        """The inverse of ``as_dict``. Unknown keys are a ConfigError that names the key."""
        return cls(**checked_fields(cls, values))

    @classmethod
    def named(cls, size: str, **changes: Any) -> ReserveConfig:
        """One of the paper's sizes, ``base`` or ``large``, with changes."""
        if size not in RESERVE_SIZES:
            raise ConfigError(f"unknown Reserve size {size!r}; known are {', '.join(RESERVE_SIZES)}")
        return replace(RESERVE_SIZES[size], **changes)


RESERVE_SIZES: dict[str, ReserveConfig] = {
    "base": ReserveConfig(),
    "large": ReserveConfig(width=1024, vision_layers=24, joint_layers=24),
}

_KINDS = {
    frozenset(PRETRAINED_PARTS): "pretrained",
    frozenset(("proj",)): "finetuned on VCR",
    frozenset(("audio_encoder", "proj")): "finetuned on TVQA",
    frozenset(("audio_encoder", "head")): "finetuned on classes",
    frozenset(("head",)): "finetuned on classes",
}


def kind_of(parts: Iterable[str]) -> str:
    """What weights with these optional parts were trained for: ``pretrained``, ``finetuned on VCR``, ``finetuned on TVQA``, ``finetuned on
    classes``, ``custom``."""
    return _KINDS.get(frozenset(parts), "custom")


def size_of(config: ReserveConfig) -> str:
    """``base``, ``large``, or ``custom`` for a model of other sizes."""
    names = ["width", "head_size", "vision_layers", "joint_layers", "vocab_size", "patch_size"]
    names += [f"{part}_layers" for part in ("audio", "span") if f"{part}_encoder" in config.parts]
    sizes = RESERVE_SIZES.items()
    return next((size for size, known in sizes if all(getattr(config, name) == getattr(known, name) for name in names)), "custom")
