"""Kinetics-600 with or without sound: which of the named classes a video shows (paper section 4.3; model spec section 8.4).

Every video is scored in one or several clips of ten seconds, whose probabilities are averaged. Weights that were finetuned on classes
answer with theirs; pretrained ones, zero-shot, by the vectors of the class names.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.utils.data import default_collate

from .. import processes
from ..datasets.annotations import class_finder
from ..datasets.protocols import ProtocolName, ProtocolVideos
from ..datasets.splits import Protocol
from ..datasets.videos import class_numbers
from ..devices import autocast, find_device, usable_precision, with_precision
from ..errors import ConfigError, InputError, WatchwordError
from ..reserve import Reserve
from ..reserve.class_scores import class_scores, for_classes
from ..reserve.labelled_clips import LabelledClip, read_clips
from ..training.parallel import in_turn
from ..training.schema import EvaluationData
from .finetuned import checked_settings, scored
from .results import ClassificationResult, VideoResult, ranked
from .task import DataReport, EvaluationOptions, Needed, TaskResult, look_for, percent, require, weights_record

__all__ = ["CONFUSION", "KineticsSound"]

CONFUSION = "confusion.csv"
_PLACES = {"top1": 1, "top5": 5}
_WHERE = "https://github.com/cvdfoundation/kinetics-dataset"
_TERMS = "lists: CC BY 4.0 (Google); videos: their uploaders', on YouTube's terms"


class _Settings(BaseModel):
    """``clips`` of each video; ``annotations``, a list in the folder (default: the one whose name begins with "val"); ``classes``, a class
    list other than the protocol's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    clips: int = Field(default=1, ge=1, le=100)
    annotations: str | None = None
    classes: str | None = None


@dataclass(frozen=True)
class _Video:
    path: Path
    label: int


