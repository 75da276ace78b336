"""Zero-shot tasks: every item is a statement with one blank about stretches of a video, and a list of options that may fill it (model
spec section 9; data spec section 16).

MERLOT Reserve compares its vector at the blank with the options. An image-text model, X-CLIP or an expanded one, is the baseline of the
paper: it compares the stretches with the statement, each option in its blank.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from ..datasets.folders import VIDEO_SUFFIXES, find_media
from ..devices import find_device
from ..errors import ConfigError, InputError, WatchwordError
from ..fields import check_types, checked_fields
from ..reserve.answers import Question, Use
from ..reserve.checkpoints import holds_reserve, is_bundled
from ..reserve.filling import Filler, Job
from ..reserve.inputs import mask_query
from ..reserve.segmentation import Span
from ..reserve.segments import Stretches
from ..text.labels import clean_labels
from ..text.reserve import MASK_TEXT
from ..xclip.labels import encode_labels, score_labels
from ..xclip.reading import EndOfFile, read_windows
from ..xclip.tagging import Tagger
from .task import DataReport, EvaluationOptions, Needed, TaskResult, look_for, percent, require, weights_record

__all__ = [
    "BlankItem", "InSegments", "Options", "Scores", "ZeroShotTask",
    "find_video", "guess_of", "most_frequent", "place_of", "places_within", "videos_below",
]  # fmt: skip

Scores = npt.NDArray[np.float32]
"""Of an item's options, in their order; more is better."""

LONE = "<mask>"  # a statement whose options are the same texts for every item
XCLIP = "xclip:"  # before the name of an image-text model, where MERLOT Reserve has weights of that name too


