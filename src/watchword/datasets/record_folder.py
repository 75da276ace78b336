"""A folder of videos to shards of records: every video on all cores, then grouping, shuffling and writing.

What is done with a video is kept on disk at once, so that a run that was killed goes on where it was. Everything written follows from the
videos and the settings alone: neither the number of processes nor the order in which they finish plays a part.

Source: merlot-reserve-data spec sections 3 to 10 and 20.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from ..errors import ConfigError, InputError
from ..fields import check_types
from ..files import write_text
from ..reserve.documents import check_texts, find_texts
from ..reserve.grouping import RECORD_SEGMENTS
from ..reserve.packing import WEB_TEXT_LENGTH
from ..reserve.preparing import VideoSettings, check_available
from ..reserve.shards import MANIFEST, RECORDS_A_SHARD, Manifest, ShardEntry
from .folders import find_media
from .prepared_videos import VideoJob, VideoOutcome, prepare_all
from .record_plan import Plan, ShardPlan, make_plan, write_planned
from .workers import Crashed, Workers

__all__ = ["REJECTED", "FolderSettings", "PreparedFolder", "prepare"]

REJECTED = "rejected.jsonl"
_TOLD = ("path", "reason", "message", "failed")
_SETTINGS = "settings.json"
_WORK = "work"
Engine = Literal["local", "ray"]


@dataclass(frozen=True)
class FolderSettings:
    """How records are made; the defaults are those of the released data.

    videos: what is taken from each video.
    num_segments: of a record.  records_a_shard: of a tar file.
    validation_share: of the videos, in thousandths that their ids' hashes choose.  some_validation: if they choose too few for one record,
        those with the lowest hashes are taken until it is filled.
    text_stretches, text_length: web text of a record, if there is any.  repeat_text: begin again where there is too little.

    Raises ConfigError for values that cannot be.
    """

    videos: VideoSettings = field(default_factory=VideoSettings)
    num_segments: int = RECORD_SEGMENTS
    records_a_shard: int = RECORDS_A_SHARD
    validation_share: float = 0.005
    some_validation: bool = False
    text_stretches: int = 2
    text_length: int = WEB_TEXT_LENGTH
    repeat_text: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.validation_share < 1:
            raise ConfigError(f"validation_share {self.validation_share}; give a share from 0 to below 1")
        if not 1 <= self.num_segments <= 100 or not 1 <= self.records_a_shard <= 10**5:
            raise ConfigError(f"{self.num_segments} segments a record, {self.records_a_shard} records a shard; give 1 to 100, 1 to 100000")
        if self.text_stretches < 1 or self.text_length < 16:
            raise ConfigError(f"{self.text_stretches} stretches of {self.text_length} tokens; give at least 1 of at least 16")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON. Of a file of word timing its hash counts, not its name."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        if self.videos.timing:
            check_available(VideoSettings(timing=self.videos.timing))
            values["videos"]["timing"] = hashlib.sha256(Path(self.videos.timing).read_bytes()).hexdigest()
        return values


@dataclass(frozen=True)
class PreparedFolder:
    """What came of it. rejected: the videos left out, in order of their names.  was_done: all was there already, and nothing was done."""

    folder: Path
    manifest: Manifest
    rejected: list[VideoOutcome]
    was_done: bool


def prepare(
    inputs: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    settings: FolderSettings | None = None,
    *,
    text: str | os.PathLike[str] | None = None,
    num_processes: int | None = None,
    engine: Engine = "local",
    keep_work: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> PreparedFolder:
    """Prepare videos to learn from.

    inputs: files, folders, patterns, see `find_media`.  out: a folder, made if it is not there.
    text: a file or folder of web text, see `documents.find_texts`.
    num_processes: default: all cores; 0: in this process.
    engine: "ray" spreads the videos over a Ray cluster, all of which must see the same disk.
    keep_work: leave what was made of each video in `out`/work.
    on_progress: called with "videos" or "shards", how many are done, and of how many.

    A folder that is finished already is left as it is.

    Raises:
        InputError: no video at all, not one whole record, too little text, or the folder was made with other settings or from other
            videos, or another run is at work in it.
        ConfigError, MissingExtraError: settings that cannot be, or need what is not installed.
    """
    settings, folder = settings or FolderSettings(), Path(out)
    jobs, problems = _jobs(inputs)
    with _sole_run(folder):
        claim: dict[str, Any] = {
            "settings": settings.as_dict(),
            "videos": _hash_of(jobs),
            "text": None if text is None else _hash_of_text(text),
        }
        if (folder / MANIFEST).exists():
            return _finished(folder, claim, keep_work)
        check_available(settings.videos)
        check_texts(find_texts(text) if text is not None else [])
        _claim(folder, claim["settings"]["videos"])
        work = (folder / _WORK).absolute()
        processes = min(os.cpu_count() or 1 if num_processes is None else num_processes, len(jobs))
        with Workers(processes) as workers:
            outcomes = problems + prepare_all(
                jobs, work, settings.videos, workers, use_ray=engine == "ray", on_progress=partial(on_progress, "videos")
            )
            plan = make_plan(outcomes, work, settings, text)
            _forget_other_plan(folder, plan)
            shards = _write_shards(folder, plan.shards, workers, partial(on_progress, "shards"))
        manifest = _manifest(settings, claim, plan, shards)
        _write_rejected(folder / REJECTED, plan.rejected)
        manifest.write(folder)
        if not keep_work:
            shutil.rmtree(work)
    return PreparedFolder(folder, manifest, plan.rejected, was_done=False)


def _jobs(inputs: Sequence[str | os.PathLike[str]]) -> tuple[list[VideoJob], list[VideoOutcome]]:
    """The videos, named by their paths below the folder that has them all, in order of these names; and what cannot be one."""
    found = find_media(inputs)
    files = [path for path in found.paths if path not in found.problems]
    problems = [VideoOutcome(str(path), reason="no_videos", message=message, failed=True) for path, message in found.problems.items()]
    if not files:
        raise InputError(problems[0].message if problems else "no video: give files or folders")
    whole = [Path(os.path.abspath(path)) for path in files]
    root = Path(os.path.commonpath([path.parent for path in whole]))
    jobs = [VideoJob(str(path), path.relative_to(root).as_posix()) for path in whole]
    return sorted(jobs, key=lambda job: job.name), problems


def _hash_of(jobs: Sequence[VideoJob]) -> str:
    sizes = ((job.name, _size(job.path)) for job in jobs)
    return hashlib.sha256("\n".join(f"{name!r} {size}" for name, size in sizes).encode()).hexdigest()


def _hash_of_text(text: str | os.PathLike[str]) -> str:
    return hashlib.sha256("\n".join(f"{path.name!r} {_size(path)}" for path in find_texts(text)).encode()).hexdigest()


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


@contextmanager
def _sole_run(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"another run is at work in {str(folder)!r}: wait for it, or give another folder") from None
    try:
        for left_over in folder.glob(".*.partial"):  # of a run that was killed
            left_over.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def _finished(folder: Path, claim: dict[str, Any], keep_work: bool) -> PreparedFolder:
    manifest = Manifest.read(folder)
    if (difference := _difference(claim["settings"], manifest.settings.get("settings"))) is not None:
        raise InputError(f"{str(folder)!r} is finished, with other settings ({difference}): give another folder, or take it away")
    for what in ("videos", "text"):
        if manifest.settings.get(what) != claim[what]:
            raise InputError(f"{str(folder)!r} is finished, from other {what}: give another folder, or take it away")
    if not keep_work:
        shutil.rmtree(folder / _WORK, ignore_errors=True)
    return PreparedFolder(folder, manifest, _read_rejected(folder / REJECTED), was_done=True)


def _write_rejected(path: Path, rejected: Sequence[VideoOutcome]) -> None:
    lines = (json.dumps({name: getattr(video, name) for name in _TOLD}) for video in rejected)
    write_text(path, "".join(f"{line}\n" for line in lines))


def _read_rejected(path: Path) -> list[VideoOutcome]:
    try:
        told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [VideoOutcome(**{name: line[name] for name in _TOLD}) for line in told]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({type(error).__name__}): it is not as it was written") from None


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Note with which settings videos are prepared here, or refuse if it was with others."""
    path = folder / _WORK / _SETTINGS
    if not path.exists():
        if others := sorted({entry.name for entry in folder.iterdir()} - {".lock", _WORK}):
            raise InputError(f"{str(folder)!r} holds other files ({others[0]!r}): give a new or empty folder")
        path.parent.mkdir(exist_ok=True)
        write_text(path, json.dumps(settings, indent=1) + "\n")
        return
    try:
        old = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{str(path)!r} cannot be read: give another folder") from None
    if (difference := _difference(settings, old)) is not None:
        raise InputError(f"{str(folder)!r} was begun with other settings ({difference}): give the same, or another folder")


