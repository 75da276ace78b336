"""From a record to what a step of pretraining takes of it: frames and sounds as the model reads them, masked sequences, and draws.

All that is random in an example is drawn from one `Draws`, so that it is a function of the record and (seed, epoch, key) alone, however
many processes share a batch. Source: merlot-reserve-data spec sections 7, 8, 11 and 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..errors import ConfigError, InputError
from ..text.reserve import ReserveTokenizer
from .draws import Draws
from .images import Grid, UInt8, fit, patches, training_scale_range, turn_tall
from .masking import MaskedExample, Masking, joined, mask_record
from .pretraining import VIEWS, PretrainingConfig
from .records import Record
from .resample import KERNELS
from .spectrogram import subsegments

__all__ = ["Pictures", "make_example"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pictures:
    """How frames are changed at random in training (spec section 7).

    zoom: (low, high), the range of the size drawn, in sizes that fit.  kernels: of resizing, of which one is drawn for each frame.
    turn_tall: tall frames are turned on their side.  shrink_both: see `fit`.

    Raises ConfigError for a range below 1 or kernels that there are not.
    """

    zoom: tuple[float, float] = (1.05, 1.1)
    kernels: tuple[str, ...] = KERNELS
    turn_tall: bool = True
    shrink_both: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.zoom[0] <= self.zoom[1]:
            raise ConfigError(f"pictures: zoom is {self.zoom}, must be a range from 1 on")
        if not self.kernels or (unknown := set(self.kernels) - set(KERNELS)):
            raise ConfigError(f"pictures: kernels are {', '.join(KERNELS)}, not {', '.join(unknown) if self.kernels else 'none'}")

    @classmethod
    def unchanged(cls) -> Pictures:
        """Frames as they are when a question is answered, for measuring."""
        return cls(zoom=(1.0, 1.0), kernels=("bilinear",), turn_tall=False)

    @classmethod
    def of_adaptation(cls, grid: Grid) -> Pictures:
        """Those of adaptation to another resolution."""
        return cls(zoom=training_scale_range(grid), turn_tall=False, shrink_both=False)

    def draw(self, frame: UInt8, grid: Grid, draws: Draws) -> Floats:
        """float32 (rows x 16, columns x 16, 3) of a frame."""
        zoom = float(draws.uniform("frame_zoom", (), *self.zoom))
        y, x = draws.uniform("frame_shift", 2)
        kernel = self.kernels[draws.below("frame_kernel", len(self.kernels))]
        given = turn_tall(frame) if self.turn_tall else frame
        return fit(given, grid, zoom=zoom, shift=(float(y), float(x)), kernel=kernel, shrink_both=self.shrink_both, random=True).pixels


def make_example(
    record: Record,
    draws: Draws,
    *,
    grid: Grid,
    masking: Masking,
    pretraining: PretrainingConfig,
    pictures: Pictures,
    tokenizer: ReserveTokenizer,
) -> dict[str, npt.NDArray[Any]]:
    """One example without its batch axis: the arrays of `reserve.pretraining`, and ``draws/...`` as `PretrainingDraws.of` takes them.

    Raises InputError if the record is not whole groups, or a picture in it cannot be read.
    """
    masked = mask_record(record.words(), _web_text(record, masking), draws, masking, tokenizer)
    frames = [patches(pictures.draw(segment.image(), grid, draws)) for segment in record.segments]
    sounds = [
        subsegments(segment.log_mel(), tuple(starts), speed=segment.playback_speed)
        for segment, starts in zip(record.segments, masked.crop_starts.tolist(), strict=True)
    ]
    example: dict[str, npt.NDArray[Any]] = {
        "images": torch.cat(frames).numpy(),
        "audio_clips": torch.stack(sounds).flatten(0, 2).numpy(),
        **{name: array[0] for name, array in joined([masked]).items() if name != "crop_starts"},
    }
    return example | _drawn(masked, draws, masking.group_segments, pretraining.split_probability)


def _web_text(record: Record, masking: Masking) -> Sequence[int]:
    if not masking.web_masks:
        return ()
    if record.web_text is None or not len(record.web_text):
        raise InputError(f"record {record.key} has no web text: prepare the records with text, or set masking.web_masks to 0")
    ids: list[int] = record.web_text[0].tolist()  # the release keeps two and reads one
    return ids


def _drawn(masked: MaskedExample, draws: Draws, per_group: int, split_probability: float) -> dict[str, npt.NDArray[Any]]:
    num_groups = len(masked.text2audio)
    found: dict[str, npt.NDArray[Any]] = {"draws/spans": draws.uniform("span_choice", len(masked.text_spans))}
    for view in VIEWS:
        places = np.array([1 + draws.below("split_place", max(per_group - 1, 1)) for _ in range(num_groups)])
        is_split = draws.coins("split", num_groups, split_probability) & (per_group > 1)
        found[f"draws/{view}"] = np.where(is_split, places, per_group)
    return found
