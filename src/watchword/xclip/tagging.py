"""Tagging: which of the user's labels a video shows, for one clip, many clips, or a timeline of windows.

Three numbers go with every label:

* ``score``: its share among the labels given, a softmax over the list, so the scores of a list add up to 1. It says which of these
  labels fits best, and nothing about whether any of them fits at all.
* ``match``: its share if it stood alone against a fixed background, a softmax over the label and the background's phrases. The
  background is the classes the weights were trained on, if they name any, or else ``watchword.xclip.labels.BACKGROUND``, plain
  scenes such as "an empty room". It does not depend on the other labels. It is no calibrated probability: compare it between
  videos and labels of one model.
* ``similarity``: the cosine of video and label by the video-specific prompts, from -1 to 1.

With one label a share would always be 1, so there the score is the match. A threshold asks both, score and match, to reach it;
when no label does, the answer is "none of these".

Image-text models that were trained with a sigmoid (SigLIP, expanded to video) judge each label by itself. There score and match are
both the sigmoid of the label's logit, the probability that the image-text model was trained to give, so the scores of a list need
not add up to 1.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError, WatchwordError
from ..layers import with_weights_in
from ..media import DEFAULT_LIMITS, Limits
from .labels import background_labels, clean_labels, encode_labels, evaluating, own_classes, score_labels
from .model import XClip
from .reading import EndOfFile, ReadWindow, Windows, read_ahead, read_windows

__all__ = ["NONE_OF_THESE", "ClipResult", "Failure", "Tag", "Tagger", "Window"]

NONE_OF_THESE = "(none of these)"
FRAMES_PER_STEP = {"cpu": 32}  # frames of one batch, which bounds the memory; 256 elsewhere
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

PathLike = str | os.PathLike[str]
Precision = Literal["float32", "bfloat16", "float16"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tag:
    """A label and how well it fits; the three numbers are explained at the top of ``watchword.xclip.tagging``."""

    label: str
    score: float
    match: float
    similarity: float


@dataclass(frozen=True, slots=True)
class Window:
    """What one stretch of a video shows, in seconds on the file's clock."""

    start_seconds: float
    end_seconds: float
    tags: list[Tag]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file has no tags: the stage that failed (``find``, ``open``, ``decode``), a fixed word, and the error."""

    stage: str
    reason: str
    error: WatchwordError

    @classmethod
    def of(cls, error: WatchwordError, stage: str) -> Failure:
        return cls(stage, getattr(error, "reason", type(error).__name__), error)


@dataclass(frozen=True, eq=False)
class ClipResult:
    """One file's result. ``scores``, ``matches`` and ``similarities`` are (windows, labels); ``spans`` are (windows, 2) in seconds."""

    path: str
    labels: tuple[str, ...] = ()
    spans: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2)))
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    matches: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    similarities: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    def tags(self, *, top: int | None = None, threshold: float | None = None) -> list[Tag]:
        """The labels of the whole file, best first: the mean over its windows, each by its length."""
        numbers = (self.over_time(windows) for windows in (self.scores, self.matches, self.similarities))
        return self._tags(*numbers, top=top, threshold=threshold)

    def over_time(self, numbers: Floats) -> Floats:
        """The mean (labels,) of numbers (windows, labels), each window by its length: a short rest at the end counts for little."""
        lengths = self.spans[:, 1] - self.spans[:, 0]
        mean: Floats = np.average(numbers, axis=0, weights=lengths if lengths.sum() > 0 else None).astype(np.float32)
        return mean

    def windows(self, *, top: int | None = None, threshold: float | None = None) -> list[Window]:
        """Each window's labels, best first."""
        return [
            Window(float(start), float(end), self._tags(*numbers, top=top, threshold=threshold))
            for (start, end), *numbers in zip(self.spans, self.scores, self.matches, self.similarities, strict=True)
        ]

    def _tags(self, scores: Floats, matches: Floats, similarities: Floats, *, top: int | None, threshold: float | None) -> list[Tag]:
        order = np.argsort(-scores, kind="stable")[:top]
        tags = [Tag(self.labels[i], float(scores[i]), float(matches[i]), float(similarities[i])) for i in order]
        return tags if threshold is None else [tag for tag in tags if min(tag.score, tag.match) >= threshold]


