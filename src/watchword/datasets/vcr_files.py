"""Visual Commonsense Reasoning as its owners publish it: a line of JSON for each question, and pictures with the boxes of their objects.

The form is that of version 1.0 of the data set, which its own README describes; source also merlot-reserve-data spec section 17.1.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ConfigError, InputError
from ..media import DEFAULT_LIMITS

__all__ = ["NUM_CHOICES", "PICTURES", "SPLITS", "TERMS", "WHERE", "Split", "Tokens", "VcrItem", "VcrItems", "VcrObjects"]

WHERE = "https://visualcommonsense.com/download/"
TERMS = "for non-commercial research, after agreeing to the terms there"
PICTURES = "vcr1images"
NUM_CHOICES = 4

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
Tokens = list[str | list[int]]
"""A sentence in words; a list of whole numbers points to objects of the picture, counted from 0."""

M = TypeVar("M", bound=BaseModel)
_Choices = Annotated[list[Tokens], Field(min_length=NUM_CHOICES, max_length=NUM_CHOICES)]
_Label = Annotated[int, Field(ge=0, lt=NUM_CHOICES)]


class _Published(BaseModel):
    """Fields beyond these are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class VcrItem(_Published):
    """A question about a picture, four answers, and four rationales for the right answer. The test split has no labels.

    ``img_fn`` and ``metadata_fn`` are below ``vcr1images``.
    """

    annot_id: str = Field(min_length=1)
    img_fn: str = Field(min_length=1)
    metadata_fn: str = Field(min_length=1)
    objects: list[str]
    question: Tokens
    answer_choices: _Choices
    rationale_choices: _Choices
    answer_label: _Label | None = None
    rationale_label: _Label | None = None

    @model_validator(mode="after")
    def _both_labels(self) -> Self:
        if (self.answer_label is None) != (self.rationale_label is None):
            raise ValueError("answer_label and rationale_label go together")
        return self

    @model_validator(mode="after")
    def _tags_point_to_objects(self) -> Self:
        texts = (self.question, *self.answer_choices, *self.rationale_choices)
        tagged = {number for text in texts for token in text if isinstance(token, list) for number in token}
        if wrong := sorted(tagged - set(range(len(self.objects)))):
            raise ValueError(f"a text points to object {wrong[0]}, but there are {len(self.objects)}, counted from 0")
        return self


class _Labels(_Published):
    answer_label: _Label
    rationale_label: _Label


class VcrObjects(_Published):
    """What the file beside a picture tells: its size in pixels, and of each object its class and box ``[x1, y1, x2, y2, score]``."""

    boxes: list[Annotated[list[float], Field(min_length=4)]]
    width: float = Field(gt=0)
    height: float = Field(gt=0)
    names: list[str] | None = None


class VcrItems(Sequence[VcrItem]):
    """The questions of a split, or some of them. Each is read when it is asked for: all at once would take gigabytes. The files may lie at
    any depth below the folder.

    Raises ConfigError if the split's file is missing or cannot be read; asking for an item of another form does so too, naming its line.
    """

    def __init__(self, folder: str | Path, split: Split, *, limit: int | None = None) -> None:
        self.split, self.path, self.pictures = split, _find(Path(folder), f"{split}.jsonl"), _find(Path(folder), PICTURES)
        self._lines = _find_lines(self.path)[:limit]
        if not len(self._lines):
            raise ConfigError(f"{self.path}: there is no question in it")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> VcrItem:  # type: ignore[override]
        start, size, _ = self._lines[index].tolist()
        with self.path.open("rb") as file:
            file.seek(start)
            return self._parsed(VcrItem, file.read(size), index)

    def _parsed(self, kind: type[M], line: bytes, index: int) -> M:
        try:
            return kind.model_validate_json(line)
        except ValidationError as error:
            raise ConfigError(f"{self.where(index)}: {_first(error)}; give the file as it is in vcr1annots.zip of {WHERE}") from error

    def where(self, index: int) -> str:
        """The file and the line, counted from 1, of an item."""
        return f"{self.path}: line {self._lines[index][2]}"

    def only(self, places: Sequence[int]) -> VcrItems:
        """Some of the items."""
        some = object.__new__(VcrItems)
        some.split, some.path, some.pictures, some._lines = self.split, self.path, self.pictures, self._lines[list(places)]
        return some

    def labels(self, item: VcrItem, index: int) -> tuple[int, int]:
        """The numbers of the right answer and the right rationale. ConfigError for an item without."""
        if item.answer_label is None or item.rationale_label is None:
            raise ConfigError(f"{self.where(index)}: it has no labels, as only items of the test split have none")
        return item.answer_label, item.rationale_label

    def frequent_labels(self) -> tuple[int, int]:
        """The most frequent label of the answers, and of the rationales; of those equally frequent the first to come."""
        labels: list[tuple[int, int]] = []
        with self.path.open("rb") as file:
            for index, (start, size, _) in enumerate(self._lines.tolist()):
                file.seek(start)
                found = self._parsed(_Labels, file.read(size), index)
                labels.append((found.answer_label, found.rationale_label))
        answer, rationale = (Counter(column).most_common(1)[0][0] for column in zip(*labels, strict=True))
        return answer, rationale

    def sha256(self) -> str:
        """Of the bytes of the split's file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def missing_files(self) -> dict[int, Path]:
        """By item, the file of its picture, or of the picture's objects, that is not there."""
        found: dict[int, Path] = {}
        known: dict[Path, bool] = {}
        for index, item in enumerate(self):
            for path in self._files(item):
                if path not in known:
                    known[path] = path.is_file()
                if not known[path]:
                    found.setdefault(index, path)
        return found

    def read_objects(self, item: VcrItem) -> VcrObjects:
        """The objects of an item's picture, with names. InputError, naming the file, if it cannot be read or is of another form."""
        path = self._files(item)[1]
        try:
            found = VcrObjects.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        except ValidationError as error:
            raise InputError(f"{path}: {_first(error)}") from error
        names = item.objects if found.names is None else found.names
        if len(names) != len(found.boxes):
            raise InputError(f"{path}: it has {len(found.boxes)} boxes for {len(names)} objects")
        return found.model_copy(update={"names": names})

    def read_picture(self, item: VcrItem) -> Image.Image:
        """An item's picture, decoded, in RGB. InputError, naming the file, if it cannot be."""
        path = self._files(item)[0]
        try:
            with Image.open(path) as picture:
                if picture.width * picture.height > DEFAULT_LIMITS.max_pixels:
                    raise InputError(f"{path}: a picture of {picture.width}x{picture.height} pixels is too large")
                return picture.convert("RGB")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or 'not a picture that can be read'}") from error

    def _files(self, item: VcrItem) -> tuple[Path, Path]:
        return self.pictures / item.img_fn, self.pictures / item.metadata_fn


def _find(folder: Path, name: str) -> Path:
    """What is called so in the folder, or below it; if there is nothing, where it should be."""
    direct = folder / name
    return direct if direct.exists() else next(folder.glob(f"**/{name}"), direct)


def _find_lines(path: Path) -> npt.NDArray[np.int64]:
    """(items, 3): where each line that is not blank starts, its size in bytes, and its number."""
    found, start = [], 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    found.append((start, len(line), number))
                start += len(line)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is missing: unpack vcr1annots.zip from {WHERE} ({TERMS}) here") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return np.array(found, np.int64).reshape(-1, 3)


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