def _difference(new: object, old: object, name: str = "") -> str | None:
    """The first setting that differs, with both values; None if they are the same."""
    if isinstance(new, dict) and isinstance(old, dict):
        differences = (_difference(new.get(key), old.get(key), key) for key in sorted(new.keys() | old.keys()))
        return next((difference for difference in differences if difference is not None), None)
    return None if new == old else f"{name} was {old}, now {new}"


def _forget_other_plan(folder: Path, plan: Plan) -> None:
    """Shards that were written by another plan, as after videos were added, are written anew."""
    path = folder / _WORK / "plan.txt"
    if path.exists() and path.read_text(encoding="utf-8") == plan.sha256:
        return
    for part in ("train", "validation"):
        for old in folder.glob(f"{part}[0-9]*"):
            old.unlink()
    write_text(path, plan.sha256)


def _write_shards(folder: Path, plans: Sequence[ShardPlan], workers: Workers, on_progress: Callable[[int, int], None]) -> list[ShardEntry]:
    entries: list[ShardEntry] = []
    for written in workers.each(partial(write_planned, folder), plans):
        if isinstance(written, Crashed):
            raise InputError(
                f"the process that wrote {plans[len(entries)].name} died, perhaps for want of memory: run it again with fewer jobs"
            )
        entries.append(written)
        on_progress(len(entries), len(plans))
    return entries


def _manifest(settings: FolderSettings, claim: dict[str, Any], plan: Plan, shards: list[ShardEntry]) -> Manifest:
    reasons = sorted({video.reason for video in plan.rejected})
    return Manifest(
        num_segments=settings.num_segments,
        train=[shard for shard in shards if shard.name.startswith("train")],
        validation=[shard for shard in shards if shard.name.startswith("validation")],
        settings=claim,
        videos={
            "num_prepared": len(plan.used),
            "num_failed": sum(video.failed for video in plan.rejected),
            "num_rejected": len(plan.rejected),
            "by_reason": {reason: sum(video.reason == reason for video in plan.rejected) for reason in reasons},
            "seconds": round(sum(video.seconds for video in plan.used), 2),
            "num_segments": sum(video.num_segments for video in plan.used),
        },
    )
