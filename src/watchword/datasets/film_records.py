"""Records of the playground's films, rendered once into shards on disk and read from there by every run that asks for the same ones."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice, repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from ..playground import sample_film
from ..playground.documents import documents
from ..playground.world import Split
from ..reserve.draws import record_draws
from ..reserve.grouping import group_segments
from ..reserve.packing import pack_documents
from ..reserve.pictures import store_frame, store_spectrogram
from ..reserve.preparing import stored_segment
from ..reserve.records import Record, RecordSegment, RecordVideo
from ..reserve.segmentation import Span
from ..reserve.shards import MANIFEST, RECORDS_A_SHARD, Manifest, RecordShards, ShardEntry, record_key, shard_name, write_shard
from .playground import world_hash
from .playground_films import FilmSegment, film_segments

__all__ = ["film_records"]

Stretch = npt.NDArray[np.int32]

_JPEG_QUALITY = 95  # of frames so small that the default would blur them


def film_records(
    num_films: int, *, split: Split, num_segments: int, frame_size: int, seed: int, cache_folder: Path, text_length: int = 0
) -> RecordShards:
    """Records of ``num_segments`` segments of so many films, all of them in the train part; with a ``text_length`` each has two stretches
    of so many tokens of ``playground.documents``. What another version of the world has left in ``cache_folder`` is not taken for this
    one's.
    """
    text = f"-text{text_length}" if text_length else ""
    name = f"films-{split}-{num_films}x{frame_size}-{num_segments}{text}-seed{seed}-{world_hash()}"
    folder = cache_folder / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # runs side by side want the same films: one renders, the others wait
        if not (folder / MANIFEST).exists():
            render = partial(_render, split=split, frame_size=frame_size, seed=seed)
            with multiprocessing.get_context("spawn").Pool() as pool:
                stretches = pack_documents(documents(seed, split=split), length=text_length) if text_length else repeat(None)
                shards = _written(folder, pool.imap(render, range(num_films)), stretches, num_segments, seed)
            Manifest(num_segments=num_segments, train=shards, validation=[]).write(folder)
    return RecordShards(folder)


def _render(index: int, *, split: Split, frame_size: int, seed: int) -> list[RecordSegment]:
    number = seed * 1_000_000 + index
    segments = film_segments(sample_film(number, split=split), frame_size=frame_size, seed=number)
    return [_kept(segment, f"film{number}") for segment in segments]


def _kept(segment: FilmSegment, film: str) -> RecordSegment:
    spoken = list(zip(segment.words, segment.starts, segment.ends, strict=True))
    frame, spectrogram = store_frame(segment.frame, quality=_JPEG_QUALITY), store_spectrogram(segment.spectrogram.T)
    return stored_segment(film, Span(segment.start_time, segment.end_time), segment.speed, spoken, frame, spectrogram)


def _written(
    folder: Path, films: Iterator[list[RecordSegment]], stretches: Iterator[Stretch | None], num_segments: int, seed: int
) -> list[ShardEntry]:
    """Shards of the films' segments, grouped as those of any videos."""
    waiting: dict[int, list[RecordSegment]] = {}

    def counts() -> Iterator[int]:
        for number, segments in enumerate(films):
            waiting[number] = segments
            yield len(segments)

    groups = group_segments(counts(), record_draws(seed, 0, "films"), size=num_segments)
    shards: list[ShardEntry] = []
    while group := list(islice(groups, RECORDS_A_SHARD)):
        name = shard_name("train", len(shards))
        records = []
        for number, places in enumerate(group):
            text = [stretch for stretch in islice(stretches, 2) if stretch is not None]
            records.append(_record(record_key(name, number), [(film, waiting[film][place]) for film, place in places], text))
        shards.append(write_shard(folder, name, records))
    return shards


def _record(key: str, places: list[tuple[int, RecordSegment]], text: list[Stretch]) -> Record:
    numbers: list[int] = []
    for i, (film, _) in enumerate(places):
        numbers.append(numbers[-1] + (film != places[i - 1][0]) if numbers else 0)
    segments = tuple(replace(segment, video_src_index=number) for number, (_, segment) in zip(numbers, places, strict=True))
    return Record(key, segments, (RecordVideo(),) * (numbers[-1] + 1), np.stack(text) if text else None)
