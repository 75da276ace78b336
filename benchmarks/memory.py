"""Peak memory of a long file against a short one: tagged by windows, and asked about. Each time in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .results import Goal, Report, Table
from .videos import write_numbered, write_repeated

__all__ = ["run"]

PIECE_SECONDS = 10
FRAMES_PER_SECOND = 25
WINDOW_SECONDS = 10.0
MOST_EXTRA_MEGABYTES = 200


def run(*, quick: bool) -> Report:
    minutes = (1, 2) if quick else (2, 120)
    report = Report("Peak memory of long files")
    rows = []
    with TemporaryDirectory() as folder:
        piece = Path(folder, "piece.mp4")
        write_numbered(
            piece,
            num_frames=PIECE_SECONDS * FRAMES_PER_SECOND,
            width=320,
            height=180,
            frames_per_second=FRAMES_PER_SECOND,
            keyframe_every=50,
            preset="ultrafast",
            sound=True,
        )
        paths = {length: Path(folder, f"{length}.mp4") for length in minutes}
        for length, path in paths.items():
            write_repeated(piece, path, length * 60 // PIECE_SECONDS)
        for job in JOBS:
            peaks = []
            for length, path in paths.items():
                command = [sys.executable, "-m", "benchmarks.memory", job, str(path)]
                words = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout.split()
                num_windows, seconds, megabytes = int(words[0]), float(words[1]), float(words[2])
                peaks.append(megabytes)
                size = f"{path.stat().st_size / 1e6:.0f}"
                rows.append((f"{job}, {length} min", str(num_windows), size, f"{seconds:.1f}", f"{megabytes:.0f}"))
            extra = peaks[1] - peaks[0]
            text = f"{job}: peak memory of a {minutes[1]}-minute file within {MOST_EXTRA_MEGABYTES} MB of a {minutes[0]}-minute one"
            report.goals.append(Goal(text, f"{extra:+.0f} MB", extra <= MOST_EXTRA_MEGABYTES))
    report.tables.append(Table("One file", ("what", "windows", "file, MB", "time, s", "peak, MB"), rows))
    report.notes.append(
        f"320x180 H.264 at {FRAMES_PER_SECOND} frames a second, a keyframe every 2 s, with sound. tag: windows of {WINDOW_SECONDS:g} s, "
        "400 labels; fill: one question of two options, frames and sound. Tiny models with random weights; peak resident memory of the "
        "whole process, torch included."
    )
    return report


def _worker(job: str, path: str) -> None:
    """Do the job on one file and print the number of windows, the seconds, and this process's peak memory in megabytes."""
    import torch

    from .timing import measure

    torch.set_num_threads(1)
    task = JOBS[job](path)
    windows: list[object] = []
    sample = measure(lambda: windows.extend(task()))
    print(len(windows), sample.wall_seconds, _peak_megabytes())


def _tagging(path: str) -> Callable[[], list[Any]]:
    from watchword.datasets.label_lists import named_labels
    from watchword.xclip import Preprocessing, XClip, XClipConfig
    from watchword.xclip.tagging import Tagger

    config = XClipConfig(
        image_size=64,
        patch_size=16,
        vision_width=64,
        vision_layers=1,
        embed_dim=64,
        text_width=64,
        text_layers=1,
        preprocessing=Preprocessing.official(64),
    )
    tagger = Tagger(XClip(config).eval())
    labels = named_labels("kinetics400").labels
    return lambda: tagger.tag(path, labels, window_seconds=WINDOW_SECONDS, top=5)


def _filling(path: str) -> Callable[[], list[Any]]:
    from watchword.reserve import Reserve, ReserveConfig

    layers = dict.fromkeys(("vision_layers", "audio_layers", "span_layers", "joint_layers"), 1)
    model = Reserve(ReserveConfig(width=64, **layers)).eval()
    return lambda: list(model.fill(path, "numbers are <mask>", ["shown", "sung"]).spans)


JOBS: dict[str, Callable[[str], Callable[[], list[Any]]]] = {"tag": _tagging, "fill": _filling}


def _peak_megabytes() -> float:
    # Not getrusage: on Linux its peak starts at that of the process which started this one.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError("this system does not tell a process its peak memory")
    return int(found[1]) / 1e3


if __name__ == "__main__":
    _worker(*sys.argv[1:])
