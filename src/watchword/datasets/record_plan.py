"""Which segments of which videos become which record of which shard, and the writing of a shard that was planned so."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..reserve.documents import find_texts, open_stretches, write_stretches
from ..reserve.draws import record_draws
from ..reserve.grouping import group_segments
from ..reserve.records import Record, RecordSegment, RecordVideo
from ..reserve.shards import ShardEntry, Split, read_index, record_key, shard_name, split_number, write_shard
from .prepared_videos import VideoOutcome, load_video

if TYPE_CHECKING:
    from .record_folder import FolderSettings

__all__ = ["Plan", "ShardPlan", "make_plan", "write_planned"]

RecordPlan = tuple[tuple[str, tuple[int, ...]], ...]
"""A record's segments: files of prepared videos, and which segments of each."""

_VIDEOS_AT_HAND = 4


@dataclass(frozen=True)
class ShardPlan:
    """A shard to write. work: folder of the prepared videos.  text: file of web text or "", with so many stretches a record from number
    `first_stretch` on, after the last one again from the first."""

    name: str
    records: tuple[RecordPlan, ...]
    work: str
    text: str = ""
    first_stretch: int = 0
    text_stretches: int = 2
    text_length: int = 0


@dataclass(frozen=True)
class Plan:
    """All shards. used: the videos they are of.  rejected: those left out, by name.  sha256: of the shards, to know the plan again."""

    shards: tuple[ShardPlan, ...]
    used: list[VideoOutcome]
    rejected: list[VideoOutcome]
    sha256: str


def make_plan(outcomes: Sequence[VideoOutcome], work: Path, settings: FolderSettings, text: str | os.PathLike[str] | None) -> Plan:
    """Group the segments of all videos, shuffle the records and share them out to shards; write the web text they need.

    Raises InputError if there is no whole record, or too little text.
    """
    used, rejected = _without_doubles(outcomes)
    parts = _split(used, settings)
    records = {part: _records(part, videos, settings) for part, videos in parts.items()}
    if not records["train"]:
        shutil.rmtree(work)  # too little to keep, and looser filters would be refused in a folder begun with these
        num_segments = sum(video.num_segments for video in used)
        why = f"; the first video left out: {rejected[0].path!r}: {rejected[0].message}" if rejected else ""
        raise InputError(
            f"no record to train on: {len(used)} of {len(outcomes)} videos gave {num_segments} segments, a record needs "
            f"{settings.num_segments}: give more videos or looser filters{why}"
        )
    stretches = "" if text is None else _write_text(text, work, settings, sum(map(len, records.values())))
    shards, first_stretch = list[ShardPlan](), 0
    for part, planned in records.items():
        for number, low in enumerate(range(0, len(planned), settings.records_a_shard)):
            own = tuple(planned[low : low + settings.records_a_shard])
            name = shard_name(part, number)
            shards.append(ShardPlan(name, own, str(work), stretches, first_stretch, settings.text_stretches, settings.text_length))
            first_stretch += len(own) * settings.text_stretches
    digest = hashlib.sha256(repr([replace(shard, work="") for shard in shards]).encode()).hexdigest()
    return Plan(tuple(shards), used, rejected, digest)


def _without_doubles(outcomes: Sequence[VideoOutcome]) -> tuple[list[VideoOutcome], list[VideoOutcome]]:
    """Prepared videos in order of their ids, each id once; and those left out."""
    seen: dict[str, VideoOutcome] = {}
    rejected = []
    for video in outcomes:
        if video.reason:
            rejected.append(video)
        elif video.video_id in seen:
            message = f"has the id {video.video_id!r}, as {seen[video.video_id].path!r} has"
            rejected.append(VideoOutcome(video.path, reason="same_id", message=message))
        else:
            seen[video.video_id] = video
    return [seen[video_id] for video_id in sorted(seen)], rejected


def _split(videos: Sequence[VideoOutcome], settings: FolderSettings) -> dict[Split, list[VideoOutcome]]:
    ranked = sorted(videos, key=lambda video: split_number(video.video_id))
    held_out = [video for video in ranked if split_number(video.video_id) < 1000 * settings.validation_share]
    for video in ranked[len(held_out) :] if settings.some_validation else ():
        if sum(held.num_segments for held in held_out) >= settings.num_segments:
            break
        held_out.append(video)
    chosen = {video.video_id for video in held_out}
    return {
        "train": [video for video in videos if video.video_id not in chosen],
        "validation": [video for video in videos if video.video_id in chosen],
    }


def _records(part: Split, videos: Sequence[VideoOutcome], settings: FolderSettings) -> list[RecordPlan]:
    """The records of one part in the order in which they are written."""
    draws = record_draws(settings.videos.seed, 0, f"records of {part}")
    order = draws.generator.permutation(len(videos))
    size = settings.num_segments
    counts = (videos[number].num_segments for number in order)
    grouped = list(group_segments(counts, draws, size=size, most_waiting=10 * size))
    records = [_by_video([(videos[order[place]].file, segment) for place, segment in record]) for record in grouped]
    return [records[number] for number in draws.generator.permutation(len(records))]


def _by_video(places: Sequence[tuple[str, int]]) -> RecordPlan:
    found: dict[str, list[int]] = {}
    for file, segment in places:
        found.setdefault(file, []).append(segment)
    return tuple((file, tuple(segments)) for file, segments in found.items())


def _write_text(text: str | os.PathLike[str], work: Path, settings: FolderSettings, num_records: int) -> str:
    """The file of web text for so many records, made if it is not there."""
    files, needed = find_texts(text), num_records * settings.text_stretches
    seed, length = settings.videos.seed, settings.text_length
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    name = hashlib.sha256(repr((states, seed, length, needed)).encode()).hexdigest()[:32]
    path = work / f"text-{name}"
    if not path.exists():
        write_stretches(files, path, needed, length=length, seed=seed)
    found = len(open_stretches(path, length))
    if not found or (found < needed and not settings.repeat_text):
        raise InputError(
            f"the text {os.fspath(text)!r} gives {found} stretches of {length} tokens, {needed} are needed: give more, or let it repeat"
        )
    return str(path)


def write_planned(folder: Path, plan: ShardPlan) -> ShardEntry:
    """Write a shard, unless it is there. Raises InputError if a prepared video cannot be read."""
    try:
        entry, _ = read_index(folder, plan.name)
        if (folder / f"{plan.name}.tar").stat().st_size == entry.num_bytes:
            return entry
    except (FileNotFoundError, InputError):
        pass
    return write_shard(folder, plan.name, _planned_records(plan))


def _planned_records(plan: ShardPlan) -> Iterator[Record]:
    load = lru_cache(_VIDEOS_AT_HAND)(partial(load_video, Path(plan.work)))
    stretches = open_stretches(Path(plan.text), plan.text_length) if plan.text else None
    for number, planned in enumerate(plan.records):
        segments, videos = list[RecordSegment](), list[RecordVideo]()
        for index, (file, own) in enumerate(planned):
            video = load(file)
            segments += [replace(video.segments[place], video_src_index=index) for place in own]
            videos.append(video.videos[0])
        text = None
        if stretches is not None:
            first = plan.first_stretch + number * plan.text_stretches
            text = np.array(stretches[np.arange(first, first + plan.text_stretches) % len(stretches)], np.int32)
        yield Record(record_key(plan.name, number), tuple(segments), tuple(videos), text)