class KineticsSound:
    """The task ``kinetics600_sound``. Its settings: ``clips`` of each video (1), ``annotations`` (the list that begins with "val"), and
    ``classes``, for another data set of labelled videos.
    """

    name = "kinetics600_sound"
    title = "Kinetics-600 with and without sound"
    needs: Sequence[Needed] = (
        Needed("val*.*", "the validation list: path and class number a line, or the owners' CSV", _WHERE, _TERMS),
        Needed("**/*.mp4", "the videos, in any folders and of any kind", _WHERE, _TERMS, optional=True),
    )

    def check(self, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        """See ``Task.check``. Looked for is whether the listed videos are there, not whether they can be read."""
        chosen = checked_settings(_Settings, self.name, settings)
        if chosen.annotations is None and (missing := look_for(folder, self.needs)):
            return DataReport(missing=missing)
        listed = _listed(folder, chosen)
        absent = [path for path, _ in listed.videos if not path.is_file()]
        shown = len({label for _, label in listed.videos})
        return DataReport(
            num_items=len(listed.videos),
            problems=tuple(f"{path} is not there" for path in absent),
            notes=(f"{listed.protocol}: {shown} of {len(listed.class_names)} classes are shown",),
        )

    def evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """See ``Task.evaluate``. ``use`` auto takes the sound if the weights have an audio encoder."""
        settings = checked_settings(_Settings, self.name, options.settings)
        if options.use not in ("auto", "frames", "sound"):
            raise ConfigError(f"Kinetics-600 has no subtitles, so it cannot be told by {options.use}: use sound, frames or auto")
        if settings.annotations is None:
            require(folder, self.needs)
        listed = _listed(folder, settings)
        device = find_device(options.device)
        precision = usable_precision(options.precision, device)
        with in_turn():  # so that one process downloads
            weights = Reserve.from_pretrained(model).to(device)
        sound = options.use == "sound" or (options.use == "auto" and weights.audio_encoder is not None)
        if sound:
            weights.part("audio_encoder", "hear nothing: use frames")
        names, labelled = _candidates(weights, listed)
        labels = class_numbers(labelled, names)
        videos = [_Video(path, label) for (path, _), label in zip(labelled, labels, strict=True)][: options.limit]
        if not videos:
            raise InputError(f"{folder}: the list names no video")
        finetuned = weights.classes is not None
        scoring = weights if finetuned else for_classes(weights, names, weights.config.weights, sound=sound)
        own = processes.share(len(videos))
        with torch.inference_mode(), autocast(device, precision):
            found = dict(_score(with_precision(scoring, precision), [videos[i] for i in own], sound, settings.clips, options))
        parts = processes.gather({own[number]: result for number, result in found.items()})
        done = {number: result for part in parts for number, result in part.items()}
        record = Protocol.of(listed.protocol, names, labelled, subset=True, annotations_sha256=listed.annotations_sha256)
        result = ClassificationResult(
            protocol=listed.protocol, class_names=names, videos=tuple(done[number] for number in range(len(videos)))
        )
        if not result.read:
            raise InputError(f"none of the {len(videos)} videos can be read; the first: {result.failed[0].error}")
        return TaskResult(
            task=f"{self.title}, {listed.protocol}, {'frames and sound' if sound else 'frames alone'}",
            metrics=_metrics(result),
            rows=[_row(video, names, folder) for video in result.videos],
            baselines=_baselines(labels[: len(videos)], len(names)),
            exports={CONFUSION: _confusion(result)},
            settings={
                **weights_record(weights),
                "classes_from": "finetuning" if finetuned else "class names, zero-shot",
                "grid": list(weights.config.grid),
                "precision": precision,
                "sound": sound,
                "clips": settings.clips,
                **record.hashes(),
            },
        )


def _listed(folder: Path, settings: _Settings) -> ProtocolVideos:
    name = settings.annotations or min(path.name for path in folder.glob("val*.*"))
    protocol: ProtocolName | None = "kinetics600" if settings.classes is None else None
    data = EvaluationData(annotations=folder / name, root=folder, protocol=protocol, classes=settings.classes)
    return data.lists()[0]


def _candidates(model: Reserve, listed: ProtocolVideos) -> tuple[tuple[str, ...], list[tuple[Path, str]]]:
    """The class names in the order of the scores, and the videos by these."""
    names = model.config.class_names
    if not names:
        return listed.class_names, listed.videos
    find = class_finder(names, numbered=False)
    if lacking := [label for label in listed.class_names if find(label) is None]:
        raise ConfigError(f"the weights {model.config.weights!r} tell {len(names)} classes apart, and {lacking[0]!r} is none of them")
    return names, [(path, find(label) or label) for path, label in listed.videos]


def _score(
    model: Reserve, videos: Sequence[_Video], sound: bool, num_clips: int, options: EvaluationOptions
) -> Iterator[tuple[int, VideoResult]]:
    """(number, result) of each video; the clips of one are scored together."""
    device = model.token_encoder.weight.device

    def score(read: list[list[LabelledClip]]) -> Iterator[np.ndarray[Any, Any]]:
        for clips in read:
            batch = {name: values.to(device) for name, values in default_collate([clip._asdict() for clip in clips]).items()}
            shares = class_scores(model, batch).double().softmax(dim=1).mean(dim=0).cpu().numpy()
            if not np.isfinite(shares).all():
                raise InputError("the model gave scores that are not numbers: its weights are damaged, or the precision is too low")
            yield shares

    reads = [partial(read_clips, video.path, model.config.grid, sound=sound, num_clips=num_clips) for video in videos]
    found = scored(reads, score, batch_size=1, on_progress=options.on_progress)
    for number, (video, shares) in enumerate(zip(videos, found, strict=True)):
        if isinstance(shares, WatchwordError):
            reason = getattr(shares, "reason", type(shares).__name__)
            yield number, VideoResult(path=str(video.path), label=video.label, reason=reason, error=" ".join(str(shares).split()))
        else:
            yield number, ranked(video.path, video.label, shares)


def _row(video: VideoResult, names: Sequence[str], folder: Path) -> dict[str, Any]:
    path = Path(video.path)
    row: dict[str, Any] = {"id": str(path.relative_to(folder) if path.is_relative_to(folder) else path), "label": names[video.label]}
    places = range(min(5, len(names)))
    best: list[tuple[str, float | None]] = [(names[number], share) for number, share in video.ranked] or [("", None)] * len(places)
    row |= {"guess": best[0][0], "place": video.place or None, "probability": None if video.error else video.probability}
    for place, (name, share) in zip(places, best, strict=True):
        row |= {f"class_{place + 1}": name, f"probability_{place + 1}": share}
    return {**row, "error": video.error}


def _metrics(result: ClassificationResult) -> dict[str, float]:
    """Top-1 and, with so many classes, top-5 over the videos; the mean of the classes' top-1. What cannot be read counts as wrong."""
    hits = [(video.label, video.place or len(result.class_names) + 1) for video in result.videos]
    wanted = {name: k for name, k in _PLACES.items() if k <= len(result.class_names)}
    by_class = [percent([place == 1 for label, place in hits if label == shown]) for shown in sorted({label for label, _ in hits})]
    return {
        **{name: percent([place <= k for _, place in hits]) for name, k in wanted.items()},
        "mean_per_class": sum(by_class) / len(by_class),
    }


def _baselines(labels: Sequence[int], num_classes: int) -> dict[str, dict[str, float]]:
    """``prior`` ranks first the classes that are most frequent among these very videos, so no prior of the training list is better."""
    frequent = [label for label, _ in Counter(labels).most_common()]
    wanted = {name: k for name, k in _PLACES.items() if k <= num_classes}
    return {
        "random": {name: 100 * k / num_classes for name, k in wanted.items()} | {"mean_per_class": 100 / num_classes},
        "prior": {name: percent([label in frequent[:k] for label in labels]) for name, k in wanted.items()}
        | {"mean_per_class": 100 / len(frequent)},
    }


def _confusion(result: ClassificationResult) -> bytes:
    """A CSV: a row for each class that is shown, a column for what it was taken for, numbers of videos."""
    lines = [["class", *result.class_names]]
    lines += [[name, *map(str, row)] for name, row in zip(result.class_names, result.confusion.tolist(), strict=True) if any(row)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().encode()
