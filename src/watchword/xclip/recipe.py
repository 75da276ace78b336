"""What one training step of X-CLIP does: image-text pretraining on stills, and supervised training on labelled clips."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from .. import processes
from ..files import replacing
from ..layers import contrastive_loss
from ..weights.states import read_state, require_match
from .class_heads import ClassHead
from .config import XClipConfig
from .expanded import ExpandedXClip, model_of
from .inputs import to_tensor
from .mixing import Mixing, smoothed_targets
from .model import XClip, is_new_part

__all__ = [
    "ImageTextProgram",
    "SupervisedProgram",
    "Trained",
    "expand_to_video",
    "load_class_head",
    "parameter_groups",
    "trained_parameters",
]

Trained = Literal["all", "video", "text", "new"]

HEAD_FILE = "class_head.safetensors"
MAX_LOGIT_SCALE = math.log(100)  # as in CLIP's training
_POSITIONS = ("positional_embedding", "pos_embed", "position_bias")  # ours, and those of timm's towers
_PARTS = ("image-text", "mit", "prompts", "message_", "class_head")


class _Program:
    """What both programs do with their model."""

    model: XClip

    def trained_parameters(self) -> str:
        return trained_parameters(self.model)

    def checkpoint_activations(self) -> None:
        self.model.checkpoint_activations()

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return batch

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        save_weights(self.model, weights, folder)


class ImageTextProgram(_Program):
    """Contrastive pretraining of the image and text encoders on captioned stills, from which a video model starts.

    The model is an X-CLIP of one frame without messages, integration and prompts, which is CLIP. ``dataset`` gives ``frames``
    (1, R, R, 3) and ``captions`` (kinds,), indices into its ``captions``; ``held_out`` is another of the kind. Captions are contrasted
    within their kind: across kinds, one still's caption may well be true of another.
    """

    name = "image-text"

    def __init__(self, model: XClip, dataset: Any, *, held_out: Any) -> None:
        self.model, self.dataset, self.held_out = model, dataset, held_out
        self.token_ids, self.held_out_ids = (model.tokenize(stills.captions) for stills in (dataset, held_out))

    @property
    def metrics(self) -> list[str]:
        return [f"caption_retrieval_{kind}" for kind, _ in enumerate(self.held_out[0, 0]["captions"], start=1)]

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(self.model, optimizer, trained="all")

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
        device = self.model.logit_scale.device
        own = processes.share(min(512, len(self.held_out)))
        samples = [self.held_out[0, index] for index in own]
        captions = np.array([told for part in processes.gather([sample["captions"] for sample in samples]) for told in part])
        kinds = [np.unique(of_kind, return_inverse=True) for of_kind in captions.T]
        num_right = np.zeros(len(kinds))
        if samples:
            frames = torch.stack([torch.as_tensor(sample["frames"]) for sample in samples])
            features = self.model.encode_video(to_tensor(frames, self.model.config.preprocessing).to(device))
            for kind, (told, right) in enumerate(kinds):
                text = self.model.encode_text(self.held_out_ids[torch.from_numpy(told)].to(device))
                guesses = self.model.score(features, text).argmax(dim=1).cpu().numpy()
                num_right[kind] = np.sum(guesses == right[own.start : own.stop])
        shares = 100 * np.sum(processes.gather(num_right), axis=0) / len(captions)
        return {f"caption_retrieval_{kind}": float(share) for kind, share in enumerate(shares, start=1)}


class SupervisedProgram(_Program):
    """Supervised training on a closed list of class names, scored against all of them at every step (section 3.1).

    Args:
        dataset: gives ``frames`` uint8 (T, R, R, 3) and ``label``, an index into ``class_names``.
        trained: which branches learn, see ``parameter_groups``; the paper's own runs take ``video``.
        mixing: mixup and cutmix of the training clips, or None.
        held_out: data sets of the same kind by name, for ``evaluate``.
        head: how classes are scored, see ``class_heads.make_head``; by their names if None.
        evaluations: for ``evaluate``, data sets with class names of their own by name, each of one name a split or draw.
        head_for: the head of such names, made anew for each evaluation as the text may have learned since.
    """

    name = "supervised"

    def __init__(
        self,
        model: XClip,
        dataset: Any,
        *,
        class_names: Sequence[str],
        trained: Trained,
        label_smoothing: float,
        mixing: Mixing | None,
        held_out: Mapping[str, Any],
        head: nn.Module | None = None,
        evaluations: Mapping[str, Sequence[tuple[Any, tuple[str, ...]]]] = MappingProxyType({}),
        head_for: Callable[[tuple[str, ...]], nn.Module] | None = None,
    ) -> None:
        self.model, self.dataset, self.held_out, self.evaluations = model, dataset, held_out, evaluations
        self.head_for = head_for or partial(ClassHead, model, text_learns=False)
        self.class_names, self.trained, self.label_smoothing = tuple(class_names), trained, label_smoothing
        self.mixing = mixing
        self.head = head or ClassHead(model, self.class_names, text_learns=trained in ("all", "text"))
        if list(self.head.parameters()):
            model.class_head = self.head  # so that it is optimised, spread and saved with the rest

    @property
    def metrics(self) -> list[str]:
        return [f"{name}_top1" for name in (*self.held_out, *self.evaluations)]

    def parameter_groups(self, optimizer: Any) -> list[dict[str, Any]]:
        return parameter_groups(self.model, optimizer, trained=self.trained)

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        if self.mixing is None or not self.mixing.across_parts:
            return batch
        video, targets = self._mixed(batch)
        return {"video": video, "targets": targets, "label": batch["label"]}

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        video, targets = (batch["video"], batch["targets"]) if "video" in batch else self._mixed(batch)
        features = self.model.encode_video(video)
        logits = self.head.train()(self.model, features)
        right = logits.detach().argmax(dim=1) == batch["label"]
        return F.cross_entropy(logits, targets), {"top1": 100 * right.float().mean()}

    def _mixed(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Clips as the model takes them and their targets, mixed if they are to be."""
        video = to_tensor(batch["frames"], self.model.config.preprocessing)
        targets = smoothed_targets(batch["label"], len(self.class_names), self.label_smoothing)
        if self.mixing is not None:
            video, targets = self.mixing.draw(len(video), *video.shape[-2:])(video, targets)
        return video, targets

    def evaluate(self, *, num_views: int = 1) -> dict[str, Any]:
        """Top-1 in percent over each of the held-out sets, every clip counted once; of several sets of one name also the deviation.

        The views of a clip are the first epochs of its set, and the probabilities of the classes are added over them (section 13.1).
        """
        results: dict[str, Any] = {}
        for name, dataset in self.held_out.items():
            top1, counted = self._top1(dataset, self.head, num_views)
            results |= {f"{name}_top1": top1, f"num_{name}": counted}
        for name, sets in self.evaluations.items():
            found = [self._top1(dataset, self.head_for(names), num_views) for dataset, names in sets]
            top1s = [top1 for top1, _ in found]
            results |= {f"{name}_top1": statistics.mean(top1s), f"num_{name}": sum(counted for _, counted in found)}
            if len(found) > 1:
                results[f"{name}_top1_deviation"] = statistics.stdev(top1s)
        return results

    def _top1(self, dataset: Any, head: nn.Module, num_views: int) -> tuple[float, int]:
        """The percentage right, and how many samples were counted."""
        own = processes.share(len(dataset))
        num_right = sum(self._num_right(dataset, head, own[start : start + 32], num_views) for start in range(0, len(own), 32))
        right, counted = (sum(numbers) for numbers in zip(*processes.gather((num_right, len(own))), strict=True))
        return 100 * right / counted, counted

    def _num_right(self, dataset: Any, head: nn.Module, places: range, num_views: int) -> int:
        views = [[dataset[view, index] for index in places] for view in range(num_views)]
        shares = sum(self._logits(samples, head).double().softmax(dim=1) for samples in views)
        assert isinstance(shares, Tensor)
        return sum(guess == sample["label"] for guess, sample in zip(shares.argmax(dim=1).tolist(), views[0], strict=True))

    def _logits(self, samples: Sequence[dict[str, Any]], head: nn.Module) -> Tensor:
        frames = torch.stack([torch.as_tensor(sample["frames"]) for sample in samples]).to(self.model.logit_scale.device)
        features = self.model.encode_video(to_tensor(frames, self.model.config.preprocessing))
        logits: Tensor = head.eval()(self.model, features)
        return logits


