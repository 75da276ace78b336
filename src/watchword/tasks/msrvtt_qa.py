"""MSR-VTT question answering, open-ended: questions made statements, the most frequent training answers as options (paper section 4.4;
model spec section 9; data spec section 16).

Every item counts, also one whose clip is longer than eight segments (defect D19) or whose answer is no option.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from ..reserve.segmentation import WINDOW_SEGMENTS, Span, centred_spans
from .published import read_json_list, text_field, whole_field
from .statements import BLANK, as_statement
from .task import Needed
from .zero_shot import (
    BlankItem,
    Options,
    Scores,
    ZeroShotTask,
    find_video,
    guess_of,
    most_frequent,
    place_of,
    places_within,
    videos_below,
)

__all__ = ["MsrvttQa", "in_threes"]

OWNERS = "https://github.com/xudejing/video-question-answering"
TERMS = "questions for research, no form; the clips are YouTube's"
SEGMENT_SECONDS = 3.0
TRAINING = "**/*train_qa*.json"
_BLANKS = re.compile(rf"_+|{BLANK}")


def in_threes(start: float, end: float) -> list[Span]:
    """Segments of three seconds in the middle of a clip; of more than eight, eight spread evenly; of a shorter clip all of it."""
    spans = [Span(span.start + start, span.end + start) for span in centred_spans(max(end - start, 0.0), SEGMENT_SECONDS)]
    if not spans:
        return [Span(start, end)]
    if len(spans) > WINDOW_SEGMENTS:
        spans = [spans[round(place)] for place in np.linspace(0, len(spans) - 1, WINDOW_SEGMENTS)]
    return spans


@dataclass
class MsrvttQa(ZeroShotTask):
    """Settings:

    split: ``test`` or ``val``, whose file is read.
    num_options: the most frequent training answers are the options, all as frequent as the one of this rank.
    rewrites: a JSON file of statements made elsewhere, by the questions' ids, each with one blank written ``_`` or ``<mask>``; an item
        without such a statement counts as wrong. Empty: made by rule, see ``statements``.
    """

    name: ClassVar[str] = "msrvtt_qa"
    title: ClassVar[str] = "MSR-VTT QA, open-ended questions, zero-shot"
    needs: ClassVar[Sequence[Needed]] = (Needed("**/*_qa*.json", "questions: train_qa.json, val_qa.json, test_qa.json", OWNERS, TERMS),)

    split: str = "test"
    num_options: int = 1000
    rewrites: str = ""

    def items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        if self.split not in ("train", "val", "test") or self.num_options < 2:
            raise ConfigError("msrvtt_qa: split is train, val or test, and num_options is at least 2")
        videos = videos_below(folder)
        path, rows = _questions(folder, self.split)
        answers = self._training(folder)
        if answers is None:
            notes.append(f"no train_qa.json: the options are the most frequent answers of {path.name} itself, which is easier")
            answers = [str(row.get("answer", "")) for row in rows]
        options = Options(tuple(self._most_frequent(answers)))
        places = {text: place for place, text in enumerate(options.texts)}
        rewrites = _rewrites(Path(self.rewrites)) if self.rewrites else None
        items = [self._item(folder, videos, f"{path}, question {n}", row, options, places, rewrites) for n, row in enumerate(rows, start=1)]
        outside = sum(item.answer is None for item in items)
        if outside:
            notes.append(f"{outside} of {len(items)} answers are none of the {len(options.texts)} options: they count as wrong")
        return sorted(items, key=lambda item: str(item.video))  # those of a clip together

    def _item(
        self, folder: Path, videos: Mapping[str, Path], where: str, row: Mapping[str, Any], options: Options, places: Mapping[str, int],
        rewrites: Mapping[str, str] | None,
    ) -> BlankItem:  # fmt: skip
        identity, question = str(whole_field(row, "id", where)), text_field(row, "question", where)
        statement, refused = as_statement(question), ""
        if rewrites is not None:
            statement = _BLANKS.sub("_", rewrites.get(identity, ""))
            refused = "" if statement.count("_") == 1 else "the rewritten question has not exactly one blank"
            refused = refused if identity in rewrites else "no rewritten question has this id"
            statement = statement.replace("_", BLANK)
        return BlankItem(
            id=identity,
            video=find_video(videos, folder, f"video{whole_field(row, 'video_id', where)}"),
            spans=in_threes,
            statement=statement,
            options=options,
            answer=places.get(str(row.get("answer", ""))),
            kind=question.split()[0].lower(),
            refused=refused,
            facts={"question": question, "right": row.get("answer", "")},
        )

    def _most_frequent(self, answers: Sequence[str]) -> list[str]:
        ranked = most_frequent([answer for answer in answers if answer.strip()])
        if len(ranked) < 2:
            raise ConfigError("msrvtt_qa: fewer than two answers to choose from")
        least = ranked[min(self.num_options, len(ranked)) - 1][1]
        return [answer for answer, count in ranked if count >= least]

    def _training(self, folder: Path) -> list[str] | None:
        if not any(folder.glob(TRAINING)):
            return None
        return [str(row.get("answer", "")) for row in _questions(folder, "train")[1]]

    def row(self, item: BlankItem, scores: Scores) -> dict[str, Any]:
        return {"guess": guess_of(item, scores), "place": place_of(item.answer, scores)}

    def metrics(self, items: Sequence[BlankItem], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {f"top{places}": places_within(rows, places) for places in (1, 5, 10)}

    def prior(self, folder: Path, items: Sequence[BlankItem]) -> Callable[[BlankItem], Scores] | None:
        """The most frequent training answers."""
        if not any(folder.glob(TRAINING)):
            return None
        scores = np.arange(len(items[0].options.texts), 0, -1).astype(np.float32)
        return lambda item: scores


def _questions(folder: Path, part: str) -> tuple[Path, list[Mapping[str, Any]]]:
    return read_json_list(folder, f"{part}_qa.json", f"*{part}_qa*.json")


def _rewrites(path: Path) -> dict[str, str]:
    """Statements by id: a JSON object, or a list of objects with ``id`` and ``statement``. ConfigError for something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"rewrites: {str(path)!r} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"rewrites: {path} is not JSON ({error})") from error
    try:
        pairs = found.items() if isinstance(found, dict) else [(row["id"], row["statement"]) for row in found]
        return {str(identity): str(statement) for identity, statement in pairs}
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path}: needs statements by id, or a list of objects with id and statement") from error
