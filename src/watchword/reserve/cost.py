"""What pretraining costs, multiply-accumulates of a record and numbers to hold and to send (spec section 11), and an answer of VCR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from .config import ReserveConfig
from .grouping import RECORD_SEGMENTS
from .joint import JointInput
from .masking import Masking
from .model import CLIPS_PER_SEGMENT, Reserve
from .pretraining import PretrainingConfig

__all__ = ["CandidateCost", "PretrainingCost", "count_candidate", "count_pretraining"]


@dataclass(frozen=True)
class PretrainingCost:
    """Of one record, forwards.

    Attributes:
        vision, audio, joint, span: billions of multiply-accumulates of the four encoders.
        parameters: all of the model's.
        layer_tokens: tokens times layers of all encoders, each of which keeps its activations for the gradients.
        candidates: vectors that are compared with those of all other records.
    """

    vision: float
    audio: float
    joint: float
    span: float
    parameters: int
    layer_tokens: int
    candidates: int

    @property
    def total(self) -> float:
        return self.vision + self.audio + self.joint + self.span


@torch.no_grad()
def count_pretraining(
    config: ReserveConfig,
    masking: Masking | None = None,
    pretraining: PretrainingConfig | None = None,
    *,
    num_segments: int = RECORD_SEGMENTS,
) -> PretrainingCost:
    """Count the matrix products of one record by torch's counter, on tensors without values."""
    masking, pretraining = masking or Masking(), pretraining or PretrainingConfig()
    num_clips, num_groups = num_segments * CLIPS_PER_SEGMENT, num_segments // masking.group_segments
    rows, columns = config.pooled_grid
    length = max(masking.joint_length, masking.length + masking.group_segments * rows * columns)
    num_sequences = 2 * num_groups + 1 + (masking.web_masks > 0)
    with torch.device("meta"):
        model = Reserve(config)
        frames = torch.empty(num_segments, config.num_patches, config.patch_features)
        sounds = torch.empty(num_clips, config.audio_frames, config.audio_features)
        spans = torch.empty(pretraining.spans_per_example, config.span_length, dtype=torch.long)
        valid = torch.ones(num_sequences, length, dtype=torch.bool)
        joint = JointInput(torch.empty(num_sequences, length, config.width), torch.empty(num_sequences, length, 4), valid, None)
        work: tuple[Callable[[], object], ...] = (
            lambda: model.encode_frames(frames),
            lambda: model.encode_sounds(sounds),
            lambda: model.join(joint),
            lambda: model.encode_spans(spans),
        )
        vision, audio, of_joint, span = (_billions(part) for part in work)
    tokens = (
        (num_segments * (config.num_patches + 1), config.vision_layers),
        (num_clips * (config.audio_frames // config.audio_patch + 1), config.audio_layers),
        (num_sequences * length, config.joint_layers),
        (pretraining.spans_per_example * (config.span_length + 1), config.span_layers),
    )
    return PretrainingCost(
        vision=vision,
        audio=audio,
        joint=of_joint,
        span=span,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layer_tokens=sum(count * layers for count, layers in tokens),
        candidates=2 * num_segments + num_clips + masking.num_targets(num_segments) + 2 * pretraining.spans_per_example,
    )


def _billions(work: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops()) / 2e9


@dataclass(frozen=True)
class CandidateCost:
    """Of one candidate of VCR, an answer or a rationale: billions of floating-point operations, two for each multiply-accumulate.

    Attributes:
        vision: of the picture, which all candidates share.
        joint: of the candidate's own sequence.
    """

    vision: float
    joint: float

    @property
    def alone(self) -> float:
        """With a picture of its own."""
        return self.vision + self.joint

    def sharing(self, num_candidates: int = 8) -> float:
        """With its share of a picture that is encoded once for so many."""
        return self.vision / num_candidates + self.joint


@torch.no_grad()
def count_candidate(config: ReserveConfig, *, length: int = 144) -> CandidateCost:
    """Count a candidate of so many token ids, and the picture's pooled tokens behind them."""
    rows, columns = config.pooled_grid
    total = length + rows * columns
    with torch.device("meta"):
        model = Reserve(config)
        frame = torch.empty(1, config.num_patches, config.patch_features)
        valid = torch.ones(1, total, dtype=torch.bool)
        joint = JointInput(torch.empty(1, total, config.width), torch.empty(1, total, 4), valid, None)
        vision, of_joint = _billions(lambda: model.encode_frames(frame)), _billions(lambda: model.join(joint))
    return CandidateCost(2 * vision, 2 * of_joint)
