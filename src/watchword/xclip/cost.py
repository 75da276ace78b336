"""What a model costs: multiply-accumulates and parameters, as the paper counts them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from .config import XClipConfig
from .model import XClip

__all__ = ["Cost", "count_cost"]


@dataclass(frozen=True)
class Cost:
    """Billions of multiply-accumulates for one clip, and millions of parameters.

    Attributes:
        video: the video encoder.
        text: the text encoder for all labels, each at the full context length; paid once for a list of labels.
        score: prompts and cosines.
        parameters: all of the model's, in millions.
    """

    video: float
    text: float
    score: float
    parameters: float

    @property
    def total(self) -> float:
        return self.video + self.text + self.score


@torch.no_grad()
def count_cost(config: XClipConfig, *, num_labels: int = 1) -> Cost:
    """Count the matrix products of one clip against ``num_labels`` labels, by torch's counter on tensors without values.

    With one label, ``total`` is the paper's "GFLOPs" (spec section 17).
    """
    with torch.device("meta"):
        model = XClip(config).eval()
        clip = torch.empty(1, config.num_frames, 3, config.image_size, config.image_size)
        token_ids = torch.empty(num_labels, config.context_length, dtype=torch.long)
        with FlopCounterMode(display=False) as video:
            features = model.encode_video(clip)
        with FlopCounterMode(display=False) as text:
            words = model.transformer(model.token_embedding(token_ids))
            labels = words[:, 0] @ model.text_projection
        with FlopCounterMode(display=False) as score:  # autocast, which ``XClip.score`` switches off, knows no meta tensors
            if model.prompts_generator is not None:
                labels = labels + model.prompts_generator(labels, features.content)
            _ = labels @ features.video.unsqueeze(-1)
    return Cost(
        video=video.get_total_flops() / 2e9,
        text=text.get_total_flops() / 2e9,
        score=score.get_total_flops() / 2e9,
        parameters=sum(parameter.numel() for parameter in model.parameters()) / 1e6,
    )
