"""Eight uniform frames of a file: our reader against torchcodec, decord2 and PyAV run through from the beginning.

Each reader lives in a process of its own, since their FFmpeg libraries disturb one another; opening the file is part of the task.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from .results import Goal, Report, Table
from .timing import Sample, Timing, interleaved, measure
from .videos import find_clips, frame_numbers, write_numbered

__all__ = ["run"]

NUM_FRAMES = 8
SHORT_SIDE = 224
NUM_THREADS = 2
MOST_TIMES = 1.1
OURS = "watchword"
SEQUENTIAL = "PyAV sequential"
UInt8 = npt.NDArray[np.uint8]


def run(*, quick: bool) -> Report:
    report = Report(f"{NUM_FRAMES} uniform frames at {SHORT_SIDE} pixels")
    workers = {name: Worker(name) for name in READERS}
    try:
        report.notes += [f"{name} cannot be used here: {worker.failure}" for name, worker in workers.items() if worker.failure]
        usable = {name: worker for name, worker in workers.items() if not worker.failure}
        with TemporaryDirectory() as folder:
            seconds, height = (4, 240) if quick else (60, 720)
            numbered = Path(folder, f"{seconds} s, {height}p, keyframe every 250")
            write_numbered(
                path := numbered.with_suffix(".mp4"),
                num_frames=seconds * 30,
                width=height * 16 // 9 // 16 * 16,
                height=height,
                frames_per_second=30,
                keyframe_every=250,
            )
            races = [_race(path, usable, Path(folder), rounds=1 if quick else 3, are_numbered=True)]
            races += [_race(clip, usable, Path(folder), rounds=1 if quick else 3) for clip in find_clips()[: 2 if quick else None]]
    finally:
        for worker in workers.values():
            worker.close()
    report.tables += [_table("CPU seconds", races, lambda timing: timing.cpu_seconds)]
    report.tables += [_table("Wall seconds", races, lambda timing: timing.wall_seconds)]
    report.goals += [goal for race in races for goal in _goals(race)]
    if not find_clips():
        report.notes.append("The clips are not here: set $WATCHWORD_MEDIA to a folder that has them in `clips`.")
    report.notes += _failures(races)
    report.notes += [
        f"{NUM_THREADS} decoder threads each, files in the page cache. The frames are those of the uniform rule on the number of frames "
        "that the reader itself reports; the peers are told the size to give beforehand.",
        "Right: of the file with numbers, the number read back from each picture is the one expected; of a clip, each picture is nearest "
        "to the expected frame of a decode of the whole file, however scaled. A cell says how many frames were not right; the last two "
        "columns are ratios to the fastest peer that gave pictures at all, and to the fastest that gave the right ones: the goal's.",
    ]
    return report


@dataclass
class Race:
    """One file, all readers."""

    title: str
    timings: dict[str, Timing]
    num_wrong: dict[str, int]
    failures: dict[str, str] = field(default_factory=dict)


def _race(path: Path, workers: dict[str, Worker], folder: Path, *, rounds: int, are_numbered: bool = False) -> Race:
    # A container may count differently than a decoder, so the truth is a decode of everything.
    width, height, num_frames, signatures = _decode_all(path)
    job = {"path": str(path), "width": width, "height": height}
    expected = _uniform(num_frames)
    num_wrong, failures = {}, {}
    for name, worker in workers.items():
        answer = worker.ask({**job, "save": str(folder / "frames.npy")})
        if "failure" in answer:
            failures[name] = answer["failure"]
            continue
        frames = np.load(folder / "frames.npy")
        if are_numbered:
            num_wrong[name] = int((np.asarray(frame_numbers(frames)) != expected).sum())
        else:
            num_wrong[name] = _count_wrong(frames, signatures, expected)
    tasks = {name: partial(_timed, worker, job) for name, worker in workers.items() if name not in failures}
    return Race(path.stem if are_numbered else path.name, interleaved(tasks, rounds=rounds, warm_up=False), num_wrong, failures)


def _timed(worker: Worker, job: dict[str, Any]) -> Sample:
    answer = worker.ask(job)
    return Sample(answer["wall_seconds"], answer["cpu_seconds"])


def _table(title: str, races: list[Race], seconds: Callable[[Timing], float]) -> Table:
    rows = []
    for race in races:
        cells = []
        for name in READERS:
            wrong = f", {race.num_wrong[name]} wrong" if race.num_wrong.get(name) else ""
            cells.append(f"{seconds(race.timings[name]):.3f}{wrong}" if name in race.timings else "fails" if name in race.failures else "-")
        rows.append((race.title, *cells, _text(_ratio(race, seconds, right=False)), _text(_ratio(race, seconds, right=True))))
    return Table(title, ("file", *READERS, f"{OURS} / fastest peer", f"{OURS} / fastest right peer"), rows)


def _ratio(race: Race, seconds: Callable[[Timing], float], *, right: bool) -> float | None:
    """Our time over that of the fastest peer, or of the fastest that gave the right frames."""
    peers = [seconds(timing) for name, timing in race.timings.items() if name != OURS and not (right and race.num_wrong[name])]
    return seconds(race.timings[OURS]) / min(peers) if peers and OURS in race.timings else None


def _text(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _failures(races: list[Race]) -> list[str]:
    """A line for each reader and each way in which it failed."""
    files: dict[tuple[str, str], list[str]] = {}
    for race in races:
        for name, reason in race.failures.items():
            files.setdefault((name, reason), []).append(race.title)
    return [
        f"{name} fails on {'all files' if len(titles) == len(races) else ', '.join(titles)}: {reason}"
        for (name, reason), titles in files.items()
    ]


def _goals(race: Race) -> list[Goal]:
    ratios = [_ratio(race, lambda timing: timing.cpu_seconds, right=True), _ratio(race, lambda timing: timing.wall_seconds, right=True)]
    known = [ratio for ratio in ratios if ratio is not None]
    measured = f"CPU {_text(ratios[0])}, wall {_text(ratios[1])} times"
    wrong = race.num_wrong.get(OURS)
    right = "fails" if wrong is None else "every frame right" if not wrong else f"{wrong} of {NUM_FRAMES} wrong"
    met = wrong == 0 and all(ratio <= MOST_TIMES for ratio in known)
    if not known:
        measured = "no peer gives the right frames"
    return [Goal(f"{race.title}: at most {MOST_TIMES} times the fastest that is right, every frame right", f"{measured}, {right}", met)]


def _uniform(num_frames_total: int) -> list[int]:
    """The middle of each of eight equal parts, worked out in whole numbers and apart from the code that is measured."""
    return [(2 * i + 1) * num_frames_total // (2 * NUM_FRAMES) % num_frames_total for i in range(NUM_FRAMES)]


def _decode_all(path: Path) -> tuple[int, int, int, UInt8]:
    """(width, height) with the short side at 224, the number of frames, and the signatures of all frames, (frames, ways, 32, 32, 3)."""
    import av

    ways = _ways_of_scaling()
    signatures = []
    with av.open(path, metadata_errors="ignore") as container:
        stream = container.streams.best("video")
        stream.thread_type = "AUTO"
        scale = SHORT_SIDE / min(stream.width, stream.height)
        width, height = round(stream.width * scale), round(stream.height * scale)
        for frame in container.decode(stream):
            signatures.append([_signature(frame.reformat(width, height, "rgb24", interpolation=way)) for way in ways])
    return width, height, len(signatures), np.array(signatures)


def _ways_of_scaling() -> list[int]:
    """How readers bring a frame to its size. Between two of them one frame differs more than neighbours of a still scene do."""
    from av.video.reformatter import Interpolation as Way

    exact = Way.FULL_CHR_H_INT | Way.FULL_CHR_H_INP | Way.ACCURATE_RND
    return [way | rounding for way in (Way.BILINEAR, Way.BICUBIC) for rounding in (0, exact)]


def _signature(frame: Any) -> UInt8:
    """An RGB frame as 32 x 32 colours, much the same however it was brought to its size."""
    signature: UInt8 = frame.reformat(32, 32, "rgb24", interpolation="AREA").to_ndarray()
    return signature


def _count_wrong(frames: UInt8, signatures: UInt8, expected: list[int]) -> int:
    """How many frames look like another frame of the file rather than the expected one, or like none of them.

    A frame is as far from one of the file as from that way of scaling it which is nearest.
    """
    import av

    closest, farthest = 0.1, 8.0  # in grey levels: frames nearer than this cannot be told apart, and what makes a picture another one
    num_wrong = abs(NUM_FRAMES - len(frames))
    for frame, number in zip(frames, expected, strict=False):
        own = _signature(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24"))
        distances = np.abs(signatures.astype(np.int16) - own).mean(axis=(2, 3, 4)).min(axis=1)
        num_wrong += bool(distances[number] > min(distances.min() + closest, farthest))
    return num_wrong


class Worker:
    """A reader in a process of its own, asked by lines of JSON."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, "-m", "benchmarks.decoders", name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[1]
        )
        self.failure: str | None = self._read().get("failure")

    def ask(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"failure": "its process is dead"}
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failure": "its process died"}
        return answer

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


