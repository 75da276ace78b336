"""Which part of a data set a protocol uses: K-shot draws, the unseen classes of Kinetics-600, and a record of what was used."""

from __future__ import annotations

import csv
import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .annotations import class_finder
from .label_lists import named_labels, same_name

__all__ = ["Protocol", "RENAMED_IN_KINETICS600", "draw_shots", "of_classes", "unseen_classes", "unseen_draw"]

Video = tuple[Path, str]

RENAMED_IN_KINETICS600 = {
    "changing wheel (not on bike)": "changing wheel",
    "cooking sausages (not on barbeque)": "cooking sausages",
    "dyeing hair": "dying hair",
    "hugging (not baby)": "hugging",
    "inflating balloons": "balloon blowing",
    "making the bed": "making bed",
    "opening bottle (not wine)": "opening bottle",
    "passing american football (not in game)": "passing American football (not in game)",
    "person collecting garbage": "garbage collecting",
    "throwing ball (not baseball or American football)": "throwing ball",
    "tying necktie": "tying tie",
    "waking up": "baby waking up",
}
"""Classes of Kinetics-600 that Kinetics-400 has under another name: 232 names are new, and without these 12 the 220 unseen classes."""


def draw_shots(videos: Sequence[Video], shots: int, *, seed: int) -> list[Video]:
    """``shots`` videos of each class, by class and then in the order drawn (spec section 14.2; the official draws are not published).

    Each video has a rank made of the seed, its class and its file name without ending, and the first ranks are taken. So the draw is the
    same on every machine, wherever the videos lie and in whatever order they are listed; fewer shots are a part of more shots; and
    a video that is missing changes its own class alone, by one.

    Raises ConfigError if a class has fewer videos.
    """
    if shots < 1:
        raise ConfigError(f"{shots} shots: at least 1")
    by_class: defaultdict[str, list[Video]] = defaultdict(list)
    for video in videos:
        by_class[video[1]].append(video)

    def rank(video: Video) -> tuple[bytes, str]:
        path, label = video
        text = "\0".join((str(seed), same_name(label), path.stem))
        return hashlib.sha256(text.encode(errors="surrogateescape")).digest(), path.as_posix()

    drawn = []
    for label in sorted(by_class):
        if len(by_class[label]) < shots:
            raise ConfigError(f"{shots} shots of {label!r}: there are only {len(by_class[label])} videos of it")
        drawn += sorted(by_class[label], key=rank)[:shots]
    return drawn


def unseen_classes() -> tuple[str, ...]:
    """The 220 classes of Kinetics-600 that Kinetics-400 does not have, in the order of Kinetics-600's list (spec section 14.1)."""
    known = {*named_labels("kinetics400").labels, *RENAMED_IN_KINETICS600}
    return tuple(name for name in named_labels("kinetics600").labels if name not in known)


def unseen_draw(number: int) -> tuple[str, ...]:
    """The 160 unseen classes of draw 1, 2 or 3.

    These are the draws published with the protocol (Chen and Huang, "Elaborative Rehearsal for Zero-shot Action Recognition", 2021),
    whose number the X-CLIP paper compares with. The authors of X-CLIP gave no list of their own, so that theirs are the same is likely, not
    certain.
    """
    if number not in (1, 2, 3):
        raise ConfigError(f"draw {number} of the unseen classes: there are draws 1, 2 and 3")
    text = resources.files(__package__).joinpath("labels", "kinetics600_unseen.csv").read_text(encoding="utf-8")
    return tuple(row["name"] for row in csv.DictReader(io.StringIO(text)) if str(number) in row["draws"].split())


def of_classes(videos: Iterable[Video], class_names: Sequence[str]) -> list[Video]:
    """The videos whose label is one of the classes, in any spelling, with the label as the list spells it."""
    find = class_finder(class_names, numbered=False)
    named = ((path, find(label)) for path, label in videos)
    return [(path, name) for path, name in named if name is not None]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a result was measured by. Results carry this, so that two of them can be told to be comparable.

    name: such as ``hmdb51/split1/test``.  classes_sha256: of the class names in their order.  videos_sha256: of the pairs of file name and
    label, sorted, so the same for everyone who has the same videos under the same names.  annotations_sha256: of the list's file, None
    if there is none.
    """

    name: str
    num_classes: int
    num_videos: int
    classes_sha256: str
    videos_sha256: str
    annotations_sha256: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        class_names: Sequence[str],
        videos: Sequence[Video],
        *,
        subset: bool = False,
        annotations_sha256: str | None = None,
    ) -> Protocol:
        """The record of a protocol whose candidates are ``class_names``; with ``subset`` the videos may show a part of them.

        Raises ConfigError, naming both numbers, if the videos are not of exactly these classes: a class list of another size or of
        other names makes scores that cannot be compared.
        """
        shown = {label for _, label in videos}
        unknown, without = sorted(shown - set(class_names)), [] if subset else sorted(set(class_names) - shown)
        if unknown or without:
            example = f"{unknown[0]!r} is not in the list" if unknown else f"{without[0]!r} has no video"
            raise ConfigError(f"{name}: a class list of {len(class_names)} for videos of {len(shown)} classes: {example}")
        return cls(
            name=name,
            num_classes=len(class_names),
            num_videos=len(videos),
            classes_sha256=_sha256(class_names),
            videos_sha256=_sha256(sorted(f"{path.name}\t{label}" for path, label in videos)),
            annotations_sha256=annotations_sha256,
        )

    def as_dict(self) -> dict[str, Any]:
        """As the results of an evaluation have it."""
        return {"protocol": self.name, "num_classes": self.num_classes, **self.hashes()}

    def hashes(self) -> dict[str, str | None]:
        return {name: value for name, value in asdict(self).items() if name.endswith("_sha256")}


def _sha256(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()
