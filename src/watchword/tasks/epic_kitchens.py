"""EPIC-KITCHENS-100 action anticipation: what is done a second from now (paper section 4.4; model spec section 9; data spec section 16).

The options are all pairs of verb and noun. Verbs and nouns are ranked each by its best action. Of the release's defects (D18) none is kept:
nouns of several words count as a whole, no item is left out, and what lies behind the observed time is neither shown nor heard.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, InputError
from ..reserve.segmentation import Span, spans_before
from .published import find_published, read_table, whole_field
from .task import Needed, percent
from .zero_shot import BlankItem, Options, Scores, ZeroShotTask, find_video, videos_below

__all__ = ["Actions", "EpicKitchens", "ObservedBefore", "in_words", "mean_recall", "seconds_of"]

GAP_SECONDS = 1.0
NUM_BEST = 5
NUM_SUBMITTED = 100  # actions of an item in a submission
LAYOUTS = {"8x2": (8, 2.0, 0), "6x5": (6, 5.0, 2)}
PROMPTS = {"mask": "<mask>", "sentence": "My next action is <mask>"}
OWNERS = "https://github.com/epic-kitchens/epic-kitchens-100-annotations"
TERMS = "CC BY-NC 4.0, no form"
_TIMESTAMP = re.compile(r"(\d+):(\d+):(\d+(?:\.\d*)?)")
VALIDATION = ("EPIC_100_validation.csv", "[eE][pP][iI][cC]*100_validation*.csv")


def in_words(action: str) -> str:
    """A verb and a noun as one says them: ``take wrap:plastic`` is "take plastic wrap"."""
    verb, _, noun = action.partition(" ")
    return f"{verb} {' '.join(reversed(noun.split(':')))}"


def seconds_of(timestamp: str) -> float:
    """``01:02:03.45`` in seconds. ValueError for something else."""
    found = _TIMESTAMP.fullmatch(timestamp.strip())
    if found is None:
        raise ValueError(f"{timestamp!r} is no time")
    hours, minutes, seconds = found.groups()
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


@dataclass(frozen=True)
class ObservedBefore:
    """What is observed before an action: so many stretches that end at a moment, in seconds since the video's start, and behind them the
    gap and the action, which are not seen.
    """

    until: float
    count: int
    seconds: float
    action: tuple[float, float] | None = None

    def __call__(self, start: float, end: float) -> list[Span]:
        spans = spans_before(self.until, self.count, self.seconds)
        if self.action is not None:
            spans += [Span(max(self.until, 0.0), self.action[0]), Span(*self.action)]
        if spans[0].start >= end - start > 0:
            raise InputError(f"what is observed begins at {spans[0].start:g} s, but the video lasts {end - start:g} s")
        return [Span(span.start + start, span.end + start) for span in spans]


@dataclass(frozen=True, eq=False)
class Actions:
    """The vocabulary: options in words, and of each the classes of its verb and noun."""

    options: Options
    verbs: npt.NDArray[np.int64]
    nouns: npt.NDArray[np.int64]

    @classmethod
    def read(cls, folder: Path) -> Actions:
        path, rows = read_table(folder, "*actions*.csv", needed=("verb", "noun", "action"))
        where = [f"{path}, line {number}" for number in range(2, len(rows) + 2)]
        verbs, nouns = (
            np.array([whole_field(*pair) for pair in zip(rows, [key] * len(rows), where, strict=True)]) for key in ("verb", "noun")
        )
        pairs = Counter(zip(verbs.tolist(), nouns.tolist(), strict=True))
        if len(rows) < 2 or max(pairs.values()) > 1:
            raise ConfigError(f"{path}: needs two actions or more, and each pair of verb and noun once")
        return cls(Options(tuple(in_words(row["action"]) for row in rows)), verbs, nouns)

    @cached_property
    def numbers(self) -> dict[tuple[int, int], int]:
        """The number of the action of a verb and a noun."""
        return {pair: number for number, pair in enumerate(zip(self.verbs.tolist(), self.nouns.tolist(), strict=True))}

    def best(self, scores: Scores) -> dict[str, list[int]]:
        """The five best verbs, nouns, and numbers of actions, a verb or noun ranked by its best action."""
        order = np.argsort(-scores, kind="stable")
        first = {
            kind: list(dict.fromkeys(classes[order].tolist()))[:NUM_BEST] for kind, classes in (("verb", self.verbs), ("noun", self.nouns))
        }
        return {**first, "action": order[:NUM_BEST].tolist()}

    def of_classes(self, scores: Scores) -> dict[str, dict[str, float]]:
        """Scores as a submission has them: of every verb and noun its best action's, and of the 100 best actions."""
        found: dict[str, dict[str, float]] = {}
        for kind, classes in (("verb", self.verbs), ("noun", self.nouns)):
            best = np.full(int(classes.max()) + 1, -1.0, np.float32)
            np.maximum.at(best, classes, scores)
            found[kind] = {str(number): float(score) for number, score in enumerate(best) if score >= 0}
        order = np.argsort(-scores, kind="stable")[:NUM_SUBMITTED]
        found["action"] = {f"{self.verbs[i]},{self.nouns[i]}": float(scores[i]) for i in order}
        return found


