"""STAR: four questions in situations, their statements made by rule (paper section 4.4 and appendix D.2; model spec section 9).

The questions are made from templates, so that a rule for each template makes each question a statement; the four choices are the options.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from .published import read_json_list, text_field
from .task import Needed, percent
from .zero_shot import BlankItem, InSegments, Options, Scores, ZeroShotTask, find_video, guess_of, place_of, videos_below

__all__ = ["KINDS", "Star", "statement"]

KINDS = ("Interaction", "Sequence", "Prediction", "Feasibility")

_RULES: tuple[tuple[str, str], ...] = (
    # interaction
    (r"which object was (.+) by the person", r"the person \1 <mask>."),
    (r"what did the person do with the (.+)", r"the person <mask> the \1."),
    (r"what did the person do while they were (.+)", r"while the person was \1, they <mask>."),
    # sequence
    (r"which object did the person (.+) (after|before) they (.+)", r"\2 the person \3, they \1 <mask>."),
    (r"what happened (after|before) the person (.+)", r"\1 the person \2, they <mask>."),
    (r"what did the person do to the (.+) (after|before) (.+)", r"\2 \3, the person <mask> the \1."),
    # prediction
    (r"what will the person do next with the (.+)", r"next, the person will <mask> the \1."),
    (r"what will the person do next", r"next, the person will <mask>."),
    (r"which object would the person (.+) next after they (.+)", r"after they \2, the person will \1 <mask> next."),
    (r"which object would the person (.+) next", r"next, the person will \1 <mask>."),
    # feasibility
    (r"which other object is possible to be (.+) by the person", r"<mask> can be \1 by the person, too."),
    (r"what else is the person able to do with the (.+)", r"with the \1, the person is also able to <mask>."),
    (r"which object is possible to be (.+) when the person is (.+)", r"when the person is \2, <mask> can be \1."),
    (r"what is the person able to do when they are (.+)", r"when the person is \1, they are able to <mask>."),
    (r"which object is the person able to (.+) after (.+)", r"after \2, the person is able to \1 <mask>."),
    (r"what is the person able to do after (.+)", r"after \1, the person is able to <mask>."),
)
_COMPILED = [(re.compile(pattern), made) for pattern, made in _RULES]


def statement(question: str) -> str:
    """A question of STAR with its answer blanked out; of another form, the question and the blank behind it."""
    asked = " ".join(question.lower().split()).rstrip(" ?.")
    for pattern, made in _COMPILED:
        if found := pattern.fullmatch(asked):
            return found.expand(made)
    return f"{asked}? <mask>."


def _option(choice: str) -> str:
    """A choice as it stands within a sentence: "The closet/cabinet." is "the closet/cabinet"."""
    text = choice.strip().rstrip(".").strip()
    return text[:1].lower() + text[1:]


@dataclass
class Star(ZeroShotTask):
    """Settings:

    split: ``val``, ``train`` or ``test``, whose file is read.
    segments: how many the situation is cut into, up to eight.
    text_first: the statement stands in the first segment's place instead of the last one's; the paper does not tell.
    """

    name: ClassVar[str] = "star"
    title: ClassVar[str] = "STAR, situated reasoning: four choices, zero-shot"
    needs: ClassVar[Sequence[Needed]] = (
        Needed(
            "**/STAR_*.json",
            "questions",
            "https://bobbywu.com/STAR",
            "STAR is under Apache 2.0; its videos are Charades', for research only",
        ),
    )

    split: str = "val"
    segments: int = 8
    text_first: bool = False

    def items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        if self.split not in ("train", "val", "test") or not 1 <= self.segments <= 8:
            raise ConfigError("star: split is train, val or test, and segments are 1 to 8")
        videos = videos_below(folder)
        path, rows = read_json_list(folder, f"STAR_{self.split}.json")
        items = [self._item(folder, videos, f"{path}, question {number}", row) for number, row in enumerate(rows, start=1)]
        without = [number for number, item in enumerate(items, start=1) if item.answer is None]
        if 0 < len(without) < len(items):
            raise ConfigError(f"{path}, question {without[0]}: has no answer, but others have")
        if without:
            notes.append("the file has no answers: there are no percentages, only the leaderboard's file")
        return items

    def _item(self, folder: Path, videos: Mapping[str, Path], where: str, row: Mapping[str, Any]) -> BlankItem:
        identity, question, video = (text_field(row, key, where) for key in ("question_id", "question", "video_id"))
        try:
            start, end = float(row["start"]), float(row["end"])
            numbered = {int(choice["choice_id"]): text_field(choice, "choice", where) for choice in row["choices"]}
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{where}: needs start and end in seconds, and choices with choice_id and choice") from error
        if not 0 <= start < end < float("inf"):
            raise ConfigError(f"{where}: from {start} s to {end} s, but a situation starts at 0 s or later and ends after that")
        choices = [numbered[number] for number in sorted(numbered)]
        options = Options(tuple(_option(choice) for choice in choices))
        if len(numbered) < len(row["choices"]) or len(set(options.texts)) < 2 or not all(options.texts):
            raise ConfigError(f"{where}: needs two choices or more, each with a number and words of its own")
        answer = row.get("answer")
        if answer is not None and answer not in choices:
            raise ConfigError(f"{where}: the answer {answer!r} is none of its choices")
        return BlankItem(
            id=identity,
            video=find_video(videos, folder, video),
            spans=InSegments(self.segments, start, end),
            place=0 if self.text_first else -1,
            statement=statement(question),
            options=options,
            answer=None if answer is None else choices.index(answer),
            kind=identity.split("_")[0],
            facts={"question": question},
        )

    def row(self, item: BlankItem, scores: Scores) -> dict[str, Any]:
        texts = item.options.texts
        right = "" if item.answer is None else texts[item.answer]
        return {"right": right, "guess": guess_of(item, scores), "place": place_of(item.answer, scores)}

    def metrics(self, items: Sequence[BlankItem], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The mean of the kinds of question, each of them, and all questions alike; nothing where the answers are not public."""
        kinds = sorted(
            {item.kind for item in items if item.answer is not None}, key=lambda kind: (KINDS.index(kind) if kind in KINDS else 9, kind)
        )
        known = [(item.kind, row["place"] == 1) for item, row in zip(items, rows, strict=True) if item.answer is not None]
        by_kind = {kind.lower(): percent([right for of, right in known if of == kind]) for kind in kinds}
        if not by_kind:
            return {}
        return {"mean": float(np.mean(list(by_kind.values()))), **by_kind, "overall": percent([right for _, right in known])}

    def prior(self, folder: Path, items: Sequence[BlankItem]) -> Callable[[BlankItem], Scores] | None:
        """The choice that is most often right in training."""
        if not any(folder.glob("**/STAR_train.json")):
            return None
        counts = Counter(_option(str(row.get("answer"))) for row in read_json_list(folder, "STAR_train.json")[1])
        return lambda item: np.array([counts[text] for text in item.options.texts], np.float32)

    def exported(self, item: BlankItem, scores: Scores) -> int:
        return int(scores.argmax())

    def exports(self, items: Sequence[BlankItem], kept: Sequence[Any]) -> dict[str, bytes]:
        """By kind of question, the numbers of the chosen choices, as the leaderboard takes them."""
        kinds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for item, choice in zip(items, kept, strict=True):
            kinds.setdefault(item.kind, []).append({"question_id": item.id, "answer": 0 if choice is None else choice})
        return {"star_submission.json": json.dumps(kinds).encode()}
