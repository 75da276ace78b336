"""One run over videos, as the reports show it: of tagging, or of filling in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ..results import Failure

if TYPE_CHECKING:  # each command loads its own model only
    from ..reserve.answers import FilledWindow, FillResult
    from ..xclip.tagging import ClipResult, Tag, Window

__all__ = ["FillingRun", "Run", "TaggingRun"]

MAX_LABELS = 8  # rows of one video in a picture or a page
PALETTE = ("#2f6db5", "#d9722b", "#2e8b57", "#b8374a", "#7a5bb0", "#8a6a3b", "#c14f9b", "#4b8e99", "#7d8a1f", "#5b6573")
"""Colours of labels: dark enough to be read on white, in an order that keeps neighbours apart."""


class _Result(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...


R = TypeVar("R", bound=_Result)


@dataclass(frozen=True, kw_only=True)
class Run(Generic[R]):
    """What was asked and what came out.

    Attributes:
        model: facts about the weights; ``trained`` is False for random ones.
        settings: labels, windows, precision, ... as plain values.
        results: in the order of the inputs.
        top: labels or options shown for each clip, window or blank.
        threshold: what score and match of a label, or the probability of an option, must reach, or None.
        windowed: a timeline was asked for.
    """

    model: dict[str, Any]
    settings: dict[str, Any]
    results: Sequence[R]
    top: int
    threshold: float | None = None
    windowed: bool = False

    @property
    def done(self) -> list[R]:
        return [result for result in self.results if result.failure is None]

    @property
    def failed(self) -> list[R]:
        return [result for result in self.results if result.failure is not None]


@dataclass(frozen=True, kw_only=True)
class TaggingRun(Run["ClipResult"]):
    """Which labels fit which videos."""

    def tags(self, result: ClipResult) -> list[Tag]:
        return result.tags(top=self.top, threshold=self.threshold)

    def windows(self, result: ClipResult) -> list[Window]:
        """The result's windows; the whole file is one, if no timeline was asked for."""
        if self.windowed:
            return result.windows(top=self.top, threshold=self.threshold)
        return [result.whole(top=self.top, threshold=self.threshold)]

    def shown_labels(self, result: ClipResult) -> list[int]:
        """Numbers of the labels worth a row in a picture: the best of any window, best first."""
        best = result.scores.max(axis=0)
        return [int(number) for number in (-best).argsort(kind="stable")[: min(MAX_LABELS, self.top)]]

    def colour(self, label: int) -> str:
        """The label's colour, the same in the whole run; neighbours in a picture have different ones."""
        return PALETTE[self._order_of_appearance.get(label, label) % len(PALETTE)]

    @cached_property
    def _order_of_appearance(self) -> dict[int, int]:
        shown = dict.fromkeys(label for result in self.done for label in self.shown_labels(result))
        return {label: place for place, label in enumerate(shown)}


@dataclass(frozen=True, kw_only=True)
class FillingRun(Run["FillResult"]):
    """Which options go into the blanks of statements about videos."""

    @property
    def num_questions(self) -> int:
        """How many different ones."""
        return len({result.question for result in self.results})

    @property
    def num_blanks(self) -> int:
        """Most blanks of a question."""
        return max((result.num_blanks for result in self.done), default=1)

    def windows(self, result: FillResult) -> list[FilledWindow]:
        """The result's windows; the whole file is one, if no timeline was asked for."""
        if self.windowed:
            return result.windows(top=self.top, threshold=self.threshold)
        return [result.whole(top=self.top, threshold=self.threshold)]

    def shown_options(self, result: FillResult, blank: int) -> list[int]:
        """Numbers of the options worth a row in a picture: the most probable over the whole video, best first."""
        mean, _ = result.over_time(blank)
        return [int(number) for number in (-mean).argsort(kind="stable")[: min(MAX_LABELS, self.top)]]