class Tagger:
    """Tags videos with an X-CLIP model, on the device the model is on.

    Args:
        model: its training mode and weights are left as they are.
        precision: ``bfloat16`` and ``float16`` run under autocast, on a copy of the model with its weights as they are now; float16
            on a CPU falls back to float32 with a warning.
        batch_size: clips of one step; None takes as many as keep the memory of a step small.
        limits: files beyond them are refused.
    """

    def __init__(
        self, model: XClip, *, precision: Precision = "float32", batch_size: int | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        if precision not in PRECISIONS:
            raise InputError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")
        self.limits = limits
        if precision == "float16" and model.logit_scale.device.type == "cpu":
            warnings.warn("float16 is not for CPUs: computing in float32", UserWarning, stacklevel=2)
            precision = "float32"
        self.precision: Precision = precision
        self.model = model if precision == "float32" else with_weights_in(model, PRECISIONS[precision])
        if batch_size is not None and batch_size < 1:
            raise InputError(f"the batch size is {batch_size}, but must be at least 1")
        self.batch_size = batch_size or max(1, FRAMES_PER_STEP.get(self.device.type, 256) // model.config.num_frames)

    @classmethod
    def from_pretrained(
        cls, source: PathLike, *, device: str = "auto", precision: Precision = "float32", limits: Limits = DEFAULT_LIMITS, **options: Any
    ) -> Tagger:
        """A tagger with weights from ``source``; ``device`` ``auto`` takes a GPU if there is one.

        ``options`` and errors are those of ``XClip.from_pretrained``.
        """
        target = find_device(device)
        return cls(XClip.from_pretrained(os.fspath(source), **options).to(target), precision=precision, limits=limits)

    @property
    def device(self) -> torch.device:
        return self.model.logit_scale.device

    def tag(
        self,
        videos: PathLike | Sequence[PathLike],
        labels: Sequence[str] | None = None,
        *,
        window_seconds: float | None = None,
        stride_seconds: float | None = None,
        top: int | None = None,
        threshold: float | None = None,
        truncate: bool = False,
    ) -> list[Any]:
        """The labels of one video or of several, best first.

        Args:
            videos: a path gives a list of tags; a sequence of paths gives a list of such lists, in the same order.
            labels: in the user's own words; None takes the classes that the weights name. See ``encode_labels`` for ``truncate``.
            window_seconds, stride_seconds: give a list of windows for each video in place of its tags.
            top: keep the best so many.
            threshold: keep tags whose score and match reach it (0 to 1); an empty list means "none of these".

        Raises:
            MediaError: a video cannot be read. ``run`` goes on with the others.
            LabelError: the labels cannot be used.
            InputError: a number out of range.
        """
        _check_choice(top, threshold)
        paths = [videos] if isinstance(videos, (str, os.PathLike)) else videos
        results = []
        for result in self.run(paths, labels, window_seconds=window_seconds, stride_seconds=stride_seconds, truncate=truncate):
            if result.failure:
                raise result.failure.error
            choose: Callable[..., list[Any]] = result.tags if window_seconds is None else result.windows
            results.append(choose(top=top, threshold=threshold))
        return results[0] if isinstance(videos, (str, os.PathLike)) else results

    def run(
        self,
        paths: Sequence[PathLike],
        labels: Sequence[str] | None = None,
        *,
        window_seconds: float | None = None,
        stride_seconds: float | None = None,
        truncate: bool = False,
        on_progress: Callable[[int, float], None] | None = None,
    ) -> Iterator[ClipResult]:
        """Results in the order of the paths, each as soon as it is there; a file that cannot be read gives a result with a failure.

        Decoding runs beside the model, and what is held does not grow with the number or the length of the videos.
        ``on_progress`` is told the number of a path and the share of it that is done. Errors are those of ``tag`` but MediaError.
        """
        if window_seconds is None and stride_seconds is not None:
            raise InputError("a stride needs a window: give window_seconds too")
        windows = None if window_seconds is None else Windows(window_seconds=window_seconds, stride_seconds=stride_seconds)
        texts, notice = clean_labels(own_classes(self.model) if labels is None else labels)
        if notice:
            warnings.warn(notice, UserWarning, stacklevel=2)
        checked = _check_paths(paths)
        scorer = _Scorer(self.model, texts, self.autocast, truncate=truncate)
        return self._results(checked, scorer, windows, on_progress)

    def autocast(self) -> AbstractContextManager[Any]:
        """Within it the model computes in this tagger's precision."""
        return torch.autocast(self.device.type, PRECISIONS[self.precision], enabled=self.precision != "float32")

    def _results(
        self, paths: list[Path], scorer: _Scorer, windows: Windows | None, on_progress: Callable[[int, float], None] | None
    ) -> Iterator[ClipResult]:
        cores = num_cores()
        num_readers = max(1, min(len(paths), cores // 2, 8))
        read = partial(
            read_windows,
            config=self.model.config,
            windows=windows,
            limits=self.limits,
            # Of many files the processor time counts, of one how soon it is read.
            num_threads=min(4, cores) if len(paths) == 1 else None,
        )
        items = read_ahead(
            [partial(read, path) for path in paths],
            num_readers=num_readers,
            max_jobs=num_readers + self.batch_size,
            max_items=2 * self.batch_size,
        )
        open_files: deque[_OpenFile] = deque()
        batch: list[tuple[_OpenFile, ReadWindow]] = []
        size = 1  # grows to the batch size, so that the model starts with the first clip and not with the first full batch

        def score_batch() -> None:
            for (file, window), numbers in zip(batch, scorer(torch.stack([window.clip for _, window in batch])), strict=True):
                file.add(window, numbers)
                if on_progress:
                    on_progress(file.number, window.share)
            batch.clear()

        with closing(items):
            for number, item in items:
                if not open_files or open_files[-1].number != number:
                    open_files.append(_OpenFile(number, paths[number]))
                if isinstance(item, ReadWindow):
                    batch.append((open_files[-1], item))
                    open_files[-1].num_windows += 1
                else:
                    open_files[-1].end = item
                if len(batch) == size or (isinstance(item, EndOfFile) and number == len(paths) - 1 and batch):
                    score_batch()
                    size = min(2 * size, self.batch_size)
                while open_files and open_files[0].is_complete:
                    yield open_files.popleft().result(scorer.labels)


class _Scorer:
    """Clips (B, T, 3, R, R) -> for each clip (3, K): scores, matches and similarities of the labels."""

    def __init__(
        self, model: XClip, labels: tuple[str, ...], autocast: Callable[[], AbstractContextManager[Any]], *, truncate: bool
    ) -> None:
        self.model, self.labels, self.autocast = model, labels, autocast
        background = background_labels(model) if model.logit_bias is None else ()
        with autocast():
            self.text = encode_labels(model, labels, truncate=truncate)
            self.background = encode_labels(model, background, truncate=True) if background else self.text[:0]
        places = {label.lower(): place for place, label in enumerate(background)}
        shared = [(number, places[label.lower()]) for number, label in enumerate(labels) if label.lower() in places]
        self.shared = torch.tensor(shared, dtype=torch.int64, device=self.text.device).reshape(-1, 2)

    def __call__(self, clips: Tensor) -> Floats:
        with torch.no_grad(), evaluating(self.model), self.autocast():
            features = self.model.encode_video(clips.to(self.text.device, non_blocking=True))
            logits = score_labels(self.model, features, self.text)
            if self.model.logit_bias is not None:
                scores = matches = logits.sigmoid()
                logits = logits - self.model.logit_bias.float()
            else:
                background = score_labels(self.model, features, self.background)
                matches = (logits - self._against(background, len(self.labels))).sigmoid()
                scores = logits.softmax(dim=-1) if len(self.labels) > 1 else matches
            similarities = logits / self.model.logit_scale.float().exp()
            numbers: Floats = torch.stack([scores, matches, similarities], dim=1).float().cpu().numpy()
        if not np.isfinite(numbers).all():
            raise InputError("the model gave scores that are not numbers: its weights are damaged, or the precision is too low for them")
        return numbers

    def _against(self, background: Tensor, num_labels: int) -> Tensor:
        """Log of the background's summed weight for each label, (B, K); a label that is itself in the background is left out of it."""
        against = background.logsumexp(dim=-1, keepdim=True).repeat(1, num_labels)
        if len(self.shared):
            label, place = self.shared.unbind(dim=1)
            itself = torch.zeros(len(label), background.shape[1], dtype=torch.bool, device=background.device)
            itself[torch.arange(len(label)), place] = True
            against[:, label] = background.unsqueeze(1).masked_fill(itself, -torch.inf).logsumexp(dim=-1)
        return against


class _OpenFile:
    """A file whose windows are being read and scored."""

    def __init__(self, number: int, path: Path) -> None:
        self.number, self.path = number, path
        self.num_windows = 0
        self.end: EndOfFile | None = None
        self.spans: list[tuple[float, float]] = []
        self.numbers: list[Floats] = []

    def add(self, window: ReadWindow, numbers: Floats) -> None:
        self.spans.append((window.start_seconds, window.end_seconds))
        self.numbers.append(numbers)

    @property
    def is_complete(self) -> bool:
        return self.end is not None and len(self.numbers) == self.num_windows

    def result(self, labels: tuple[str, ...]) -> ClipResult:
        assert self.end is not None
        if self.end.error:
            return ClipResult(str(self.path), failure=Failure.of(self.end.error, self.end.stage))
        scores, matches, similarities = np.stack(self.numbers, axis=1)
        return ClipResult(str(self.path), labels, np.array(self.spans), scores, matches, similarities, self.end.warnings)


def find_device(name: str) -> torch.device:
    """The torch device of this name; ``auto`` is a GPU if there is one. InputError if this machine has no such device."""
    if name == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"no device {name!r} on this machine ({str(error).splitlines()[0].split('. ')[0]}): use cpu or auto") from error
    return device


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_paths(paths: Sequence[PathLike]) -> list[Path]:
    if isinstance(paths, (str, os.PathLike)) or not isinstance(paths, Iterable):
        raise InputError(f"paths are {paths!r}, but must be a list of paths")
    listed = list(paths)
    for number, path in enumerate(listed, start=1):
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"video {number} is {type(path).__name__}, but must be a path; frames go through load_clip and encode_video")
    return [Path(path) for path in listed]


def _check_choice(top: int | None, threshold: float | None) -> None:
    if top is not None and top < 1:
        raise InputError(f"top is {top}, but must be at least 1")
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"the threshold is {threshold}, but must be between 0 and 1")
