"""The joint encoder's input: words, sound and frames of all segments in one sequence (paper section 3.1; spec section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .config import ReserveConfig
from .positions import joint_coordinates
from .transformer import validity_mask

__all__ = ["JointInput", "assemble", "with_sound"]

PAD, MASK, MASKAUDIO, AUDIOSPAN, LTOVPOOL = 0, 3, 4, 5, 6  # token ids that stand for no text (spec section 3)
NO_SOURCE = -1


@dataclass(frozen=True)
class JointInput:
    """One sequence an example: first the language part (L tokens), then the frames' tokens, then padding.

    Attributes:
        x: (B, T, width).
        coordinates: (B, T, 4): row, column, segment, token.
        valid: (B, T) of bool; padding is not.
        sources: (B, T), which video each token is from, or None if all are from one.
    """

    x: Tensor
    coordinates: Tensor
    valid: Tensor
    sources: Tensor | None = None

    @property
    def mask(self) -> Tensor:
        """What is added to the attention's scores, (B, 1, T, T)."""
        return validity_mask(self.valid, self.sources)


def with_sound(embedded: Tensor, tokens: Tensor, sounds: Tensor, pointers: Tensor) -> Tensor:
    """Put the sounds' tokens where the language part says AUDIOSPAN.

    Args:
        embedded: (B, L, width), the tokens' embeddings.
        tokens: (B, L) token ids.
        sounds: (B, A, tokens of a clip, width), pooled.
        pointers: (B, L), which of the A clips an AUDIOSPAN is of.

    The n-th AUDIOSPAN of the whole sequence takes token n modulo the tokens of a clip. So every clip must be there with all of its
    tokens, but that the sequence may end within one.
    """
    per_clip = sounds.shape[2]
    is_sound = tokens == AUDIOSPAN
    place = (is_sound.cumsum(dim=1) - 1) % per_clip
    index = pointers.long().clamp(0, sounds.shape[1] - 1) * per_clip + place
    chosen = sounds.flatten(1, 2).gather(1, index[..., None].expand(-1, -1, sounds.shape[-1]))
    return torch.where(is_sound[..., None], chosen.to(embedded.dtype), embedded)


def assemble(
    config: ReserveConfig,
    embedded: Tensor,
    tokens: Tensor,
    *,
    segments: Tensor | None = None,
    frames: Tensor | None = None,
    sources: Tensor | None = None,
    first_frame_segment: int = 0,
    length: int | None = None,
) -> JointInput:
    """Put the language part and the frames behind one another.

    Args:
        embedded: (B, L, width), the tokens' embeddings, sounds put in.
        tokens: (B, L) token ids; PAD is not valid.
        segments: (B, L), the segment each token belongs to.
        frames: (B, S, tokens of a frame, width), pooled; the s-th is of segment s.
        sources: (B, S), the video that each segment is from, where several are packed into one example. Without ``segments`` it is
            ignored, as released.
        first_frame_segment: the segment of the first frame (1 in TVQA's layout, where the question is segment 0).
        length: pad the sequence to so many rows.
    """
    batch, language_length = tokens.shape
    device = tokens.device
    if frames is None:
        frames = embedded.new_empty(batch, 0, config.pooled_grid[0] * config.pooled_grid[1], embedded.shape[-1])
    num_frames, per_frame = frames.shape[1:3]
    frame_segments = torch.arange(num_frames, device=device) + first_frame_segment
    coordinates = joint_coordinates(segments, language_length, config.pooled_grid, frame_segments, device).expand(batch, -1, -1)
    x = torch.cat([embedded, frames.flatten(1, 2).to(embedded.dtype)], dim=1)
    valid = torch.cat([tokens != PAD, tokens.new_ones(batch, num_frames * per_frame, dtype=torch.bool)], dim=1)
    token_sources = None
    if sources is not None and segments is not None:
        of_language = sources.gather(1, segments.long().clamp(0, sources.shape[1] - 1))
        token_sources = torch.cat([of_language, sources.repeat_interleave(per_frame, dim=1)], dim=1)
    if length is not None:
        extra = length - x.shape[1]
        if extra < 0:
            raise ValueError(f"{x.shape[1]} tokens do not fit into a joint sequence of {length}")
        x, coordinates, valid = F.pad(x, (0, 0, 0, extra)), F.pad(coordinates, (0, 0, 0, extra)), F.pad(valid, (0, extra))
        token_sources = F.pad(token_sources, (0, extra), value=NO_SOURCE) if token_sources is not None else None
    return JointInput(x=x, coordinates=coordinates, valid=valid, sources=token_sources)
