"""What a model costs: multiply-accumulates and parameters, as the paper counts them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from .class_heads import HeadName, LinearHead
from .config import XClipConfig
from .expanded import ExpandedXClip, model_of
from .model import is_new_part

__all__ = ["Cost", "count_cost"]


@dataclass(frozen=True)
class Cost:
    """Billions of multiply-accumulates for one clip, and millions of parameters.

    Attributes:
        video: the video encoder.
        text: the text encoder for all labels, each at the full context length; paid once for a list of labels.
        score: prompts and cosines, or a linear head's product.
        parameters: in millions, of all that a decision takes.
    """

    video: float
    text: float
    score: float
    parameters: float

    @property
    def total(self) -> float:
        return self.video + self.text + self.score


@torch.no_grad()
def count_cost(config: XClipConfig, *, num_labels: int = 1, head: HeadName = "names", num_templates: int = 1) -> Cost:
    """Count the matrix products of one clip against ``num_labels`` labels, by torch's counter on tensors without values.

    With one label, ``total`` is the paper's "GFLOPs" (spec section 17). An ``ensemble`` encodes each label in ``num_templates`` sentences;
    a ``linear`` head scores all of the configuration's classes, and the text encoder is not counted.
    """
    with torch.device("meta"):
        model = model_of(config).eval()
        clip = torch.empty(1, config.num_frames, 3, config.image_size, config.image_size)
        with FlopCounterMode(display=False) as video:
            features = model.encode_video(clip)
        used = sum(parameter.numel() for name, parameter in model.named_parameters() if name.startswith("visual.") or is_new_part(name))
        if head == "linear":
            layer = LinearHead(model, len(config.class_names))
            with FlopCounterMode(display=False) as score:
                layer(model, features)
            added = sum(parameter.numel() for parameter in layer.parameters())
            return Cost(video.get_total_flops() / 2e9, 0.0, score.get_total_flops() / 2e9, (used + added) / 1e6)
        num_texts = num_labels * (num_templates if head == "ensemble" else 1)
        token_ids = torch.empty(num_texts, config.context_length, dtype=torch.long)
        with FlopCounterMode(display=False) as text:
            if isinstance(model, ExpandedXClip):
                labels = model.encode_text(token_ids)
            else:  # ``XClip.encode_text`` looks for the end token, which these ids have not
                words = model.transformer(model.token_embedding(token_ids))
                labels = words[:, 0] @ model.text_projection
        labels = labels[:num_labels]
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
