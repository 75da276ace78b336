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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..devices import Precision, autocast, find_device, num_cores, usable_precision, with_precision
from ..errors import InputError
from ..media import DEFAULT_LIMITS, Limits
from ..read_ahead import read_ahead
from ..results import Failure, PathLike, check_choice, check_paths, finite, mean_over_time
from ..text.labels import clean_labels
from ..weights.evaluating import evaluating
from .labels import background_labels, encode_labels, own_classes, score_labels
from .model import XClip
from .reading import EndOfFile, ReadWindow, Windows, read_windows

__all__ = ["ClipResult", "Tag", "Tagger", "Window"]

FRAMES_PER_STEP = {"cpu": 32}  # frames of one batch, which bounds the memory; 256 elsewhere

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

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of the file."""
        return self.warnings

    def tags(self, *, top: int | None = None, threshold: float | None = None) -> list[Tag]:
        """The labels of the whole file, best first: the mean over its windows, each by its length."""
        numbers = (self.over_time(windows) for windows in (self.scores, self.matches, self.similarities))
        return self._tags(*numbers, top=top, threshold=threshold)

    def over_time(self, numbers: Floats) -> Floats:
        """The mean (labels,) of numbers (windows, labels), see ``mean_over_time``."""
        return mean_over_time(numbers, self.spans)

    def whole(self, *, top: int | None = None, threshold: float | None = None) -> Window:
        """The whole file as one window."""
        return Window(float(self.spans[0, 0]), float(self.spans[-1, 1]), self.tags(top=top, threshold=threshold))

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
        self.limits = limits
        self.precision: Precision = usable_precision(precision, model.logit_scale.device)
        self.model = with_precision(model, self.precision)
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
        check_choice(top, threshold)
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
        checked = check_paths(paths)
        scorer = _Scorer(self.model, texts, self.autocast, truncate=truncate)
        return self._results(checked, scorer, windows, on_progress)

    def autocast(self) -> AbstractContextManager[Any]:
        """Within it the model computes in this tagger's precision."""
        return autocast(self.device, self.precision)

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
            return finite(torch.stack([scores, matches, similarities], dim=1).float().cpu().numpy())

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
