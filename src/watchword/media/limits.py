"""How large a media file may be before it is refused: all limits of the library in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper limits on what is read. Pass your own with larger numbers where a file is trusted.

    max_bytes: size of a file on disk.
    max_pixels: width times height of one stored frame (default: 8192 x 8192).
    max_duration_seconds: from the first frame to the last, as the packets say; what the header claims does not count.
    max_frames: frames of one video stream.
    max_output_bytes: size of the array that one call may return (use `VideoReader.iterate` for more).
    """

    max_bytes: int = 64 << 30
    max_pixels: int = 1 << 26
    max_duration_seconds: float = 24 * 3600.0
    max_frames: int = 10_000_000
    max_output_bytes: int = 8 << 30

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"Limits.{name} must be positive, not {value}")


DEFAULT_LIMITS = Limits()
