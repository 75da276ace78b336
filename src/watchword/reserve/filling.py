"""Filling in: which of the user's options goes into each blank of a statement about a video.

The question stands on one segment of a window of at most eight, before the words or the sound of that segment (``in_place``: in place
of them, as in the released demo). The joint encoder's vector at each blank is compared with those of the options; see
``watchword.reserve.answers`` for the numbers. Words and sound never stand in one sequence: each gives a *view*, a sequence of its own,
and the probabilities of both are averaged, as the paper does for TVQA (section 4.2; data spec section 17.2). A window that has neither is
answered from its frames alone. A longer video is cut into windows, whose probabilities are averaged by length.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..devices import Precision, autocast, find_device, num_cores, usable_precision, with_precision
from ..errors import InputError
from ..media import DEFAULT_LIMITS, Limits, Subtitles
from ..read_ahead import read_ahead
from ..results import Failure, PathLike, finite
from ..text.reserve import ReserveTokenizer, default_tokenizer
from ..weights.evaluating import evaluating
from .answers import FillResult, Question, Use
from .inputs import TokenSequence
from .model import Reserve
from .options import Options, encode_options
from .questions import PreparedQuestion, prepare
from .reading import EndOfVideo, Places, VideoLike, VideoWindow, read_windows
from .segmentation import TAIL_SECONDS, Span
from .segments import Stretches, VideoSegments
from .timing import TimingRegressor
from .views import blank_vectors, encode_window, view_sequences, views_of

__all__ = ["Filler"]

Job = tuple[VideoLike, Sequence[Question]]
Floats = npt.NDArray[np.float32]
SCALE = 100.0  # of cosines before the softmax (spec section 15)


class NoSuchMomentError(InputError):
    """A question stands where the video does not reach."""

    reason = "no_such_moment"


class Filler:
    """Fills in blanks with a MERLOT Reserve model, on the device the model is on.

    Args:
        model: its training mode and weights are left as they are.
        precision: ``bfloat16`` and ``float16`` run under autocast, on a copy of the model with its weights as they are now; float16 on a
            CPU falls back to float32 with a warning. Cosines are float32 always.
        limits: files beyond them are refused.
        tokenizer: of weights that bring a vocabulary of their own.
        timing: corrects the times of words in automatic captions.
    """

    def __init__(
        self,
        model: Reserve,
        *,
        precision: Precision = "float32",
        limits: Limits = DEFAULT_LIMITS,
        tokenizer: ReserveTokenizer | None = None,
        timing: TimingRegressor | None = None,
    ) -> None:
        self.limits, self.timing = limits, timing
        self.tokenizer = tokenizer or default_tokenizer()
        self.precision: Precision = usable_precision(precision, model.token_encoder.weight.device)
        self.model = with_precision(model, self.precision)
        if model.config.vocab_size < len(self.tokenizer):
            raise InputError(f"the weights know {model.config.vocab_size} tokens, but the vocabulary has {len(self.tokenizer)}")

    @classmethod
    def from_pretrained(
        cls,
        source: PathLike,
        *,
        device: str = "auto",
        precision: Precision = "float32",
        limits: Limits = DEFAULT_LIMITS,
        timing: TimingRegressor | None = None,
        **options: Any,
    ) -> Filler:
        """A filler with weights from ``source``; ``device`` ``auto`` takes a GPU if there is one.

        ``options`` and errors are those of ``Reserve.from_pretrained``.
        """
        target = find_device(device)
        model = Reserve.from_pretrained(os.fspath(source), **options).to(target)
        return cls(model, precision=precision, limits=limits, timing=timing)

    @property
    def device(self) -> torch.device:
        return self.model.token_encoder.weight.device

    def fill(
        self,
        video: VideoLike,
        question: str,
        options: Sequence[str] | Sequence[Sequence[str]],
        *,
        at: float | None = None,
        segment: int | None = None,
        **settings: Any,
    ) -> FillResult:
        """One question about one video.

        Args:
            video: a path, or segments made by hand (``VideoSegments``, whose own settings then hold for subtitles and sound), or
                a path with the stretches of it to look at (``Stretches``).
            question: a statement with ``<mask>`` for each blank.
            options: for every blank, or a list for each. They are encoded once for the weights as they are.
            at, segment: where the question stands, see ``Question``.
            settings: those of ``run``.

        Raises:
            MediaError: the video cannot be read.
            LabelError: the options cannot be used, see ``read_options``.
            InputError: no blank in the question; a number out of range; weights that cannot answer.
        """
        return self.fill_all(video, [Question(text=question, options=options, at=at, segment=segment)], **settings)[0]

    def fill_all(self, video: VideoLike, questions: Sequence[Question], **settings: Any) -> list[FillResult]:
        """Several questions about one video, whose frames and sounds are encoded once. Settings and errors are those of ``fill``."""
        results = list(self.run([(video, questions)], **settings))
        for result in results:
            if result.failure:
                raise result.failure.error
        return results

    def run(
        self,
        jobs: Sequence[Job],
        *,
        use: Use = "auto",
        subtitles: Subtitles | PathLike | bool = True,
        language: str | None = None,
        no_vision: bool = False,
        in_place: bool = False,
        on_progress: Callable[[int, float], None] | None = None,
    ) -> Iterator[FillResult]:
        """Questions about videos: results in the order of the jobs and their questions, a video's as soon as all of it is read.

        A video that cannot be read gives results with a failure. Reading runs beside the model, and what is held does not grow with the
        number or the length of the videos.

        Args:
            jobs: each a video and the questions about it.
            use: what beside the frames the answers rest on: ``frames`` nothing, ``subtitles``, ``sound``, ``both``, or ``auto``: both, as
                far as the file has them. Only what is used is read and encoded; the result tells what that was.
            subtitles: a file, what ``read_subtitles`` gave, or True for those beside or inside the video.  language: of those.
            no_vision: the frames are neither read nor encoded; their tokens stand in the sequence as zeros, as in the ablation of the
                release (model spec section 4.7).
            in_place: the question takes the place of its segment's words or sound, as in the released demo, and does not stand before them.
            on_progress: is told the number of a job and the share of it that is done.

        Errors are those of ``fill`` but MediaError.
        """
        views = views_of(self.model, use)
        self.model.part("head", "give no vectors to compare with options")
        self.model.part("span_encoder", "cannot encode answer options")
        known: dict[tuple[str, ...], Options] = {}
        asked = [[prepare(question, self.tokenizer, known) for question in questions] for _, questions in jobs]
        for notice in dict.fromkeys(notice for options in known.values() for notice in options.notices):
            warnings.warn(notice, UserWarning, stacklevel=2)
        open_video = partial(
            _open,
            subtitles=subtitles if "subtitles" in views else False,
            language=language,
            timing=self.timing,
            sound="sound" in views,
            picture=not no_vision,
            limits=self.limits,
        )
        return self._results([video for video, _ in jobs], asked, open_video, views, not no_vision, in_place, on_progress)

    def _results(
        self,
        videos: Sequence[VideoLike],
        asked: list[list[PreparedQuestion]],
        open_video: Callable[[PathLike | Stretches], VideoSegments],
        views: tuple[str, ...],
        picture: bool,
        in_place: bool,
        on_progress: Callable[[int, float], None] | None,
    ) -> Iterator[FillResult]:
        jobs = [
            partial(
                read_windows,
                video,
                self.model.config,
                self.tokenizer,
                open_video,
                place=partial(_places, _path(video), [one.question for one in questions]),
                picture=picture,
            )
            for video, questions in zip(videos, asked, strict=True)
        ]
        num_readers = max(1, min(len(jobs), num_cores() // 2, 4))
        items = read_ahead(jobs, num_readers=num_readers, max_jobs=num_readers + 1, max_items=1)
        answering: list[_Answering] = []
        with closing(items):
            for number, item in items:
                answering = answering or [_Answering(one, self._vectors(one)) for one in asked[number]]
                if isinstance(item, VideoWindow):
                    self._answer(item, answering, views, in_place)
                    if on_progress:
                        on_progress(number, item.share)
                    continue
                path = _path(videos[number])
                for place, one in enumerate(answering):
                    yield one.result(path, item, item.places[place] if item.places else None)
                answering = []

    def _vectors(self, asked: PreparedQuestion) -> list[Tensor]:
        """For each blank the vectors of its options (options, width)."""
        with autocast(self.device, self.precision):
            vectors = {options.texts: encode_options(self.model, options.ids) for options in asked.options}
        return [vectors[options.texts] for options in asked.options]

    def _answer(self, window: VideoWindow, questions: list[_Answering], views: tuple[str, ...], in_place: bool) -> None:
        """Answer in this window the questions that stand on it, the frames and sounds encoded once for all of them."""
        sequences: list[TokenSequence] = []
        placed: list[tuple[_Answering, int, list[str]]] = []
        for one, place in zip(questions, window.places, strict=True):
            at = 0 if place is None else place - window.first if isinstance(place, int) else -1
            if not 0 <= at < len(window):
                continue
            found = view_sequences(window, views, {at: one.asked.ids}, self.tokenizer, in_place=in_place)
            sequences += found.values()
            placed.append((one, at, list(found)))
        hear = any("sound" in names for _, _, names in placed)
        with torch.no_grad(), evaluating(self.model), autocast(self.device, self.precision):
            vectors = iter(blank_vectors(self.model, encode_window(self.model, window, hear=hear), sequences))
        rest = iter(sequences)
        for one, at, names in placed:
            one.add(window, at, names, [next(vectors) for _ in names], sum(next(rest).num_cut for _ in names))


class _Answering:
    """A question whose windows are being answered."""

    def __init__(self, asked: PreparedQuestion, vectors: list[Tensor]) -> None:
        self.asked, self.vectors = asked, vectors
        self.spans: list[tuple[float, float]] = []
        self.places: list[tuple[float, float]] = []
        self.numbers: list[list[Floats]] = [[] for _ in vectors]  # for each blank, of each window (2, options): probabilities, cosines
        self.used: set[str] = set()
        self.num_cut = 0

    def add(self, window: VideoWindow, at: int, views: list[str], vectors: list[Tensor], num_cut: int) -> None:
        """A window's vectors, for each view (blanks, width). Probabilities and cosines are averaged over the views."""
        for blank, options in enumerate(self.vectors):
            cosines = torch.stack([of_view[blank] for of_view in vectors]) @ options.T
            numbers = torch.stack([(SCALE * cosines).softmax(dim=-1), cosines]).mean(dim=1).cpu().numpy()
            self.numbers[blank].append(finite(numbers))
        self.spans.append((window.spans[0].start, window.spans[-1].end))
        self.places.append((window.spans[at].start, window.spans[at].end))
        self.used |= {*views} - {"frames"} | ({"frames"} if window.frames is not None else set())
        self.num_cut += num_cut

    def result(self, path: str, end: EndOfVideo, place: int | InputError | None) -> FillResult:
        question = self.asked.question
        failure = Failure.of(end.error, end.stage) if end.error else Failure.of(place, "ask") if isinstance(place, InputError) else None
        if failure:
            return FillResult(path, question.text, question.asked, failure=failure)
        used = tuple(name for name in ("frames", "subtitles", "sound") if name in self.used)
        notes = end.notes
        if self.num_cut:
            notes += (f"{self.num_cut} tokens of words and sound, those farthest from the question, did not fit beside it",)
        stacked = [np.stack(windows, axis=1) for windows in self.numbers]
        return FillResult(
            path,
            question.text,
            question.asked,
            options=tuple(options.texts for options in self.asked.options),
            spans=np.array(self.spans),
            places=np.array(self.places),
            probabilities=tuple(numbers[0] for numbers in stacked),
            cosines=tuple(numbers[1] for numbers in stacked),
            used=used,
            words=end.words,
            warnings=notes,
        )


