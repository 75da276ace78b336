"""What one training step of X-CLIP does: image-text pretraining on stills, and supervised training on labelled clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..layers import contrastive_loss
from ..text import tokenize
from ..weights.states import require_match
from .config import XClipConfig
from .inputs import to_tensor
from .mixing import Mixing, smoothed_targets
from .model import XClip, is_new_part

__all__ = ["ImageTextProgram", "SupervisedProgram", "expand_to_video", "parameter_groups"]

MAX_LOGIT_SCALE = math.log(100)  # as in CLIP's training
_PARTS = ("image-text", "mit", "prompts", "message_")


class ImageTextProgram:
    """Contrastive pretraining of the image and text encoders on captioned stills, from which a video model starts.

    The model is an X-CLIP of one frame without messages, integration and prompts, which is CLIP. ``dataset`` gives ``frames``
    (1, R, R, 3) and ``captions`` (kinds,), indices into its ``captions``; ``held_out`` is another of the kind. Captions are contrasted
    within their kind: across kinds, one still's caption may well be true of another.
    """

    name = "image-text"

    def __init__(self, model: XClip, dataset: Any, *, held_out: Any) -> None:
        self.model, self.dataset, self.held_out = model, dataset, held_out
        self.token_ids, self.held_out_ids = (
            tokenize(stills.captions, context_length=model.config.context_length) for stills in (dataset, held_out)
        )

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(self.model, optimizer, train_text=True)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        image = self.model.encode_video(to_tensor(batch["frames"], self.model.config.preprocessing)).video
        scale = self.model.logit_scale.clamp(max=MAX_LOGIT_SCALE).exp()
        losses = []
        for captions in batch["captions"].T:
            told, which = torch.unique(captions, return_inverse=True)
            text = self.model.encode_text(self.token_ids[told.cpu()].to(image.device))
            losses.append(contrastive_loss(image, text[which], scale, groups=captions))
        return torch.stack(losses).mean(), {}

    def evaluate(self) -> dict[str, Any]:
        """For each kind of caption, retrieval of the right one among all of that kind of 512 held-out stills, in percent."""
        samples = [self.held_out[0, index] for index in range(min(512, len(self.held_out)))]
        frames = torch.stack([torch.as_tensor(sample["frames"]) for sample in samples])
        device = self.model.logit_scale.device
        features = self.model.encode_video(to_tensor(frames, self.model.config.preprocessing).to(device))
        results = {}
        for kind in range(len(samples[0]["captions"])):
            told, right = torch.unique(torch.tensor([sample["captions"][kind] for sample in samples]), return_inverse=True)
            text = self.model.encode_text(self.held_out_ids[told].to(device))
            guesses = self.model.score(features, text).argmax(dim=1).cpu()
            results[f"caption_retrieval_{kind + 1}"] = 100 * (guesses == right).float().mean().item()
        return results

    def save(self, folder: Path) -> None:
        self.model.eval().save_pretrained(folder)


class SupervisedProgram:
    """Supervised training on a closed list of class names, scored against all of them at every step (section 3.1).

    Args:
        dataset: gives ``frames`` uint8 (T, R, R, 3) and ``label``, an index into ``class_names``.
        train_text: also train the text encoder; the paper's own runs keep it frozen.
        mixing: mixup and cutmix of the training clips, or None.
        held_out: the same kind of data set, for ``evaluate``.
    """

    name = "supervised"

    def __init__(
        self,
        model: XClip,
        dataset: Any,
        *,
        class_names: Sequence[str],
        train_text: bool,
        label_smoothing: float,
        mixing: Mixing | None,
        held_out: Any,
    ) -> None:
        self.model, self.dataset, self.held_out = model, dataset, held_out
        self.class_names, self.train_text, self.label_smoothing = tuple(class_names), train_text, label_smoothing
        self.mixing = mixing
        self.token_ids = tokenize(self.class_names, context_length=model.config.context_length)
        self.text: Tensor | None = None  # of the frozen text encoder

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(self.model, optimizer, train_text=self.train_text)

    def class_features(self) -> Tensor:
        """The text features (K, E) of all class names: computed anew where the text encoder learns, once where it is frozen."""
        device = self.model.logit_scale.device
        if self.train_text:
            return self.model.encode_text(self.token_ids.to(device))
        if self.text is None:
            with torch.no_grad():
                self.text = self.model.encode_text(self.token_ids.to(device))
        return self.text

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        video = to_tensor(batch["frames"], self.model.config.preprocessing)
        targets = smoothed_targets(batch["label"], len(self.class_names), self.label_smoothing)
        if self.mixing is not None:
            video, targets = self.mixing.draw(len(video), *video.shape[-2:])(video, targets)
        features = self.model.encode_video(video)
        logits = self.model.score(features, self.class_features())
        right = logits.detach().argmax(dim=1) == batch["label"]
        return F.cross_entropy(logits, targets), {"top1": 100 * right.float().mean()}

    def evaluate(self) -> dict[str, Any]:
        """Top-1 in percent over the held-out clips, every one counted once."""
        device = self.model.logit_scale.device
        text = self.model.encode_text(self.token_ids.to(device))
        num_right = 0
        for start in range(0, len(self.held_out), 32):
            samples = [self.held_out[0, index] for index in range(start, min(start + 32, len(self.held_out)))]
            frames = torch.stack([torch.as_tensor(sample["frames"]) for sample in samples])
            features = self.model.encode_video(to_tensor(frames, self.model.config.preprocessing).to(device))
            guesses = self.model.score(features, text).argmax(dim=1).tolist()
            num_right += sum(guess == sample["label"] for guess, sample in zip(guesses, samples, strict=True))
        return {"held_out_top1": 100 * num_right / len(self.held_out), "num_held_out": len(self.held_out)}

    def save(self, folder: Path) -> None:
        self.model.eval().save_pretrained(folder)


def expand_to_video(image_text: XClip, config: XClipConfig) -> XClip:
    """A video model of ``config`` that starts from an image-text model: shared parts are copied, new parts are as initialised.

    Raises CheckpointError, with a table as its note, if a shared part is missing, extra or of another shape.
    """
    model = XClip(config)
    state = image_text.state_dict()
    own = {name: tensor.shape for name, tensor in model.state_dict().items() if name in state or not is_new_part(name)}
    require_match(own, state, f"the start {image_text.config.weights!r}")
    model.load_state_dict(state, strict=False)
    return model


def parameter_groups(model: nn.Module, optimizer: Any, *, train_text: bool) -> list[dict[str, Any]]:
    """AdamW's groups (spec section 10.4): image-text parameters, then MIT, prompts and messages at a higher rate, each split into
    those that decay and those that do not (one-dimensional ones, biases, positional embeddings). Freezes what is not trained.

    Where ``optimizer`` asks for it, the matrices inside the blocks are groups for Muon.
    """
    groups: dict[tuple[str, bool, bool], list[nn.Parameter]] = {
        (part, decays, muon): [] for part in _PARTS for decays, muon in ((True, False), (False, False), (True, True))
    }
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(train_text or name.startswith("visual.") or is_new_part(name))
        if not parameter.requires_grad:
            continue
        part = next((part for part in ("prompts", "mit", "message_") if part in name), "image-text")
        decays = not (parameter.ndim == 1 or name.endswith(".bias") or "positional_embedding" in name)
        inside = "resblocks." in name or "decoder." in name
        groups[part, decays, optimizer.muon_learning_rate is not None and inside and parameter.ndim == 2].append(parameter)
    return [
        {
            "params": parameters,
            "lr": (optimizer.muon_learning_rate if muon else optimizer.learning_rate)
            * (1 if part == "image-text" else optimizer.new_parts_factor),
            "weight_decay": optimizer.weight_decay if decays else 0.0,
            **({"muon": True} if muon else {}),
        }
        for (part, decays, muon), parameters in groups.items()
        if parameters
    ]
