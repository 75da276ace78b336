"""Tagging a folder: does decoding run beside the model? Against decoding alone and the model alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from watchword.datasets.label_lists import named_labels
from watchword.media import DEFAULT_LIMITS
from watchword.xclip import XClip, XClipConfig
from watchword.xclip.labels import encode_labels
from watchword.xclip.reading import EndOfFile, ReadWindow, read_ahead, read_windows
from watchword.xclip.tagging import Tagger

from .results import Goal, Report, Table, num_cores
from .timing import Timing, interleaved, measure
from .videos import find_clips, write_numbered

__all__ = ["run"]

MOST_TIMES = 1.15


def run(*, quick: bool) -> Report:
    report = Report("Tagging a folder")
    torch.manual_seed(0)
    config = XClipConfig(vision_width=128, vision_layers=2, text_layers=1) if quick else XClipConfig.named("base_patch32")
    tagger = Tagger(XClip(config).eval())
    labels = named_labels("kinetics400").labels[: 16 if quick else 400]
    rows = []
    threads_before = torch.get_num_threads()
    with ExitStack() as stack:
        paths = find_clips()[: 3 if quick else None] or _make_clips(Path(stack.enter_context(TemporaryDirectory())), 2 if quick else 12)
        for num_threads in sorted({num_cores(), max(1, num_cores() // 2)}, reverse=True):
            torch.set_num_threads(num_threads)
            timings = interleaved(_tasks(tagger, paths, labels), rounds=1 if quick else 2, warm_up=not quick)
            rows.append(_row(num_threads, timings))
            wall = {name: timing.wall_seconds for name, timing in timings.items()}
            ratio = wall["together"] / max(wall["decoding"], wall["model"])
            report.goals.append(
                Goal(
                    f"wall time at most {MOST_TIMES} times the larger of the two alone; threads of the model: {num_threads}",
                    f"{ratio:.2f} times",
                    ratio <= MOST_TIMES,
                )
            )
    torch.set_num_threads(threads_before)
    columns = ("threads of the model", "decoding alone, s (CPU s)", "model alone, s (CPU s)", "together, s (CPU s)", "ratio", "least, s")
    report.tables.append(Table(f"{len(paths)} files, {len(labels)} labels", columns, rows))
    report.notes.append(
        f'"Least" is what no program can beat on {num_cores()} cores: the larger of the two alone, or the CPU seconds of both shared '
        "by all cores. Where the model alone keeps all cores busy, decoding can only come on top. Decoding alone reads ahead just as "
        "the tagger does; labels are encoded beforehand."
    )
    return report


def _tasks(tagger: Tagger, paths: list[Path], labels: tuple[str, ...]) -> dict[str, Callable[[], object]]:
    config, size = tagger.model.config, tagger.batch_size
    clips = [window.clip for window in _read(config, paths, size)]
    batches = [torch.stack(clips[first : first + size]) for first in range(0, len(clips), size)]

    def score() -> None:
        with torch.no_grad():
            text = encode_labels(tagger.model, labels)
            for batch in batches:
                tagger.model.score(tagger.model.encode_video(batch), text).softmax(dim=-1)

    tasks: dict[str, Callable[[], object]] = {
        "decoding": lambda: _read(config, paths, size),
        "model": score,
        "together": lambda: list(tagger.run(paths, labels)),
    }
    return {name: partial(measure, task) for name, task in tasks.items()}


def _read(config: XClipConfig, paths: list[Path], batch_size: int) -> list[ReadWindow]:
    """All clips, read with the threads that the tagger takes."""
    num_readers = max(1, min(len(paths), num_cores() // 2, 8))
    read = partial(read_windows, config=config, windows=None, limits=DEFAULT_LIMITS, num_threads=None)
    jobs = [partial(read, path) for path in paths]
    windows = []
    for number, item in read_ahead(jobs, num_readers=num_readers, max_jobs=num_readers + batch_size, max_items=2 * batch_size):
        if isinstance(item, ReadWindow):
            windows.append(item)
        elif isinstance(item, EndOfFile) and item.error:
            raise RuntimeError(f"{paths[number].name}: {item.error}") from item.error
    return windows


def _row(num_threads: int, timings: dict[str, Timing]) -> tuple[str, ...]:
    decoding, model, together = (timings[name] for name in ("decoding", "model", "together"))
    larger = max(decoding.wall_seconds, model.wall_seconds)
    least = max(larger, (decoding.cpu_seconds + model.cpu_seconds) / num_cores())
    times = (f"{timing.wall_seconds:.2f} ({timing.cpu_seconds:.2f})" for timing in (decoding, model, together))
    return (str(num_threads), *times, f"{together.wall_seconds / larger:.2f}", f"{least:.2f}")


def _make_clips(folder: Path, number: int) -> list[Path]:
    paths = [folder / f"{index}.mp4" for index in range(number)]
    for path in paths:
        write_numbered(path, num_frames=250, width=640, height=360, frames_per_second=25, keyframe_every=50)
    return paths
