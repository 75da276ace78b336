"""``watchword tag``: which of your labels fit your videos."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError, LabelError
from .notes import check_writable, note, print_table, progress, warnings_as_notes, write_beside

if TYPE_CHECKING:
    from ..datasets.label_lists import LabelList
    from ..report.run import TaggingRun
    from ..xclip.tagging import ClipResult, Tagger

__all__ = ["DEFAULT_MODEL", "tag"]

DEFAULT_MODEL = "xclip_base_patch32.k400_8f"
PICTURE_SUFFIXES = (".png", ".jpg", ".svg", ".pdf")
ALL_DONE, SOME_FAILED, NOTHING_USABLE = 0, 1, 2


class Format(StrEnum):
    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    srt = "srt"


class Precision(StrEnum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def tag(
    paths: list[str] = typer.Argument(..., metavar="PATH...", help="Files, folders, patterns; - reads a list from standard input."),
    labels: str | None = typer.Option(
        None,
        "--labels",
        "-l",
        help='"a, b", a file (one a line, or CSV), kinetics400, kinetics600, hmdb51, ucf101, playground [default: those of the weights].',
    ),
    model: str = typer.Option(
        DEFAULT_MODEL, "--model", "-m", help="Name, folder, file, repository, open_clip:NAME; see: watchword models."
    ),
    window: float | None = typer.Option(None, "--window", help="Seconds of a window: gives a timeline."),
    stride: float | None = typer.Option(None, "--stride", help="Seconds from one window to the next [default: the window]."),
    top: int = typer.Option(5, "--top", min=1, help="Labels shown for each clip or window."),
    threshold: float | None = typer.Option(
        None, "--threshold", min=0, max=1, help="What score and match must both reach, or else: (none of these)."
    ),
    format: Format = typer.Option(Format.table, "--format", "-f", help="What standard output gets."),
    picture: Path | None = typer.Option(None, "--picture", help="Write thumbnails over time with the labels' scores (.png, .svg, .pdf)."),
    report: Path | None = typer.Option(None, "--report", help="Write one self-contained HTML page."),
    device: str = typer.Option("auto", "--device", help="auto, cpu, cuda, ..."),
    precision: Precision = typer.Option(Precision.float32, "--precision"),
    truncate: bool = typer.Option(False, "--truncate", help="Cut labels that are too long for the model instead of refusing them."),
    strict: bool = typer.Option(False, "--strict", help="Stop at the first file that fails."),
) -> None:
    """Tag videos with labels in your own words.

    SCORE is a label's share among your labels (they add up to 1). MATCH is its share if it stood alone against a fixed background
    of other things, so it is low if none of your labels fits. With one label the score is the match. Models that judge each label
    by itself (SigLIP) give its probability as both.

    Exit codes: 0 all done, 1 some files failed or could not be written, 2 wrong usage or nothing usable.
    """
    if stride is not None and window is None:
        raise InputError("--stride needs --window")
    check_writable(picture, "--picture")
    if picture is not None and picture.suffix.lower() not in PICTURE_SUFFIXES:
        raise InputError(f"--picture: {str(picture)!r} must end in one of {', '.join(PICTURE_SUFFIXES)}")
    check_writable(report, "--report")
    from ..datasets.label_lists import LabelList, load_labels

    label_list = None if labels is None else load_labels(labels)
    files = _find(paths)
    if format is Format.srt and len(files) > 1:
        raise InputError(f"--format srt takes one video, but there are {len(files)}: tag them one by one")
    with warnings_as_notes():
        from ..text.labels import clean_labels
        from ..xclip.labels import own_classes
        from ..xclip.registry import RELEASED
        from ..xclip.tagging import Tagger

        if label_list is not None:  # before a long download, not after
            clean_labels(label_list.labels)
        elif model in RELEASED and not RELEASED[model].bundled:
            raise LabelError(
                "give --labels: released weights name no classes of their own; --labels kinetics400 is what most were trained on"
            )
        tagger = Tagger.from_pretrained(model, device=device, precision=precision.value)
        label_list = label_list or LabelList(own_classes(tagger.model), "the classes of the weights")
        run = describe(tagger, model, label_list, top=top, threshold=threshold, window_seconds=window, stride_seconds=stride)
        with progress(len(files)) as advance:
            results = tagger.run(
                files, label_list.labels, window_seconds=window, stride_seconds=stride, truncate=truncate, on_progress=advance
            )
            say_model(run)
            collect(run, _until_failure(results, strict), format)
        try:
            print_results(run, format)
        finally:  # also for a reader that has seen enough
            num_unwritten = write_reports(run, picture, report)
    raise typer.Exit(_finish(run, len(files)) or (SOME_FAILED if num_unwritten else ALL_DONE))


def describe(
    tagger: Tagger, model: str, label_list: LabelList, *, top: int, threshold: float | None, **windows: float | None
) -> TaggingRun:
    """An empty run that says with what it is made."""
    from .. import __version__
    from ..report.run import TaggingRun
    from ..xclip.labels import match_against

    config = tagger.model.config
    facts = {
        "name": model,
        "weights": config.weights,
        "trained": config.weights != "random",
        "num_frames": config.num_frames,
        "image_size": config.image_size,
        "device": str(tagger.device),
        "precision": tagger.precision,
    }
    settings: dict[str, Any] = {
        "watchword": __version__,
        "labels_from": label_list.source,
        "labels": list(label_list.labels),
        "match_against": match_against(tagger.model),
        "threshold": threshold,
        **windows,
    }
    return TaggingRun(
        model=facts, settings=settings, results=[], top=top, threshold=threshold, windowed=bool(windows.get("window_seconds"))
    )


def say_model(run: TaggingRun) -> None:
    """Which weights answer, and whether they can."""
    model = run.model
    where = f"{model['num_frames']} frames of {model['image_size']} pixels, {model['precision']} on {model['device']}"
    note(f"model: {model['name']} ({where})")
    if not model["trained"]:
        note("note: these weights were never trained: scores mean nothing")


def collect(run: TaggingRun, results: Iterator[ClipResult], format: Format) -> None:
    """Fill the run, saying what fails; JSON lines come as soon as a file is done."""
    from ..report.formats import result_row
    from ..report.text import printable, to_json

    assert isinstance(run.results, list)
    for result in results:
        run.results.append(result)
        if result.failure:
            note(f"failed: {printable(str(result.failure.error))}")
        for warning in result.warnings:
            note(f"note: {printable(result.path)}: {printable(warning)}")
        if format is Format.jsonl:
            print(to_json(result_row(run, result)), flush=True)


def print_results(run: TaggingRun, format: Format) -> None:
    """The whole run on standard output (JSON lines are there already)."""
    from ..report import formats

    if format is Format.table and run.results:
        print_table(formats.as_table(run, encoding=sys.stdout.encoding), width=120)
    elif format is Format.json:
        print(formats.as_json(run))
    elif format is Format.csv:
        print(formats.as_csv(run), end="")
    elif format is Format.srt and run.done:
        print(formats.as_srt(run, run.done[0]), end="")


def write_reports(run: TaggingRun, picture: Path | None, report: Path | None) -> int:
    """Write the picture and the page that were asked for, if there is anything to show, and say how many could not be written."""

    def draw(path: Path) -> bytes:
        from ..report.strip import strip

        return strip(run, format=path.suffix.lstrip(".").lower())

    def lay_out(path: Path) -> bytes:
        from ..report.html import page

        return page(run).encode("utf-8", "backslashreplace")

    num_unwritten = 0
    for path, results, content in ((picture, run.done, draw), (report, run.results, lay_out)):
        if path is None or not results:
            continue
        try:
            write_beside(path, content(path))
            note(f"wrote {path}")
        except InputError as error:  # the work is done, and the other file may still be written
            num_unwritten += 1
            note(f"failed: {error}")
    return num_unwritten


def _find(paths: Sequence[str]) -> list[Path]:
    from ..datasets.folders import find_media

    given: list[str] = []
    for path in paths:
        given += _listed() if path == "-" else [path]
    if not given:
        raise InputError("the list on standard input is empty: give one path a line")
    found = find_media(given)
    if len(found.problems) == len(found.paths):
        first, *others = found.problems.values()
        raise InputError(first + (f"; and {len(others)} more without a video" if others else ""))
    for place, problem in found.problems.items():
        if place.is_dir():  # of a URL its reader says so
            note(f"note: {problem}")
    if found.num_left_out:
        note(f"note: {found.num_left_out} other files in the folders are neither video nor sound by their ending: left out")
    return found.paths


def _listed() -> list[str]:
    """Paths on standard input: one a line, or separated by zero bytes (find -print0), for names that hold a newline."""
    data = sys.stdin.buffer.read()
    parts = data.split(b"\0") if b"\0" in data else data.splitlines()
    return [os.fsdecode(part) for part in parts if part.strip()]


def _until_failure(results: Iterator[ClipResult], strict: bool) -> Iterator[ClipResult]:
    for result in results:
        yield result
        if strict and result.failure:
            note("stopped at the first failure (--strict)")
            return


def _finish(run: TaggingRun, num_files: int) -> int:
    num_done, num_failed = len(run.done), len(run.failed)
    if num_failed or num_files > 1:
        note(f"{num_done} of {num_files} tagged" + (f", {num_failed} failed" if num_failed else ""))
    if not num_failed:
        return ALL_DONE
    return SOME_FAILED if num_done else NOTHING_USABLE
