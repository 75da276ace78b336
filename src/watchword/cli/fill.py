"""``watchword fill``: which of your options go into the blanks of a statement about your videos."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError, LabelError
from .notes import note, print_table, progress, warnings_as_notes
from .running import ALL_DONE, SOME_FAILED, Precision, check_picture, collect, find_files, finish, say_model, until_failure, write_files

if TYPE_CHECKING:
    from ..datasets.label_lists import LabelList
    from ..datasets.question_files import QuestionRow
    from ..report.run import FillingRun
    from ..reserve.answers import Question
    from ..reserve.filling import Filler

__all__ = ["answer", "fill"]

MAX_SHOWN = 10  # statements said beside the results
Statement = Callable[[str], str]


class Format(StrEnum):
    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


class Use(StrEnum):
    auto = "auto"
    frames = "frames"
    subtitles = "subtitles"
    sound = "sound"
    both = "both"


OPTIONS = typer.Option(
    [], "--options", help='"a, b" or a file (one a line, or CSV), as labels of tag. Once for all blanks, or once for each.'
)
QUESTIONS = typer.Option(
    None,
    "--questions",
    metavar="FILE",
    help="CSV or JSON lines: question and, if wanted, path, options (a | b), at.",
)
MODEL = typer.Option(None, "--model", "-m", help="MERLOT Reserve weights: folder, file (the authors' format too) or repository.")
USE = typer.Option(
    Use.auto, "--use", help="What to look at beside the frames: auto is both subtitles and sound, as far as a file has them, averaged."
)
SUBTITLES = typer.Option(None, "--subtitles", help="Subtitle file of the one video [default: beside or inside each video].")
LANGUAGE = typer.Option(None, "--language", help="Of the subtitles, such as en.")
TIMING = typer.Option(None, "--timing", metavar="FILE", help="Correct the times of words in automatic captions: see `train timing`.")
AT = typer.Option(None, "--at", metavar="SECONDS", help="Ask about this moment [default: about each window of 40 seconds].")
WINDOWS = typer.Option(False, "--windows", help="A timeline: the answer of each window of at most 8 segments of 5 seconds.")
NO_VISION = typer.Option(False, "--no-vision", help="Answer without looking at the frames.")
TOP = typer.Option(5, "--top", min=1, help="Options shown for each blank.")
THRESHOLD = typer.Option(None, "--threshold", min=0, max=1, help="Probability an option must reach, or else: (none of these).")
FORMAT = typer.Option(Format.table, "--format", "-f", help="What standard output gets.")
PICTURE = typer.Option(None, "--picture", help="Write frames, sound, words and options over time (.png, .svg, .pdf).")
DEVICE = typer.Option("auto", "--device", help="auto, cpu, cuda, ...")
PRECISION = typer.Option(Precision.float32, "--precision")
STRICT = typer.Option(False, "--strict", help="Stop at the first video that fails.")


def fill(
    arguments: list[str] = typer.Argument(
        None, metavar="VIDEO... STATEMENT", help="Files, folders, patterns, - for a list; then a statement with <mask> for each blank."
    ),
    options: list[str] = OPTIONS,
    questions: Path | None = QUESTIONS,
    model: str | None = MODEL,
    use: Use = USE,
    subtitles: Path | None = SUBTITLES,
    language: str | None = LANGUAGE,
    timing: Path | None = TIMING,
    at: float | None = AT,
    windows: bool = WINDOWS,
    no_vision: bool = NO_VISION,
    top: int = TOP,
    threshold: float | None = THRESHOLD,
    format: Format = FORMAT,
    picture: Path | None = PICTURE,
    device: str = DEVICE,
    precision: Precision = PRECISION,
    strict: bool = STRICT,
) -> None:
    """Fill in the blanks of a statement about videos, from your options: "in this video i'll be <mask>".

    PROBABILITY is an option's share among the options of its blank (they add up to 1), COSINE how near it is to what the model would say
    there, whatever the other options are.

    Exit codes: 0 all done, 1 some videos failed or the picture could not be written, 2 wrong usage or nothing usable.
    """
    answer(**locals())


def answer(
    *,
    arguments: list[str],
    options: list[str],
    questions: Path | None,
    model: str | None,
    use: Use,
    subtitles: Path | None,
    language: str | None,
    timing: Path | None,
    at: float | None,
    windows: bool,
    no_vision: bool,
    top: int,
    threshold: float | None,
    format: Format,
    picture: Path | None,
    device: str,
    precision: Precision,
    strict: bool,
    statement: Statement | None = None,
) -> None:
    """Run ``fill``, or with ``statement``, which makes statements of questions, ``ask``."""
    check_picture(picture)
    if model is None:
        raise InputError(
            "give --model: the authors' MERLOT Reserve weights can no longer be downloaded; give the file if you have it, the folder of a "
            "model that you trained, or `playground`, which comes with Watchword and knows only the rendered films of its playground"
        )
    from ..datasets.label_lists import load_labels

    lists = [load_labels(given) for given in options]
    with warnings_as_notes():
        from ..report.fill_formats import result_row
        from ..reserve.filling import Filler
        from ..reserve.timing import TimingRegressor

        jobs = read_jobs(arguments or [], questions, lists, at, statement)
        if subtitles is not None and len(jobs) > 1:
            raise InputError(f"--subtitles takes one video, but there are {len(jobs)}: answer them one by one")
        if subtitles is not None and use in (Use.frames, Use.sound):
            raise InputError(f"--use {use.value} looks at no subtitles: leave out --subtitles")
        if subtitles is not None and not subtitles.exists():
            raise InputError(f"--subtitles: there is no file {str(subtitles)!r}")
        regressor = None if timing is None else TimingRegressor.load(timing)
        filler = Filler.from_pretrained(model, device=device, precision=precision.value, timing=regressor)
        run = describe(filler, model, lists, top=top, threshold=threshold, windows=windows, use=use.value, no_vision=no_vision, at=at)
        with progress(len(jobs), "answering") as advance:
            results = filler.run(
                jobs, use=use.value, subtitles=subtitles or True, language=language, no_vision=no_vision, on_progress=advance
            )
            say_model(run, "frames of {} x {} patches".format(*run.model["grid"]))
            collect(run, until_failure(results, strict), result_row if format is Format.jsonl else None)
        try:
            print_results(run, format)
        finally:  # also for a reader that has seen enough
            num_unwritten = write_files((picture if run.done else None, partial(draw, run)))
    num_asked = sum(len(asked) for _, asked in jobs)
    raise typer.Exit(finish(run, num_asked, "answered") or (SOME_FAILED if num_unwritten else ALL_DONE))


def read_jobs(
    arguments: list[str], questions: Path | None, lists: list[LabelList], at: float | None, statement: Statement | None
) -> list[tuple[Path, list[Question]]]:
    """Each video with the questions about it, checked before any weights are read. The statements made of questions are said."""
    from ..datasets.question_files import QuestionRow, read_questions
    from ..reserve.questions import prepare

    if at is not None and not math.isfinite(at):
        raise InputError(f"--at {at}: give a time in seconds")
    if questions is not None:
        if arguments and "<mask>" in arguments[-1].lower() and not Path(arguments[-1]).exists():
            raise InputError(f"{arguments[-1]!r} is a statement, but --questions has them: leave out one of the two")
        rows, given = read_questions(questions), arguments
    elif len(arguments) > 1:
        *given, text = arguments
        rows = [QuestionRow(text)]
    else:
        raise InputError("give a video and, behind it, what to ask about it; or --questions FILE")
    known: dict[tuple[str, ...], Any] = {}
    default = [list_.labels for list_ in lists]
    videos = find_files(given) if given else []
    jobs: dict[Path, list[Question]] = {path: [] for path in videos}
    for row in rows:
        if row.path is None and not videos:
            raise InputError(f"of which video? {row.question!r} in {str(questions)!r} has no path: give one there or videos before it")
        if row.options is None and not default:
            raise LabelError(f"give --options: what may be the answer to {row.question!r}; an answer is chosen, not made up")
        question = _question(row, default, at, statement)
        prepare(question, known=known)
        for path in videos if row.path is None else [row.path]:
            jobs.setdefault(path, []).append(question)
    if unasked := [path for path, asked in jobs.items() if not asked]:
        raise InputError(f"no question in {str(questions)!r} is about {str(unasked[0])!r}: leave out videos where each question has a path")
    if statement is not None:
        made = dict.fromkeys(question.text for asked in jobs.values() for question in asked)
        for text in list(made)[:MAX_SHOWN]:
            note(f"statement: {text}")
        if len(made) > MAX_SHOWN:
            note(f"and {len(made) - MAX_SHOWN} more, which are in the results")
    return list(jobs.items())


def _question(row: QuestionRow, default: list[tuple[str, ...]], at: float | None, statement: Statement | None) -> Question:
    from ..reserve.answers import Question

    options = row.options or (default[0] if len(default) == 1 else tuple(default))
    moment = at if row.at is None else row.at
    if statement is None:
        return Question(text=row.question, options=options, at=moment)
    return Question(text=statement(row.question), options=options, at=moment, asked=row.question)


def describe(
    filler: Filler, model: str, lists: Sequence[LabelList], *, top: int, threshold: float | None, windows: bool, **settings: Any
) -> FillingRun:
    """An empty run that says with what it is made."""
    from .. import __version__
    from ..report.run import FillingRun

    config = filler.model.config
    facts = {
        "name": model,
        "weights": config.weights,
        "trained": filler.model.is_trained,
        "grid": list(config.grid),
        "width": config.width,
        "device": str(filler.device),
        "precision": filler.precision,
    }
    asked = {
        "watchword": __version__,
        "options_from": [list_.source for list_ in lists],
        "options": [list(list_.labels) for list_ in lists],
        "threshold": threshold,
        **settings,
    }
    return FillingRun(model=facts, settings=asked, results=[], top=top, threshold=threshold, windowed=windows)


def print_results(run: FillingRun, format: Format) -> None:
    """The whole run on standard output (JSON lines are there already)."""
    from ..report import fill_formats

    if format is Format.table and run.results:
        print_table(fill_formats.as_table(run, encoding=sys.stdout.encoding), width=120)
    elif format is Format.json:
        print(fill_formats.as_json(run))
    elif format is Format.csv:
        print(fill_formats.as_csv(run), end="")


def draw(run: FillingRun, path: Path) -> bytes:
    from ..report.fill_strip import fill_strip

    return fill_strip(run, format=path.suffix.lstrip(".").lower())
