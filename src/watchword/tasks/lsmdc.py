"""LSMDC fill-in-the-blank: the word left out of a movie's description (paper section 4.4; model spec section 9)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from .published import find_published
from .task import Needed
from .zero_shot import (
    BlankItem,
    InSegments,
    Options,
    Scores,
    ZeroShotTask,
    find_video,
    guess_of,
    place_of,
    places_within,
    videos_below,
)  # fmt: skip

__all__ = ["Lsmdc", "blanked"]

OWNERS = "https://sites.google.com/site/describingmovies"
TERMS = "for research; a form to sign, then user name and password"
FILES = {"train": "LSMDC*training*FIB*.csv", "val": "LSMDC*val*FIB*.csv", "test": "LSMDC*test*FIB*.csv"}
_BLANK = re.compile(r"_{2,}")
_FIRST_COLUMN = "video_id"
# of a file without names of its columns, which has eight, or four: what stands in the last ones
_LAST_COLUMNS = ("sentence", "question", "answer")


def blanked(question: str) -> str:
    """``SOMEONE _____ his head.`` with the blank as the model knows it. ConfigError if there is not exactly one."""
    text, count = _BLANK.subn("<mask>", " ".join(question.split()))
    if count != 1:
        raise ConfigError(f"{question!r} has {count} blanks, but must have one, written _____")
    return text


@dataclass
class Lsmdc(ZeroShotTask):
    """Settings:

    split: ``test``, ``val`` or ``train``, whose file is read.
    segments: how many a clip is cut into, up to eight; the sentence takes the last one's place.
    """

    name: ClassVar[str] = "lsmdc"
    title: ClassVar[str] = "LSMDC, movie fill-in-the-blank, zero-shot"
    needs: ClassVar[Sequence[Needed]] = (
        Needed("**/LSMDC*FIB*.csv", "sentences with a blank, such as LSMDC16_annos_test_FIB.csv; all that are there make the vocabulary",
               OWNERS, TERMS),
    )  # fmt: skip

    split: str = "test"
    segments: int = 8

    def items(self, folder: Path, notes: list[str]) -> list[BlankItem]:
        if self.split not in FILES or not 1 <= self.segments <= 8:
            raise ConfigError("lsmdc: split is train, val or test, and segments are 1 to 8")
        videos = videos_below(folder)
        path = find_published(folder, FILES[self.split])
        rows = list(_rows(path))
        answers = {
            row["answer"] for name in FILES.values() if any(folder.glob(f"**/{name}")) for row in _rows(find_published(folder, name))
        }
        words = sorted({word.strip().lower() for word in answers} - {""})
        if len(words) < 2:
            raise ConfigError(f"{folder}: its files name {len(words)} answers, but a vocabulary needs two")
        if not any(folder.glob(f"**/{FILES['train']}")):
            notes.append("without the training file the vocabulary is that of the other files: smaller, and easier")
        options, places = Options(tuple(words)), {word: place for place, word in enumerate(words)}
        items = []
        for number, row in enumerate(rows, start=1):
            try:
                statement = blanked(row["question"])
            except ConfigError as error:
                raise ConfigError(f"{path}, row {number}: {error}") from error
            items.append(
                BlankItem(
                    id=f"{row['video_id']}#{number}",
                    video=find_video(videos, folder, row["video_id"]),
                    spans=InSegments(self.segments),
                    statement=statement,
                    options=options,
                    answer=places.get(row["answer"].strip().lower()),
                )
            )
        return items

    def row(self, item: BlankItem, scores: Scores) -> dict[str, Any]:
        texts = item.options.texts
        right = "" if item.answer is None else texts[item.answer]
        return {"right": right, "guess": guess_of(item, scores), "place": place_of(item.answer, scores)}

    def metrics(self, items: Sequence[BlankItem], rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return {"top1": places_within(rows, 1), "top5": places_within(rows, 5)} if any(item.answer is not None for item in items) else {}

    def prior(self, folder: Path, items: Sequence[BlankItem]) -> Callable[[BlankItem], Scores] | None:
        """The words most often left out in training."""
        if not any(folder.glob(f"**/{FILES['train']}")):
            return None
        counts = Counter(row["answer"].strip().lower() for row in _rows(find_published(folder, FILES["train"])))
        scores = np.array([counts[word] for word in items[0].options.texts], np.float32)
        return lambda item: scores

    def exported(self, item: BlankItem, scores: Scores) -> str:
        return item.options.texts[int(scores.argmax())]

    def exports(self, items: Sequence[BlankItem], kept: Sequence[Any]) -> dict[str, bytes]:
        """A word a line, in the order of the file."""
        return {"lsmdc_answers.txt": "".join(f"{word or ''}\n" for word in kept).encode()}


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Video, question and answer of each row. The files are separated by tabs, and the first line may name the columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
            rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    except csv.Error as error:
        raise ConfigError(f"{path}: no table ({error})") from error
    named = bool(rows) and "question" in [cell.strip().lower() for cell in rows[0]]
    names = [cell.strip().lower() for cell in rows[0]] if named else []
    for number, row in enumerate(rows[named:], start=1 + named):
        if len(row) < (len(names) or len(_LAST_COLUMNS) + 1):
            raise ConfigError(
                f"{path}, line {number}: {len(row)} columns, but sentence, question and answer stand in the last three, split by tabs"
            )
        cells = dict(zip(names, row, strict=False)) if named else dict(zip(_LAST_COLUMNS, row[-3:], strict=True))
        yield {"video_id": row[0].strip(), "question": cells["question"], "answer": cells.get("answer", "")}