def _path(video: VideoLike) -> str:
    return os.fspath(video.path if isinstance(video, (VideoSegments, Stretches)) else video)


def _open(video: PathLike | Stretches, **settings: Any) -> VideoSegments:
    return video.open(**settings) if isinstance(video, Stretches) else VideoSegments(video, **settings)


def _places(path: str, questions: Sequence[Question], spans: Sequence[Span]) -> Places:
    """Where each question stands, see ``Places``."""
    return [_place(path, question, spans) for question in questions]


def _place(path: str, question: Question, spans: Sequence[Span]) -> int | InputError | None:
    start, end = spans[0].start, spans[-1].end
    where = f"{path!r}: the question stands"
    if question.segment is not None:
        if -len(spans) <= question.segment < len(spans):
            return question.segment % len(spans)
        return NoSuchMomentError(f"{where} on segment {question.segment}, but there are {len(spans)}, counted from 0")
    if question.at is None:
        return None
    inside = [number for number, span in enumerate(spans) if span.start <= question.at < span.end]
    if not inside and end <= question.at <= end + TAIL_SECONDS:  # the end itself, or a rest too short for a segment of its own
        return len(spans) - 1
    return inside[0] if inside else NoSuchMomentError(f"{where} at {question.at:g} s, but the video runs from {start:g} s to {end:g} s")
