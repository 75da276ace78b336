"""``watchword tag``: which of your labels fit your videos."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError, LabelError
from .notes import check_writable, print_table, progress, warnings_as_notes
from .running import (
    ALL_DONE,
    SOME_FAILED,
    Precision,
    check_picture,
    collect,
    find_files,
    finish,
    say_model,
    until_failure,
    write_files,
)

if TYPE_CHECKING:
    from ..datasets.label_lists import LabelList
    from ..report.run import TaggingRun
    from ..xclip.tagging import Tagger

__all__ = ["DEFAULT_MODEL", "tag"]

DEFAULT_MODEL = "xclip_base_patch32.k400_8f"


class Format(StrEnum):
    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    srt = "srt"


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
    check_picture(picture)
    check_writable(report, "--report")
    from ..datasets.label_lists import LabelList, load_labels

    label_list = None if labels is None else load_labels(labels)
    files = find_files(paths)
    if format is Format.srt and len(files) > 1:
        raise InputError(f"--format srt takes one video, but there are {len(files)}: tag them one by one")
    with warnings_as_notes():
        from ..report.formats import result_row
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
            say_model(run, inputs_of(run))
            collect(run, until_failure(results, strict), result_row if format is Format.jsonl else None)
        try:
            print_results(run, format)
        finally:  # also for a reader that has seen enough
            num_unwritten = write_reports(run, picture, report)
    raise typer.Exit(finish(run, len(files), "tagged") or (SOME_FAILED if num_unwritten else ALL_DONE))


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


def inputs_of(run: TaggingRun) -> str:
    """What the weights look at, in words."""
    return f"{run.model['num_frames']} frames of {run.model['image_size']} pixels"


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

    return write_files((picture if run.done else None, draw), (report if run.results else None, lay_out))
