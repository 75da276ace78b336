"""How a closed list of classes is scored in training: by their names, as the paper does, or by what its ablations put in their place.

Each head is a module: features of videos -> logits (B, K). Its own parameters, if any, are trained as new parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError
from .expanded import ExpandedXClip
from .model import VideoFeatures, XClip

__all__ = ["ClassHead", "ContextHead", "EnsembleHead", "HeadName", "LinearHead", "make_head"]

HeadName = Literal["names", "ensemble", "context", "linear"]


class ClassHead(nn.Module):
    """Scores videos against classes by a text feature of each: of their names, as the paper does it.

    ``text_learns`` tells whether features change from step to step.
    """

    token_ids: Tensor

    def __init__(self, model: XClip, texts: Sequence[str], *, text_learns: bool) -> None:
        super().__init__()
        self.register_buffer("token_ids", model.tokenize(texts), persistent=False)
        self.text_learns = text_learns
        self.kept: Tensor | None = None

    def ids(self, model: XClip) -> Tensor:
        return self.token_ids.to(model.logit_scale.device)

    def encode(self, model: XClip) -> Tensor:
        """The classes' text features (K, E)."""
        return model.encode_text(self.ids(model))

    def text(self, model: XClip) -> Tensor:
        """``encode``: at each training step where the text learns, else once, until the next of these steps."""
        if self.text_learns and self.training:
            self.kept = None
            return self.encode(model)
        if self.kept is None:
            with torch.no_grad(), torch.autocast(model.logit_scale.device.type, enabled=False):  # kept for evaluation without it, too
                self.kept = self.encode(model)
        return self.kept

    def forward(self, model: XClip, features: VideoFeatures) -> Tensor:
        return model.score(features, self.text(model))


class EnsembleHead(ClassHead):
    """The mean of a name's normalised features in several sentences, normalised again (CLIP's prompt ensemble; table 9)."""

    def __init__(self, model: XClip, names: Sequence[str], templates: Sequence[str], *, text_learns: bool) -> None:
        for template in templates:
            if template.count("{}") != 1:
                raise ConfigError(f"template {template!r}: write {{}} once, where the class name goes")
        super().__init__(model, [template.format(name) for template in templates for name in names], text_learns=text_learns)
        self.num_templates = len(templates)

    def encode(self, model: XClip) -> Tensor:
        features = F.normalize(super().encode(model), dim=-1)
        return F.normalize(features.view(self.num_templates, -1, features.shape[-1]).mean(dim=0), dim=-1)


class ContextHead(ClassHead):
    """Learned vectors before each name, the same for all classes (CoOp, arXiv 2109.01134)."""

    def __init__(self, model: XClip, names: Sequence[str], *, num_vectors: int) -> None:
        super().__init__(model, names, text_learns=True)
        longest = int(self.token_ids.argmax(dim=1).max()) + 1
        if longest + num_vectors > model.config.context_length:
            raise ConfigError(
                f"{num_vectors} context vectors and a name of {longest} tokens exceed the context of {model.config.context_length} tokens"
            )
        self.context = nn.Parameter(torch.randn(num_vectors, model.config.text_width) * 0.02)

    def encode(self, model: XClip) -> Tensor:
        ids = self.ids(model)
        ends = ids.argmax(dim=1)
        words = model.token_embedding(ids[:, : int(ends.max()) + 1])
        context = self.context.expand(len(words), -1, -1)
        return model.encode_words(torch.cat([words[:, :1], context, words[:, 1:]], dim=1), ends + len(self.context))


class LinearHead(nn.Module):
    """No text: a linear layer on the video vector (table 8)."""

    def __init__(self, model: XClip, num_classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(model.config.embed_dim, num_classes)
        nn.init.normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, model: XClip, features: VideoFeatures) -> Tensor:
        out: Tensor = self.linear(features.video)
        return out.float()


def make_head(
    kind: HeadName, model: XClip, names: Sequence[str], *, text_learns: bool, templates: Sequence[str] = (), num_vectors: int = 4
) -> ClassHead | LinearHead:
    """The head of a recipe. Raises ConfigError for an ensemble without templates, and what the heads raise."""
    if kind == "linear":
        return LinearHead(model, len(names))
    if kind == "context":
        if isinstance(model, ExpandedXClip):
            raise ConfigError("learned context goes into CLIP's own text encoder; an expanded model's head is names, ensemble or linear")
        return ContextHead(model, names, num_vectors=num_vectors)
    if kind == "ensemble":
        if not templates:
            raise ConfigError("an ensemble of prompts needs templates, such as 'a video of {}'")
        return EnsembleHead(model, names, templates, text_learns=text_learns)
    return ClassHead(model, names, text_learns=text_learns)
