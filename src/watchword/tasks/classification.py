"""Classification of labelled videos (spec section 14): each video is scored against all class names in one or several views, the
probabilities are added over its views, and every video counts once, whatever the batch size and the number of processes.

Within a ``torch.distributed`` group each process reads and scores its share of the list, and all of them get the whole result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import processes
from ..datasets.annotations import class_finder
from ..datasets.splits import Protocol
from ..devices import Precision, num_cores
from ..errors import InputError, LabelError, WatchwordError
from ..media import DEFAULT_LIMITS, Limits
from ..read_ahead import read_ahead
from ..results import PathLike
from ..text.labels import clean_labels
from ..weights.evaluating import evaluating
from ..weights.states import hash_state
from ..xclip.inputs import to_tensor
from ..xclip.labels import encode_labels, own_classes, score_labels
from ..xclip.model import XClip
from ..xclip.tagging import Tagger
from ..xclip.views import Views, read_views
from .results import ClassificationResult, VideoResult, ranked

__all__ = ["evaluate"]

SINGLE_VIEW = Views()


def evaluate(
    model: XClip,
    videos: Sequence[tuple[PathLike, str]],
    class_names: Sequence[str] | None = None,
    *,
    protocol: str = "own list",
    annotations_sha256: str | None = None,
    views: Views = SINGLE_VIEW,
    subset: bool = False,
    precision: Precision = "float32",
    batch_size: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_progress: Callable[[int], None] = lambda num_done: None,
) -> ClassificationResult:
    """Classify videos with known labels and count.

    Args:
        model: on the device to compute on; its mode and weights are left as they are.
        videos: (path, label) pairs, as ``read_annotations`` gives them; a label is a class name in any spelling.
        class_names: the candidates; None takes the classes that the weights name, of which the videos may show a part.
        protocol, annotations_sha256: name of the protocol, and hash of the list's file, that the result carries.
        views: clips and crops of each video.
        subset: allow class names of which the list has no video. Without it such a list is refused, as it is likely another protocol's.
        batch_size: views of one step; None keeps the memory of a step small.
        on_progress: told how many videos are done.

    A video that cannot be read is in the result with its error, and does not count in the accuracies.

    Raises:
        ConfigError: class names that are not those of the videos, with both numbers.
        LabelError: fewer than two class names, or two that cannot be told apart.
        InputError: an empty list, no video that can be read, or scores that are not numbers.
    """
    if not videos:
        raise InputError("there are no videos to evaluate")
    if class_names is None:
        class_names, subset = own_classes(model), True
    names = _checked_names(class_names)
    find = class_finder(names, numbered=False)
    labelled = [(Path(path), find(label) or label) for path, label in videos]
    record = Protocol.of(protocol, names, labelled, subset=subset, annotations_sha256=annotations_sha256)
    numbers = {name: number for number, name in enumerate(names)}
    if model.config.weights == "random":
        warnings.warn("these weights were never trained: the accuracy is chance", UserWarning, stacklevel=2)
    tagger = Tagger(model, precision=precision, batch_size=batch_size, limits=limits)
    todo = [_Video(place, path, numbers[name]) for place, (path, name) in enumerate(labelled)]
    own = todo[processes.rank() :: processes.count()]
    shares = processes.gather(dict(_classify(tagger, own, names, views, on_progress)))
    done = {place: video for share in shares for place, video in share.items()}
    result = ClassificationResult(
        protocol=protocol,
        class_names=names,
        videos=tuple(done[video.place] for video in todo),
        settings={
            "weights": model.config.weights,
            "num_frames": model.config.num_frames,
            "image_size": model.config.image_size,
            "views": str(views),
            "precision": tagger.precision,
            "weights_sha256": hash_state(model.state_dict()),
            **record.hashes(),
        },
    )
    if not result.read:
        raise InputError(f"none of the {len(todo)} videos can be read; the first: {result.failed[0].error}")
    return result


@dataclass(frozen=True)
class _Video:
    """A video, its place in the list and the number of its class."""

    place: int
    path: Path
    label: int


def _checked_names(class_names: Sequence[str]) -> tuple[str, ...]:
    names, notice = clean_labels(class_names)
    if notice:
        raise LabelError(f"two classes with one name cannot be told apart: {notice}")
    if len(names) < 2:
        raise LabelError(f"classification needs at least 2 classes, but {names[0]!r} is the only one")
    return names


def _classify(
    tagger: Tagger, videos: Sequence[_Video], names: tuple[str, ...], views: Views, on_progress: Callable[[int], None]
) -> Iterator[tuple[int, VideoResult]]:
    """(place in the list, result) of each video; decoding runs beside the model, in memory that does not grow with the list."""
    with tagger.autocast():
        text = encode_labels(tagger.model, names)
    cores = num_cores()
    num_readers = max(1, min(len(videos), cores // 2, 8))
    read = partial(_read, tagger=tagger, views=views, num_threads=max(1, min(4, cores // num_readers)))
    max_jobs = num_readers + -(-tagger.batch_size // views.count)
    items = read_ahead([partial(read, video) for video in videos], num_readers=num_readers, max_jobs=max_jobs, max_items=1)
    sums: dict[int, npt.NDArray[np.float64]] = {}
    missing: dict[int, int] = {}
    batch: list[tuple[int, npt.NDArray[np.uint8]]] = []
    notes: dict[int, tuple[str, ...]] = {}
    num_done = 0

    def score_batch() -> Iterator[tuple[int, VideoResult]]:
        nonlocal num_done
        probabilities = _probabilities(tagger, np.stack([view for _, view in batch]), text)
        for (number, _), shares in zip(batch, probabilities, strict=True):
            sums[number] = sums.get(number, 0) + shares
            missing[number] -= 1
            if not missing[number]:
                video = videos[number]
                num_done += 1
                on_progress(num_done)
                yield video.place, ranked(video.path, video.label, sums.pop(number) / views.count, notes.pop(number))
        batch.clear()

    with closing(items):
        for number, item in items:
            if isinstance(item, VideoResult):
                num_done += 1
                on_progress(num_done)
                yield videos[number].place, item
                continue
            clips, notes[number] = item
            missing[number] = len(clips)
            for clip in clips:
                batch.append((number, clip))
                if len(batch) == tagger.batch_size:
                    yield from score_batch()
        if batch:
            yield from score_batch()


def _read(
    video: _Video, *, tagger: Tagger, views: Views, num_threads: int
) -> Iterator[tuple[npt.NDArray[np.uint8], tuple[str, ...]] | VideoResult]:
    """The video's views and warnings, or its result if it cannot be read."""
    try:
        yield read_views(video.path, tagger.model.config, views, number=video.place, limits=tagger.limits, num_threads=num_threads)
    except WatchwordError as error:
        reason = getattr(error, "reason", type(error).__name__)
        yield VideoResult(path=str(video.path), label=video.label, reason=reason, error=str(error))


def _probabilities(tagger: Tagger, clips: npt.NDArray[np.uint8], text: Tensor) -> npt.NDArray[np.float64]:
    """Clips uint8 (B, T, R, R, 3) -> probabilities of the classes (B, K)."""
    model = tagger.model
    with torch.no_grad(), evaluating(model), tagger.autocast():
        frames = to_tensor(torch.from_numpy(clips).to(tagger.device), model.config.preprocessing)
        logits = score_labels(model, model.encode_video(frames), text)
        shares: npt.NDArray[np.float64] = logits.double().softmax(dim=-1).cpu().numpy()
    if not np.isfinite(shares).all():
        raise InputError("the model gave scores that are not numbers: its weights are damaged, or the precision is too low for them")
    return shares
