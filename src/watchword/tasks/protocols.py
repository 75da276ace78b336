"""Which videos, which candidates, and what to call it: from an annotation list to what an evaluation takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..datasets.annotations import Part, class_finder, class_list, load_list, read_annotations
from ..errors import LabelError
from ..xclip.config import XClipConfig

__all__ = ["ListedVideos", "listed_videos"]


@dataclass(frozen=True, kw_only=True)
class ListedVideos:
    """Labelled videos and their candidates.

    Attributes:
        protocol: such as ``hmdb51/split1/test``.
        source: where the class names come from, in words.
        subset: the videos need not show all classes.
    """

    protocol: str
    videos: list[tuple[Path, str]]
    class_names: tuple[str, ...]
    source: str
    subset: bool


def listed_videos(
    annotations: str | Path,
    config: XClipConfig,
    *,
    root: str | Path | None = None,
    classes: str | None = None,
    split: int | None = None,
    part: Part = "test",
) -> ListedVideos:
    """Read an annotation list, as ``read_annotations`` does, and find its class names.

    These are ``classes``, if given; else those that the weights name, if they include all labels of the list; else the labels of the list.

    Raises:
        ConfigError: the list cannot be understood, or has labels that ``classes`` lacks.
        LabelError: its labels are numbers and no class list is known.
    """
    where = f"/split{split}/{part}" if split is not None else ""
    if classes is not None:
        names, source = class_list(classes)
        videos = read_annotations(annotations, root=root, classes=classes, split=split, part=part if split else None)
        name = classes if not Path(classes).is_file() else Path(annotations).name
        return ListedVideos(protocol=name + where, videos=videos, class_names=names, source=source, subset=False)
    listed = load_list(annotations, root=root, split=split, part=part if split else None)
    protocol = Path(annotations).resolve().name + where
    find = class_finder(config.class_names, numbered=listed.numbered)
    if config.class_names and all(find(label) is not None for _, label in listed.videos):
        videos = [(path, find(label) or label) for path, label in listed.videos]
        return ListedVideos(protocol=protocol, videos=videos, class_names=config.class_names, source="those of the weights", subset=True)
    if listed.numbered:
        raise LabelError(f"{annotations}: its labels are numbers; give the class list they count in (--classes kinetics400, or a file)")
    names = tuple(sorted({label for _, label in listed.videos}))
    return ListedVideos(protocol=protocol, videos=listed.videos, class_names=names, source="the labels of the list", subset=False)