def mean_recall(hits: Sequence[tuple[Any, bool]]) -> float:
    """Of (class, whether it was among the first five): the mean over the classes of the percentage of hits; nan of nothing."""
    by_class: dict[Any, list[bool]] = defaultdict(list)
    for name, hit in hits:
        by_class[name].append(hit)
    return float(np.mean([percent(of_class) for of_class in by_class.values()])) if by_class else float("nan")


@dataclass
class EpicKitchens(ZeroShotTask):
    """Settings:

    split: ``validation``, or ``test``, whose answers are not public.
    layout: ``8x2``, eight observed segments of 2 s, the statement in the last one's place; ``6x5``, six of 5 s, and then the gap and the
        action itself, black and silent, the statement in the action's place.
    prompt: ``mask``, the paper's lone blank, or ``sentence``, that of the released script.
    """

    name: ClassVar[str] = "epic_kitchens"
    title: ClassVar[str] = "EPIC-KITCHENS-100, action anticipation, zero-shot"
    needs: ClassVar[Sequence[Needed]] = (
        Needed("**/*actions*.csv", "the pairs of verb and noun: id, verb, noun, action", OWNERS, TERMS),
        Needed(f"**/{VALIDATION[1]}", "annotated actions, EPIC_100_validation.csv", OWNERS, TERMS),
        Needed("**/EPIC_100_test_timestamps.csv", "the test set's actions", OWNERS, TERMS, optional=True),
        Needed("**/EPIC_100_unseen_participant_ids_*.csv", "whom the unseen split is of", OWNERS, TERMS, optional=True),
        Needed("**/EPIC_100_tail_verbs.csv", "the tail's verbs (and EPIC_100_tail_nouns.csv)", OWNERS, TERMS, optional=True),
        Needed("**/EPIC_100_train.csv", "training actions, for the prior", OWNERS, TERMS, optional=True),
    )

    split: str = "validation"
    layout: str = "8x2"
    prompt: str = "mask"

    def items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        for name, known in (("split", ("validation", "test")), ("layout", LAYOUTS), ("prompt", PROMPTS)):
            if getattr(self, name) not in known:
                raise ConfigError(f"epic_kitchens: {name} is {getattr(self, name)!r}; choose one of {', '.join(known)}")
        self._actions, videos = Actions.read(folder), videos_below(folder)
        labelled = self.split == "validation"
        names = VALIDATION if labelled else ("EPIC_100_test_timestamps.csv",)
        columns = ("narration_id", "participant_id", "video_id", "start_timestamp", "stop_timestamp")
        path, rows = read_table(folder, *names, needed=(*columns, *(("verb_class", "noun_class") if labelled else ())))
        self._read_splits(folder)
        items = [self._item(folder, videos, f"{path}, line {number}", row) for number, row in enumerate(rows, start=2)]
        unknown = sum(item.answer is None for item in items)
        if sudden := sum(seconds_of(row["start_timestamp"]) <= GAP_SECONDS for row in rows):
            notes.append(f"{sudden} actions begin in a video's first second, so nothing is before them: what is seen is the first frame")
        if labelled and unknown:
            notes.append(f"{unknown} of {len(items)} actions are no pair of the vocabulary: they count as wrong")
        return items

    def _item(self, folder: Path, videos: Mapping[str, Path], where: str, row: Mapping[str, str]) -> BlankItem:
        try:
            start, stop = seconds_of(row["start_timestamp"]), seconds_of(row["stop_timestamp"])
        except ValueError as error:
            raise ConfigError(f"{where}: times must be written as 00:01:02.34") from error
        count, seconds, num_hidden = LAYOUTS[self.layout]
        facts: dict[str, Any] = {"participant": row["participant_id"], "verb": "", "noun": ""}
        answer = None
        if self.split == "validation":
            facts |= {"verb": whole_field(row, "verb_class", where), "noun": whole_field(row, "noun_class", where)}
            answer = self._actions.numbers.get((facts["verb"], facts["noun"]))
        return BlankItem(
            id=row["narration_id"],
            video=find_video(videos, folder, row["video_id"]),
            spans=ObservedBefore(start - GAP_SECONDS, count, seconds, (start, max(start, stop)) if num_hidden else None),
            num_hidden=num_hidden,
            statement=PROMPTS[self.prompt],
            options=self._actions.options,
            answer=answer,
            facts=facts,
        )

    def _read_splits(self, folder: Path) -> None:
        self._unseen = self._classes(folder, f"EPIC_100_unseen_participant_ids_{self.split}.csv", "participant_id")
        self._groups = {
            group: {kind: self._numbers(folder, f"EPIC*{group}_{kind}s.csv", kind, f"{kind}_class") for kind in ("verb", "noun")}
            for group in ("tail", "many_shot")
        }

    def _numbers(self, folder: Path, name: str, *columns: str) -> set[int]:
        try:
            return {int(number) for number in self._classes(folder, name, *columns)}
        except ValueError as error:
            raise ConfigError(f"{find_published(folder, name)}: classes must be whole numbers ({error})") from error

    @staticmethod
    def _classes(folder: Path, name: str, *columns: str) -> set[str]:
        if not any(folder.glob(f"**/{name}")):
            return set()
        path, rows = read_table(folder, name, needed=())
        column = next((column for column in columns if rows and column in rows[0]), None)
        if rows and column is None:
            raise ConfigError(f"{path}: has no column {columns[0]!r}")
        return {row[column] for row in rows} if column else set()

    def row(self, item: BlankItem, scores: Scores) -> dict[str, Any]:
        if np.isnan(scores).any():
            return dict.fromkeys(("right", "guesses", "verb_right", "noun_right", "action_right"), "")
        best, texts = self._actions.best(scores), item.options.texts
        known = item.facts["verb"] != ""
        return {
            "right": "" if item.answer is None else texts[item.answer],
            "guesses": ", ".join(texts[number] for number in best["action"]),
            "verb_right": known and item.facts["verb"] in best["verb"],
            "noun_right": known and item.facts["noun"] in best["noun"],
            "action_right": item.answer is not None and item.answer in best["action"],
        }

    def metrics(self, items: Sequence[BlankItem], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The mean over classes of the recall within five, of all, of participants that training does not have, and of rare classes; and
        the plain share within five, as the released script prints it.
        """
        known = [(item, row) for item, row in zip(items, rows, strict=True) if item.facts["verb"] != ""]
        if not known:
            return {}
        found: dict[str, float] = {}
        groups: dict[str, Callable[[BlankItem, str], bool]] = {"": lambda item, kind: True}
        if self._unseen:
            groups["unseen_"] = lambda item, kind: item.facts["participant"] in self._unseen
        for group, classes in self._groups.items():
            if classes["verb"] and classes["noun"]:
                groups[f"{group}_"] = lambda item, kind, classes=classes, group=group: self._is_in(group, item, kind, classes)  # type: ignore[misc]
        for prefix, belongs in groups.items():
            for kind in ("verb", "noun", "action"):
                hits = [(self._class(item, kind), bool(row[f"{kind}_right"])) for item, row in known if belongs(item, kind)]
                found[f"{prefix}{kind}_recall5"] = mean_recall(hits)
        for kind in ("verb", "noun", "action"):
            found[f"{kind}_top5"] = percent([bool(row[f"{kind}_right"]) for _, row in known])
        return found

    @staticmethod
    def _class(item: BlankItem, kind: str) -> Any:
        return (item.facts["verb"], item.facts["noun"]) if kind == "action" else item.facts[kind]

    @staticmethod
    def _is_in(group: str, item: BlankItem, kind: str, classes: Mapping[str, set[int]]) -> bool:
        """An action is of the tail if its verb or its noun is, and many-shot only if both are."""
        if kind != "action":
            return item.facts[kind] in classes[kind]
        either = [item.facts[part] in classes[part] for part in ("verb", "noun")]
        return any(either) if group == "tail" else all(either)

    def prior(self, folder: Path, items: Sequence[BlankItem]) -> Callable[[BlankItem], Scores] | None:
        """The actions that are most frequent in training."""
        if not any(folder.glob("**/EPIC_100_train.csv")):
            return None
        path, rows = read_table(folder, "EPIC_100_train.csv", needed=("verb_class", "noun_class"))
        counts = Counter((whole_field(row, "verb_class", str(path)), whole_field(row, "noun_class", str(path))) for row in rows)
        scores = np.array([counts[pair] for pair in self._actions.numbers], np.float32)
        return lambda item: scores

    def exported(self, item: BlankItem, scores: Scores) -> dict[str, dict[str, float]] | None:
        return self._actions.of_classes(scores) if self.split == "test" else None

    def exports(self, items: Sequence[BlankItem], kept: Sequence[Any]) -> dict[str, bytes]:
        """The test set's submission; the levels of supervision in it are those of a model that never saw a kitchen's labels."""
        if self.split != "test":
            return {}
        nothing = self._actions.of_classes(np.zeros(len(self._actions.verbs), np.float32))
        results = {item.id: nothing if scores is None else scores for item, scores in zip(items, kept, strict=True)}
        levels = {"sls_pt": 2, "sls_tl": 0, "sls_td": 0}
        return {"test.json": json.dumps({"version": "0.2", "challenge": "action_anticipation", **levels, "results": results}).encode()}