Reader = Callable[[str, int, int], UInt8]


def _watchword() -> Reader:
    from watchword.media import VideoReader

    def read(path: str, width: int, height: int) -> UInt8:
        with VideoReader(path, num_threads=NUM_THREADS) as reader:
            return reader.uniform(NUM_FRAMES, size=SHORT_SIDE).rgb

    return read


def _torchcodec(mode: str) -> Reader:
    import torch
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    torch.set_num_threads(NUM_THREADS)

    def read(path: str, width: int, height: int) -> UInt8:
        resize = Resize((height, width))
        decoder = VideoDecoder(path, dimension_order="NHWC", num_ffmpeg_threads=NUM_THREADS, seek_mode=mode, transforms=[resize])
        frames: UInt8 = decoder.get_frames_at(_uniform(len(decoder))).data.numpy()
        return frames

    return read


def _decord() -> Reader:
    from decord import VideoReader, cpu

    def read(path: str, width: int, height: int) -> UInt8:
        reader = VideoReader(path, ctx=cpu(0), width=width, height=height, num_threads=NUM_THREADS)
        frames: UInt8 = reader.get_batch(_uniform(len(reader))).asnumpy()
        return frames

    return read


def _sequential() -> Reader:
    import av

    def read(path: str, width: int, height: int) -> UInt8:
        with av.open(path, metadata_errors="ignore") as container:
            stream = container.streams.best("video")
            stream.codec_context.thread_count, stream.thread_type = NUM_THREADS, "AUTO"
            total = stream.frames
            if not total:
                total = sum(1 for packet in container.demux(stream) if packet.size)
                container.seek(0)
            wanted = _uniform(total)
            found: dict[int, UInt8] = {}
            for number, frame in enumerate(container.decode(stream)):
                if number in wanted:
                    found[number] = frame.reformat(width, height, "rgb24", interpolation="BILINEAR").to_ndarray()
                if number >= max(wanted):
                    break
            return np.stack([found[number] for number in wanted])

    return read


