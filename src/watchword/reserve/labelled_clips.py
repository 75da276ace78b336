"""Ten seconds of a video as MERLOT Reserve is finetuned to classify them: four frames, and sound in six parts (model spec section 8.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..media import DEFAULT_LIMITS, Limits, VideoReader
from ..text.reserve import AUDIOSPAN, MASK, PADDING
from .images import BlackBars, Grid, fit, patches, training_scale_range, turn_tall
from .inputs import AUDIO_TOKENS
from .segmentation import SEGMENT_SECONDS, Span
from .segments import frame_numbers
from .sounds import samples_from, segment_sounds
from .spectrogram import SUBSEGMENTS

__all__ = ["NUM_FRAMES", "NUM_SOUNDS", "LabelledClip", "clip_tokens", "places_of", "read_clips"]

NUM_FRAMES = 4
_NUM_SEGMENTS = 2
NUM_SOUNDS = SUBSEGMENTS * _NUM_SEGMENTS
CLIP_SECONDS = SEGMENT_SECONDS * _NUM_SEGMENTS


class LabelledClip(NamedTuple):
    """What the model reads of a clip.

    images: float32 (4, patches, 768) from 0 to 1.
    audio_clips: float32 (6, 60, 65), zeros where the file has no sound; empty where none was read.
    tokens: int64 (37,), or (1,) where no sound was read, see ``clip_tokens``.
    """

    images: Tensor
    audio_clips: Tensor
    tokens: Tensor


def clip_tokens(has_sound: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """(6 x n + 1,) token ids: six positions for each of the n subsegments of sound, padding where there is none of it; then the blank."""
    return np.append(np.repeat(np.where(has_sound, AUDIOSPAN, PADDING), AUDIO_TOKENS), MASK).astype(np.int64)


def places_of(length: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Of a sequence of so many tokens, the subsegment of sound of each and its segment, (length,) int64.

    Each frame has a segment of its own, two of them to five seconds; a subsegment has that of the frame which it begins with. The blank,
    behind all, has the last.
    """
    subsegments = torch.arange(length, device=device) // AUDIO_TOKENS
    segments = subsegments * NUM_FRAMES // NUM_SOUNDS
    subsegments[-1], segments[-1] = 0, NUM_FRAMES - 1
    return subsegments, segments


def read_clips(
    path: str | Path,
    grid: Grid,
    *,
    sound: bool,
    num_clips: int = 1,
    random: np.random.Generator | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[LabelledClip]:
    """Clips of a video, each of ten seconds or of all of a shorter one: evenly spaced, a single one in the middle.

    ``random`` is for training: it draws where the clip lies, and as in the paper's other finetunings (appendix D.1) how much the frames
    are enlarged and cut, all alike. Frames much higher than wide are laid on their side, as these do. Sound beyond the end of a short
    video is masked.

    Raises MediaError if the video cannot be read.
    """
    with VideoReader(path, limits=limits, num_threads=1) as reader:
        start, end = reader.start_seconds, reader.end_seconds
        length = min(CLIP_SECONDS, end - start)
        shares = random.uniform(size=num_clips) if random else np.linspace(0, 1, num_clips) if num_clips > 1 else [0.5]
        begins = [start + share * (end - start - length) for share in shares]
        quarter = length / NUM_FRAMES
        parts = [Span(begin + quarter * i, begin + quarter * (i + 1)) for begin in begins for i in range(NUM_FRAMES)]
        frames = reader.read(frame_numbers(reader.times, parts, start)).rgb
    bars = BlackBars()
    bars.see(frames)
    box = bars.box()
    changes: dict[str, Any] = {}
    if random is not None:
        changes = {"random": True, "zoom": random.uniform(*training_scale_range(grid)), "shift": tuple(random.uniform(size=2))}
    images = torch.stack([patches(fit(turn_tall(box.of(frame)), grid, **changes).pixels) for frame in frames])
    pictures = images.reshape(num_clips, NUM_FRAMES, *images.shape[1:])
    if not sound:
        tokens = torch.from_numpy(clip_tokens(np.zeros(0, np.bool_)))
        return [LabelledClip(own, torch.zeros(0), tokens) for own in pictures]
    segments = [Span(begin + i * SEGMENT_SECONDS, begin + (i + 1) * SEGMENT_SECONDS) for begin in begins for i in range(_NUM_SEGMENTS)]
    heard = segment_sounds(Path(path), [samples_from(span, start) for span in segments], start=start, end=end, limits=limits)
    present = heard.present.reshape(num_clips, NUM_SOUNDS)
    spectra = heard.spectrograms.reshape(num_clips, NUM_SOUNDS, *heard.spectrograms.shape[2:])
    spectra = spectra * torch.from_numpy(present)[..., None, None]
    return [
        LabelledClip(own, audio, torch.from_numpy(clip_tokens(has_sound)))
        for own, audio, has_sound in zip(pictures, spectra, present, strict=True)
    ]
