"""Which videos, which candidates, and what to call it: from an annotation list to what an evaluation takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..datasets.annotations import Part, class_finder, class_list, hash_annotations, load_list, read_annotations
from ..datasets.protocols import ProtocolName, ProtocolVideos, list_name, protocol_videos
from ..errors import ConfigError, LabelError
from ..xclip.config import XClipConfig
from ..xclip.model import XClip
from .classification import evaluate
from .results import ClassificationResult

__all__ = ["ListedVideos", "listed_videos"]


@dataclass(frozen=True, kw_only=True)
class ListedVideos(ProtocolVideos):
    """Labelled videos and their candidates.

    Attributes:
        source: where the class names come from, in words.
        subset: the videos need not show all classes.
    """

    source: str
    subset: bool

    def evaluate(self, model: XClip, *, subset: bool = False, **options: Any) -> ClassificationResult:
        """``classification.evaluate`` of these videos; ``subset`` and the other options are its own."""
        return evaluate(
            model,
            self.videos,
            self.class_names,
            protocol=self.protocol,
            annotations_sha256=self.annotations_sha256,
            subset=subset or self.subset,
            **options,
        )


def listed_videos(
    annotations: str | Path,
    config: XClipConfig,
    *,
    protocol: ProtocolName | None = None,
    root: str | Path | None = None,
    classes: str | None = None,
    split: int | None = None,
    draw: int | None = None,
    part: Part = "test",
) -> list[ListedVideos]:
    """Read an annotation list, as ``read_annotations`` does, and find its class names.

    With ``protocol`` there is a result for each of its splits or draws, or for the one that is asked for; videos and class names are the
    protocol's, see ``protocol_videos``. Without it there is one, and the class names are ``classes``, if given; else those that the
    weights name, if they include all labels of the list; else the labels of the list.

    Raises:
        ConfigError: the list cannot be understood, has labels that ``classes`` lacks, or is not the protocol's.
        LabelError: its labels are numbers and no class list is known.
    """
    if protocol is not None:
        found = protocol_videos(protocol, annotations, root=root, classes=classes, split=split, draw=draw, part=part)
        return [ListedVideos(**vars(one), source="those of the protocol", subset=False) for one in found]
    if draw is not None:
        raise ConfigError(f"draw {draw} was asked for, but only a protocol has draws: kinetics600_zero_shot")
    return [_without_protocol(annotations, config, root=root, classes=classes, split=split, part=part if split else None)]


def _without_protocol(
    annotations: str | Path, config: XClipConfig, *, root: str | Path | None, classes: str | None, split: int | None, part: Part | None
) -> ListedVideos:
    name = list_name(annotations, classes=classes, split=split, part=part)
    if classes is not None:
        names, source = class_list(classes)
        videos = read_annotations(annotations, root=root, classes=classes, split=split, part=part)
        digest = hash_annotations(annotations, split=split, part=part)
        return ListedVideos(protocol=name, videos=videos, class_names=names, source=source, subset=False, annotations_sha256=digest)
    listed = load_list(annotations, root=root, split=split, part=part)
    find = class_finder(config.class_names, numbered=listed.numbered)
    if config.class_names and all(find(label) is not None for _, label in listed.videos):
        videos = [(path, find(label) or label) for path, label in listed.videos]
        names, source, subset = config.class_names, "those of the weights", True
    elif listed.numbered:
        raise LabelError(f"{annotations}: its labels are numbers; give the class list they count in (--classes kinetics400, or a file)")
    else:
        videos, names = listed.videos, tuple(sorted({label for _, label in listed.videos}))
        source, subset = "the labels of the list", False
    digest = hash_annotations(annotations, split=split, part=part)
    return ListedVideos(protocol=name, videos=videos, class_names=names, source=source, subset=subset, annotations_sha256=digest)
