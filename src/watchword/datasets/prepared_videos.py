"""Each video's outcome in a file of its own, made on all cores or by Ray: what a run that was killed finds done."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from ..errors import InputError, MissingExtraError
from ..files import write_text
from ..reserve.preparing import KEY, Rejected, VideoSettings, prepare_video
from ..reserve.records import Record, record_from
from ..reserve.shards import members_in, write_archive
from .workers import Crashed, Workers

__all__ = ["VideoJob", "VideoOutcome", "load_video", "prepare_all"]


@dataclass(frozen=True)
class VideoJob:
    """A video to prepare. name: its path below the folder of all videos, its id where nothing else says one."""

    path: str
    name: str


@dataclass(frozen=True)
class VideoOutcome:
    """What came of a video.

    video_id, num_segments, seconds, file: of one that was prepared; file: name of what was made of it.
    reason, message: of one that was left out.  failed: it could not be read.
    """

    path: str
    video_id: str = ""
    num_segments: int = 0
    seconds: float = 0.0
    file: str = ""
    reason: str = ""
    message: str = ""
    failed: bool = False


def prepare_all(
    jobs: Sequence[VideoJob],
    work: Path,
    settings: VideoSettings,
    workers: Workers,
    *,
    use_ray: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[VideoOutcome]:
    """The outcomes of all videos in order, each kept in `work` as soon as it is there; what is there already is not done again."""
    function = partial(prepare_one, work=work, settings=settings)
    if use_ray:
        outcomes = _by_ray(function, jobs)
        on_progress(len(jobs), len(jobs))
        return outcomes
    outcomes = []
    for job, found in zip(jobs, workers.each(function, jobs), strict=True):
        died = VideoOutcome(job.path, reason="crashed", message="its process died, perhaps for want of memory", failed=True)
        outcomes.append(died if isinstance(found, Crashed) else found)
        on_progress(len(outcomes), len(jobs))
    return outcomes


def prepare_one(job: VideoJob, *, work: Path, settings: VideoSettings) -> VideoOutcome:
    """The outcome of one video, from `work` if it is there. The same function runs here, in other processes and on other machines."""
    if multiprocessing.parent_process() is not None:  # one of Workers, of which there is one for each core
        torch.set_num_threads(1)
    name = _name(job)
    folder = work / "videos" / name[:2]
    note = folder / f"{name}.json"
    try:
        known = VideoOutcome(**json.loads(note.read_text(encoding="utf-8")))
        return VideoOutcome(**{**asdict(known), "path": job.path})
    except (OSError, ValueError, TypeError):
        folder.mkdir(parents=True, exist_ok=True)
    found = prepare_video(job.path, settings, name=job.name)
    if isinstance(found, Rejected):
        outcome = VideoOutcome(job.path, reason=found.reason, message=found.message, failed=found.failed)
    else:
        file = f"{name[:2]}/{name}.tar"
        write_archive(work / "videos" / file, [found])
        seconds = float(found.videos[0].meta["seconds"])
        outcome = VideoOutcome(job.path, found.segments[0].video_id, len(found.segments), seconds, file)
    write_text(note, json.dumps(asdict(outcome)))  # the last, so that where it is all is there
    return outcome


def _name(job: VideoJob) -> str:
    """Another one if the file has changed."""
    try:
        status = os.stat(job.path)
        version = f"{status.st_size} {status.st_mtime_ns}"
    except OSError:
        version = "missing"
    return hashlib.sha256(f"{job.name!r} {version}".encode()).hexdigest()[:32]


def load_video(work: Path, file: str) -> Record:
    """All segments of a prepared video, from the file of its outcome. Raises InputError if its file is damaged."""
    path = work / "videos" / file
    try:
        members = dict(members_in(memoryview(path.read_bytes()), repr(str(path))))
    except OSError as error:
        raise InputError(f"{str(path)!r}, a part of this run, cannot be read ({error.strerror}): run it again from the beginning") from None
    return record_from(KEY, members, source=repr(str(path)))


def _by_ray(function: Callable[[VideoJob], VideoOutcome], jobs: Sequence[VideoJob]) -> list[VideoOutcome]:
    """The same on a Ray cluster: the one that is running, or one of this machine's cores."""
    try:
        import ray.data
        import ray.exceptions
    except ImportError:
        raise MissingExtraError("engine ray needs Ray: pip install 'watchword[ray]', or leave out --engine") from None
    data = ray.data.from_items(
        [{"place": place, **asdict(job)} for place, job in enumerate(jobs)], override_num_blocks=min(len(jobs), 4096)
    )
    try:
        rows = data.map(partial(_ray_row, function)).take_all()
    except ray.exceptions.RayError as error:  # a machine is lost, or a video kills its process again and again
        problem = str(error).strip().splitlines()[-1][:300]
        raise InputError(f"Ray gave up ({type(error).__name__}: {problem}): run it again, what is done stays done") from None
    rows.sort(key=lambda row: row["place"])
    return [VideoOutcome(**json.loads(row["outcome"])) for row in rows]


def _ray_row(function: Callable[[VideoJob], VideoOutcome], row: dict[str, object]) -> dict[str, object]:
    outcome = function(VideoJob(str(row["path"]), str(row["name"])))
    return {"place": row["place"], "outcome": json.dumps(asdict(outcome))}
