"""The papers' protocols by name: which videos of a data set, and which class names they are told apart by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ..errors import ConfigError
from .annotations import Part, class_finder, class_list, hash_annotations, read_annotations
from .label_lists import named_labels
from .splits import of_classes, unseen_draw

__all__ = ["PROTOCOLS", "NamedProtocol", "ProtocolName", "ProtocolVideos", "list_name", "protocol_videos"]

ProtocolName = Literal["kinetics400", "kinetics600", "kinetics600_zero_shot", "hmdb51", "hmdb51-raw", "ucf101", "ucf101-raw"]


@dataclass(frozen=True)
class NamedProtocol:
    """``classes``: the shipped class list. ``repeated``: what is done three times and averaged, if anything."""

    classes: str
    repeated: Literal["split", "draw"] | None = None


PROTOCOLS: dict[ProtocolName, NamedProtocol] = {
    "kinetics400": NamedProtocol("kinetics400"),
    "kinetics600": NamedProtocol("kinetics600"),
    "kinetics600_zero_shot": NamedProtocol("kinetics600", "draw"),
    "hmdb51": NamedProtocol("hmdb51", "split"),
    "hmdb51-raw": NamedProtocol("hmdb51-raw", "split"),
    "ucf101": NamedProtocol("ucf101", "split"),
    "ucf101-raw": NamedProtocol("ucf101-raw", "split"),
}
"""``-raw`` are the names as the data set spells them, which the published numbers were made with (spec quirk 20)."""

REPEATS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class ProtocolVideos:
    """Labelled videos and the class names they are told apart by.

    Attributes:
        protocol: such as ``hmdb51/split1/test``.
        annotations_sha256: of the list's bytes; None for class folders, which have no list.
    """

    protocol: str
    videos: list[tuple[Path, str]]
    class_names: tuple[str, ...]
    annotations_sha256: str | None


def list_name(annotations: str | Path, *, classes: str | None = None, split: int | None = None, part: Part | None = None) -> str:
    """What a result calls a list that is no protocol's: by its class list if that is a shipped one, else by its file."""
    name = Path(annotations).resolve().name if classes is None or Path(classes).is_file() else classes
    return name if split is None else f"{name}/split{split}/{part}"


def protocol_videos(
    name: ProtocolName,
    annotations: str | Path,
    *,
    root: str | Path | None = None,
    classes: str | None = None,
    split: int | None = None,
    draw: int | None = None,
    part: Part = "test",
) -> list[ProtocolVideos]:
    """The videos of a protocol in a list of its data set: of all three splits or draws, or of the one that is asked for.

    For ``hmdb51`` and ``ucf101`` the list is the folder of the data set's split files. For ``kinetics600_zero_shot`` it is any list of
    Kinetics-600; each draw takes the videos of its 160 classes and no others, and these classes are the candidates (spec section 14.1).

    Args:
        annotations, root, part: as for ``read_annotations``.
        classes: another class list of the same size, where the list's numbers count in another order or names are spelled otherwise.

    Raises:
        ConfigError: no such protocol, a class list of another size, a split or draw that the protocol does not have, or the list cannot
            be understood.
        LabelError: the class list cannot be read.
    """
    if name not in PROTOCOLS:
        raise ConfigError(f"no protocol is called {name!r}: choose one of {', '.join(PROTOCOLS)}")
    protocol = PROTOCOLS[name]
    for what, asked in (("split", split), ("draw", draw)):
        if asked is not None and protocol.repeated != what:
            raise ConfigError(f"{name} has no {what}s, but {what} {asked} was asked for")
    wanted = classes or protocol.classes
    class_names, called = class_list(wanted)
    if len(class_names) != (size := len(named_labels(protocol.classes).labels)):
        raise ConfigError(f"{name} has {size} classes, but the class list {called} has {len(class_names)}")
    if protocol.repeated == "split":
        return [
            ProtocolVideos(
                protocol=f"{name}/split{number}/{part}",
                videos=read_annotations(annotations, root=root, classes=wanted, split=number, part=part),
                class_names=class_names,
                annotations_sha256=hash_annotations(annotations, split=number, part=part),
            )
            for number in (REPEATS if split is None else (split,))
        ]
    videos = read_annotations(annotations, root=root, classes=wanted)
    whole = ProtocolVideos(protocol=name, videos=videos, class_names=class_names, annotations_sha256=hash_annotations(annotations))
    if protocol.repeated is None:
        return [whole]
    return [_drawn(whole, number, called) for number in (REPEATS if draw is None else (draw,))]


def _drawn(whole: ProtocolVideos, number: int, called: str) -> ProtocolVideos:
    name, drawn = f"{whole.protocol}/draw{number}", unseen_draw(number)
    find = class_finder(whole.class_names, numbered=False)
    spelled = {label: find(label) for label in drawn}
    if lacking := [label for label, name_there in spelled.items() if name_there is None]:
        raise ConfigError(f"{name}: the class list {called} lacks {lacking[0]!r}, one of the {len(drawn)} classes of this draw")
    names = tuple(name_there for name_there in spelled.values() if name_there is not None)
    chosen = of_classes(whole.videos, names)
    if not chosen:
        raise ConfigError(f"{name}: none of the {len(whole.videos)} videos is of the {len(names)} classes of this draw")
    return replace(whole, protocol=name, videos=chosen, class_names=names)
