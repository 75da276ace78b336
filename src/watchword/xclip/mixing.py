"""Mixup and cutmix on clips: one decision and one share for all samples and frames of a batch (spec section 10.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Mixing", "Mixture", "smoothed_targets"]


def smoothed_targets(labels: Tensor, num_classes: int, smoothing: float) -> Tensor:
    """One-hot targets (batch, classes) that leave ``smoothing`` to be shared by all classes."""
    targets = torch.full((len(labels), num_classes), smoothing / num_classes, device=labels.device)
    return targets.scatter_(1, labels[:, None], 1 - smoothing + smoothing / num_classes)


@dataclass(frozen=True)
class Mixture:
    """How a batch is mixed with itself: sample i with sample ``permutation[i]``.

    Attributes:
        share: of sample i in its targets, and without a box in its pixels.
        box: left, top, right, bottom of the rectangle that is taken from the other sample in every frame; None blends all pixels.
    """

    permutation: Tensor
    share: float
    box: tuple[int, int, int, int] | None = None

    def __call__(self, video: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Mixed clips (batch, T, 3, H, W) and targets (batch, classes)."""
        if self.box is None:
            video = self.share * video + (1 - self.share) * video[self.permutation]
        else:
            left, top, right, bottom = self.box
            mixed = video.clone()
            mixed[..., top:bottom, left:right] = video[self.permutation][..., top:bottom, left:right]
            video = mixed
        return video, self.share * targets + (1 - self.share) * targets[self.permutation]


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """The distribution that mixtures are drawn from; the defaults are the paper's.

    With ``across_parts`` a step's batch is mixed before it is cut into the parts of its accumulation, once for all of them. Without, as
    released, each part is mixed by itself: parts of one clip then stay as they are (spec quirk 8).
    """

    mixup_alpha: float = 0.8
    cutmix_alpha: float = 1.0
    cutmix_probability: float = 0.5
    across_parts: bool = False

    def draw(self, batch_size: int, height: int, width: int) -> Mixture:
        """A mixture for one batch, from torch's global generator."""
        permutation = torch.randperm(batch_size)
        if float(torch.rand(())) >= self.cutmix_probability:
            return Mixture(permutation, float(torch.distributions.Beta(self.mixup_alpha, self.mixup_alpha).sample()))
        share = float(torch.distributions.Beta(self.cutmix_alpha, self.cutmix_alpha).sample())
        return cutmix(permutation, share, int(torch.randint(width, ())), int(torch.randint(height, ())), height, width)


def cutmix(permutation: Tensor, share: float, centre_x: int, centre_y: int, height: int, width: int) -> Mixture:
    """The mixture whose box covers about ``1 - share`` of the frame around a centre; the share is corrected to what it really leaves."""
    cut_width, cut_height = int(width * (1 - share) ** 0.5), int(height * (1 - share) ** 0.5)
    # Floor halves: an odd cut loses one pixel, as released.
    left, right = (min(max(centre_x + side * (cut_width // 2), 0), width) for side in (-1, 1))
    top, bottom = (min(max(centre_y + side * (cut_height // 2), 0), height) for side in (-1, 1))
    return Mixture(permutation, 1 - (right - left) * (bottom - top) / (width * height), (left, top, right, bottom))