def save_weights(trained: XClip, weights: dict[str, Tensor], folder: Path) -> None:
    """Write a model like the trained one, of these weights, which need not lie in one model: it may be spread over processes.

    A class head's own weights, which no model takes, are written beside it.
    """
    head = {name.removeprefix("class_head."): tensor for name, tensor in weights.items() if name.startswith("class_head.")}
    model = like(trained, trained.config)
    model.load_state_dict({name: tensor for name, tensor in weights.items() if not name.startswith("class_head.")})
    model.eval().save_pretrained(folder)
    if head:
        with replacing(folder / HEAD_FILE) as beside:
            save_file(head, beside)


def load_class_head(head: nn.Module, folder: Path) -> None:
    """Give a class head of a finished run's kind the weights of its own, if it has any. Raises CheckpointError if they are not there."""
    if own := head.state_dict():
        state = read_state(folder / HEAD_FILE)
        require_match({name: tensor.shape for name, tensor in own.items()}, state, str(folder / HEAD_FILE))
        head.load_state_dict(state)


def expand_to_video(image_text: XClip, config: XClipConfig) -> XClip:
    """A video model of ``config`` that starts from an image-text model, or another video model: what it has is copied, new parts that it
    lacks are as initialised, and those that ``config`` does without are left.

    Raises CheckpointError, with a table as its note, if a part is missing, extra or of another shape.
    """
    model = like(image_text, config)
    wanted = model.state_dict()
    state = {name: tensor for name, tensor in image_text.state_dict().items() if name in wanted or not is_new_part(name)}
    own = {name: tensor.shape for name, tensor in wanted.items() if name in state or not is_new_part(name)}
    require_match(own, state, f"the start {image_text.config.weights!r}")
    model.load_state_dict(state, strict=False)
    return model