READERS: dict[str, Callable[[], Reader]] = {
    OURS: _watchword,
    "torchcodec exact": partial(_torchcodec, "exact"),
    "torchcodec approximate": partial(_torchcodec, "approximate"),
    "decord2": _decord,
    SEQUENTIAL: _sequential,
}


def _work(name: str) -> None:
    """Answer each job on standard input with its seconds or its failure, on standard output."""
    try:
        read = READERS[name]()
    except (ImportError, OSError, RuntimeError) as error:
        _answer({"failure": _reason(error)})
        return
    _answer({})
    for line in sys.stdin:
        job = json.loads(line)
        taken: list[UInt8] = []
        try:
            sample = measure(lambda job=job, taken=taken: taken.append(read(job["path"], job["width"], job["height"])))
        except Exception as error:  # a peer may raise anything; the table says that it did
            _answer({"failure": _reason(error)})
            continue
        if "save" in job:
            np.save(job["save"], taken[0])
        _answer({"wall_seconds": sample.wall_seconds, "cpu_seconds": sample.cpu_seconds})


def _reason(error: Exception) -> str:
    """Why a peer does not run here, in one line without paths."""
    text = str(error)
    if "libtorchcodec" in text:
        return (
            "its libraries do not load: FFmpeg's shared libraries are missing (Debian's package ffmpeg), or torch's version does not match"
        )
    return f"{type(error).__name__}: {text.splitlines()[0][:120] if text else ''}"


def _answer(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    _work(sys.argv[1])