@dataclass(frozen=True, eq=False)
class Options:
    """Answer options, shared by many items. texts: as the model reads them."""

    texts: tuple[str, ...]

    @cached_property
    def cleaned(self) -> tuple[str, ...]:
        """Each once, as a ``Filler`` knows them."""
        return clean_labels(self.texts, noun="option")[0]

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Of each option, where it is among ``cleaned``."""
        where = {text: place for place, text in enumerate(self.cleaned)}
        return np.array([where[" ".join(text.split())] for text in self.texts])


@dataclass(frozen=True, kw_only=True, eq=False)
class BlankItem:
    """One question.

    Attributes:
        video: its file; it may be missing.
        spans: the segments looked at, from the seconds at which the video starts and ends. Items that follow one another with equal ones
            of the same video share what is read and encoded.
        num_hidden: the last so many segments are not seen or heard.
        place: the segment in whose place the statement stands, from the end if negative.
        statement: with one ``<mask>``.
        answer: number of the right option; None if none is right, or it is not known.
        kind: of question.
        refused: why nobody can be asked this, if so: it counts as wrong.
        facts: more of the item, for its row.
    """

    id: str
    video: Path
    spans: Callable[[float, float], Sequence[Span]]
    num_hidden: int = 0
    place: int = -1
    statement: str
    options: Options
    answer: int | None = None
    kind: str = ""
    refused: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class ZeroShotTask(ABC):
    """A task with its settings, the fields of the subclass. What a subclass says: its data set and its metrics."""

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[Sequence[Needed]]

    @abstractmethod
    def items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        """The questions, from the published files; ``notes`` is told what a user should know. ConfigError, naming file and row."""

    @abstractmethod
    def row(self, item: BlankItem, scores: Scores) -> dict[str, Any]:
        """What is known of an item and its answer; nothing about errors."""

    @abstractmethod
    def metrics(self, items: Sequence[BlankItem], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """In percent; a row with an ``error`` is an item that could not be answered, and counts as wrong."""

    def prior(self, folder: Path, items: Sequence[BlankItem]) -> Callable[[BlankItem], Scores] | None:
        """How often each option of an item was right in training, if its files are there."""
        return None

    def exported(self, item: BlankItem, scores: Scores) -> Any:
        """What ``exports`` needs of an item's scores."""
        return None

    def exports(self, items: Sequence[BlankItem], kept: Sequence[Any]) -> dict[str, bytes]:
        """The files that a leaderboard takes; of an item that could not be answered None is kept."""
        return {}

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ZeroShotTask:
        """With these settings. ConfigError for unknown ones or values of another type."""
        try:
            made = cls(**checked_fields(cls, settings))
            check_types(made)
        except ConfigError as error:
            raise ConfigError(f"task {cls.name}: {error}") from error
        return made

    @classmethod
    def check(cls, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        """See ``Task``."""
        if missing := look_for(folder, cls.needs):
            return DataReport(missing=missing)
        notes: list[str] = []
        items = cls.of(settings)._items(folder, notes)
        problems = {item.video: problem for item in items if (problem := _without_video(item, folder))}
        return DataReport(num_items=len(items), problems=tuple(sorted(problems.values())), notes=tuple(notes))

    @classmethod
    def evaluate(cls, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """See ``Task``."""
        task = cls.of(options.settings)
        require(folder, cls.needs)
        return task._evaluate(folder, model, options)

    def _evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        notes: list[str] = []
        items = self._items(folder, notes)[: options.limit]
        items = [replace(item, refused=item.refused or _without_video(item, folder)) for item in items]
        if all(item.refused for item in items):
            raise InputError(f"none of the {len(items)} items can be answered; the first: {items[0].refused}")
        score, use, weights = _scorer(model, options)
        answered = score([item for item in items if not item.refused])
        rows: list[dict[str, Any]] = []
        kept = []
        for item in items:
            scores, error = (None, item.refused) if item.refused else next(answered)
            judged = self.row(item, scores if scores is not None else np.full(len(item.options.texts), np.nan, np.float32))
            rows.append({"id": item.id, "kind": item.kind, "statement": item.statement, **judged, **item.facts, "error": error})
            kept.append(None if scores is None else self.exported(item, scores))
            options.on_progress(len(rows) / len(items))
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        return TaskResult(
            task=self.name,
            metrics=self.metrics(items, rows),
            rows=rows,
            baselines=self._baselines(folder, items),
            exports=self.exports(items, kept),
            notes=tuple(notes),
            settings={**weights, "use": use, "task_settings": shown, "items_sha256": _hash(items)},
        )

    def _items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        """The items; each has an id of its own, which rows and submissions go by."""
        items = self.items(folder, notes)
        if not items:
            raise ConfigError(f"{folder}: its files hold no question")
        if twice := [name for name, count in Counter(item.id for item in items).items() if count > 1]:
            raise ConfigError(
                f"{folder}: {twice[0]!r} is the id of two items" + (f", and so are {len(twice) - 1} more" if twice[1:] else "")
            )
        return items

    def _baselines(self, folder: Path, items: Sequence[BlankItem]) -> dict[str, dict[str, float]]:
        """Answers without a model: drawn at random (one draw, seed 0), and those most frequent in training."""
        draw = np.random.default_rng(0)
        guesses: dict[str, Callable[[BlankItem], Scores] | None] = {
            "random": lambda item: draw.random(len(item.options.texts), np.float32),
            "prior": self.prior(folder, items),
        }
        return {
            name: self.metrics(items, [{"error": "", **self.row(item, guess(item))} for item in items])
            for name, guess in guesses.items()
            if guess is not None
        }


def _without_video(item: BlankItem, folder: Path) -> str:
    """What is wrong if its video is not there, or has nothing in it."""
    if not item.video.is_file():
        return f"no video called {item.video.stem!r} is in {folder}"
    return "" if item.video.stat().st_size else f"the video {item.video} is empty"


def _hash(items: Sequence[BlankItem]) -> str:
    """Of what is asked: equal for equal questions, options and answers, in the same order."""
    known: dict[int, str] = {}
    digest = hashlib.sha256()
    for item in items:
        options = known.setdefault(id(item.options), hashlib.sha256("\n".join(item.options.texts).encode()).hexdigest())
        digest.update(f"{item.id}\n{item.statement}\n{options}\n{item.answer}\n".encode())
    return digest.hexdigest()


def guess_of(item: BlankItem, scores: Scores) -> str:
    """The option with the highest score; empty if there are no scores."""
    return "" if np.isnan(scores).any() else item.options.texts[int(scores.argmax())]


def place_of(answer: int | None, scores: Scores) -> int:
    """The right option's place, 1 for the best; of equal ones all others come first. 0 if none is right or there are no scores."""
    if answer is None or np.isnan(scores[answer]):
        return 0
    return int((scores >= scores[answer]).sum())


def places_within(rows: Sequence[Mapping[str, Any]], places: int) -> float:
    """Percent of the rows whose ``place`` is among the first so many."""
    return percent([1 <= row["place"] <= places for row in rows])


@dataclass(frozen=True)
class InSegments:
    """A stretch of a video, or where it has no start and end all of it, in so many equal segments."""

    count: int
    start: float | None = None
    end: float | None = None

    def __call__(self, start: float, end: float) -> list[Span]:
        low, high = start if self.start is None else self.start, end if self.end is None else self.end
        if low >= end > start:
            raise InputError(f"what is asked about begins at {low:g} s, but the video ends at {end:g} s")
        edges = np.linspace(low, max(high, low), self.count + 1).tolist()
        return [Span(*pair) for pair in pairwise(edges)]


def videos_below(folder: Path) -> dict[str, Path]:
    """The videos of a folder and those in it by their names without ending, lower case."""
    return {path.stem.lower(): path for path in find_media([folder]).paths if path.suffix.lower() in VIDEO_SUFFIXES}


def find_video(videos: Mapping[str, Path], folder: Path, name: str) -> Path:
    """The video called so, or where it should be."""
    return videos.get(name.lower(), folder / f"{name}.mp4")


Answered = tuple[Scores | None, str]
"""The scores of an item, or None and why there are none."""


def _scorer(model: str, options: EvaluationOptions) -> tuple[Callable[[Sequence[BlankItem]], Iterator[Answered]], str, dict[str, Any]]:
    """What scores items, what their answers rest on, and what is on record about the weights."""
    from ..reserve import Reserve
    from ..xclip import XClip

    if options.use not in ("auto", "sound", "frames"):
        raise InputError(f"zero-shot tasks are answered from sound or frames, not from {options.use}")
    device = find_device(options.device)
    if holds_reserve(model) or is_bundled(model):
        weights = Reserve.from_pretrained(model).to(device)
        use: Use = "sound" if options.use == "auto" else options.use
        score = partial(_reserve_scores, Filler(weights, precision=options.precision), use=use)
        return score, use, weights_record(weights)
    if options.use == "sound":
        raise InputError(f"{model!r} is an image-text model, which hears nothing: leave out use, or choose frames")
    clip = XClip.from_pretrained(model.removeprefix(XCLIP)).to(device)
    return partial(_xclip_scores, Tagger(clip, precision=options.precision)), "frames", weights_record(clip)


def _reserve_scores(filler: Filler, items: Sequence[BlankItem], *, use: Use) -> Iterator[Answered]:
    jobs: list[Job] = []
    asked: list[BlankItem] = []
    for _, together in groupby(items, key=_looked_at):
        own = list(together)
        jobs.append((Stretches(own[0].video, own[0].spans, num_hidden=own[0].num_hidden), [_question(item) for item in own]))
        asked += own
    for item, result in zip(asked, filler.run(jobs, use=use, subtitles=False, in_place=True), strict=True):
        yield (None, str(result.failure.error)) if result.failure else (result.over_time(0)[0][item.options.places], "")


def _looked_at(item: BlankItem) -> tuple[Any, ...]:
    return item.video, item.spans, item.num_hidden


def _question(item: BlankItem) -> Question:
    return Question(text=item.statement, options=item.options.cleaned, segment=item.place)


@dataclass(frozen=True)
class _Seen:
    """What is seen of an item's stretches as the one window of an image-text model."""

    item: BlankItem

    def spans(self, start: float, end: float) -> list[tuple[float, float]]:
        found = list(self.item.spans(start, end))
        seen = found[: len(found) - self.item.num_hidden]
        return [(seen[0].start, seen[-1].end)]


def _xclip_scores(tagger: Tagger, items: Sequence[BlankItem]) -> Iterator[Answered]:
    model = tagger.model
    for _, together in groupby(items, key=_looked_at):
        own = list(together)
        error, features = "", None
        for read in read_windows(own[0].video, model.config, windows=_Seen(own[0]), limits=tagger.limits, num_threads=None):
            if isinstance(read, EndOfFile):
                error = str(read.error) if read.error else ""
                continue
            with torch.no_grad(), tagger.autocast():
                features = model.encode_video(read.clip[None].to(tagger.device))
        for item in own:
            if error or features is None:
                yield None, error
                continue
            filled = [mask_query(item.statement).replace(MASK_TEXT, f" {text}").strip() for text in item.options.cleaned]
            try:
                with torch.no_grad(), tagger.autocast():
                    text = encode_labels(model, filled, truncate=True, keep=item.statement == LONE)
                    scores = score_labels(model, features, text)[0].cpu().numpy()
            except WatchwordError as failure:
                yield None, str(failure)
                continue
            yield scores[item.options.places], ""


def most_frequent(answers: Sequence[str]) -> list[tuple[str, int]]:
    """Answers and how often each is given, the most frequent first, equals in alphabetical order."""
    return sorted(Counter(answers).items(), key=lambda pair: (-pair[1], pair[0]))