def like(other: XClip, config: XClipConfig) -> XClip:
    """A model of ``config`` with the tokenizer of another."""
    model = model_of(config)
    if isinstance(model, ExpandedXClip) and isinstance(other, ExpandedXClip):
        model.tokenizer_folder = other.tokenizer_folder
    return model


def parameter_groups(model: nn.Module, optimizer: Any, *, trained: Trained) -> list[dict[str, Any]]:
    """AdamW's groups (spec section 10.4): image-text parameters, then MIT, prompts and messages at a higher rate, each split into
    those that decay and those that do not (one-dimensional ones and others that are one vector, biases, positional embeddings). Freezes
    what is not trained.

    ``trained``: the image encoder (``video``), the text encoder with the logit scale (``text``), both (``all``) or neither (``new``);
    the parts that X-CLIP adds to CLIP always learn (spec section 15). Where ``optimizer`` asks for it, the matrices inside the blocks are
    groups for Muon.
    """
    branches = {"new parts"} | {"all": {"image", "text"}, "video": {"image"}, "text": {"text"}, "new": set()}[trained]
    groups: dict[tuple[str, bool, bool], list[nn.Parameter]] = {
        (part, decays, muon): [] for part in _PARTS for decays, muon in ((True, False), (False, False), (True, True))
    }
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(_branch(name) in branches)
        if not parameter.requires_grad:
            continue
        part = next((part for part in _PARTS[1:] if part in name), "image-text")
        decays = not (_is_vector(parameter) or name.endswith(".bias") or any(position in name for position in _POSITIONS))
        decays = decays and (parameter.ndim > 0 or optimizer.decay_logit_scale)
        inside = "blocks." in name or "decoder." in name
        groups[part, decays, optimizer.muon_learning_rate is not None and decays and inside and parameter.ndim == 2].append(parameter)
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


def _is_vector(parameter: Tensor) -> bool:
    """One-dimensional, as CLIP's class embedding, or with axes of size one besides, as timm's class token and pooling query."""
    return parameter.ndim > 0 and sum(size > 1 for size in parameter.shape) <= 1


def trained_parameters(model: nn.Module) -> str:
    """In words, how many million parameters of each branch learn and how many are frozen."""
    counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for name, parameter in model.named_parameters():
        counts[parameter.requires_grad][_branch(name)] += parameter.numel()
    learning, frozen = (
        ", ".join(f"{branch} {counts[learns][branch] / 1e6:.2f}" for branch in ("image", "text", "new parts") if counts[learns][branch])
        for learns in (True, False)
    )
    num_learning = counts[True].total()
    num_all = num_learning + counts[False].total()
    return f"training {num_learning / 1e6:.2f} of {num_all / 1e6:.2f} million parameters ({learning}; frozen: {frozen or 'none'})"


def _branch(name: str) -> str:
    return "new parts" if is_new_part(name) else "image" if name.startswith("visual.") else "text"
