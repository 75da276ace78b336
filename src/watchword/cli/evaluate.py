"""``watchword evaluate``: how often a model is right, on an annotated list of videos or on the playground."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from ..launched import is_first
from .benchmarks import evaluate_task, is_task
from .data import WhichPart
from .notes import note, print_table, progress, warnings_as_notes, write_beside, writing
from .running import ALL_DONE, SOME_FAILED, Precision

if TYPE_CHECKING:
    from ..tasks.protocols import ListedVideos
    from ..tasks.results import ClassificationResult
    from ..xclip import XClip

__all__ = ["evaluate"]

_SHOWN = 10  # classes in the table


class TaskUse(StrEnum):
    auto = "auto"
    sound = "sound"
    frames = "frames"
    subtitles = "subtitles"
    both = "both"


def evaluate(
    context: typer.Context,
    model: str = typer.Argument(
        ..., metavar="MODEL|TASK", help="Weights, as for `watchword tag --model`; or with --data the name of a task."
    ),
    annotations: Path | None = typer.Argument(
        None, help="An annotation list, a folder of class folders, or of split files; without it the playground's test is run."
    ),
    root: Path | None = typer.Option(None, "--root", help="Folder that paths are relative to [default: the list's own]."),
    classes: str | None = typer.Option(
        None,
        "--classes",
        help="Class list: kinetics400, ..., or a file [default: the model's own if the videos show those, else the list's].",
    ),
    protocol: str | None = typer.Option(
        None, "--protocol", help="kinetics400, kinetics600, kinetics600_zero_shot, hmdb51, ucf101 (or -raw): its classes, splits and draws."
    ),
    split: int | None = typer.Option(
        None, "--split", min=1, max=3, help="Split, where ANNOTATIONS is a folder of split files [default: with --protocol all three]."
    ),
    draw: int | None = typer.Option(None, "--draw", min=1, max=3, help="Draw of classes, of kinetics600_zero_shot [default: all three]."),
    part: WhichPart = typer.Option(WhichPart.test, "--part", help="Part of the split."),
    subset: bool = typer.Option(False, "--subset", help="The videos show only some of the classes."),
    views: str = typer.Option("1x1", "--views", help="CLIPSxCROPS of each video: 1x1, or 4x3 as in the paper's supervised results."),
    random_clips: int | None = typer.Option(
        None, "--random-clips", metavar="SEED", min=0, help="Draw the clips at random, as the released test did."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Folder for results.json and, of a list, videos.csv and confusion.png."),
    device: str = typer.Option("auto", "--device", help="auto, cpu, cuda, ..."),
    precision: Precision = typer.Option(Precision.float32, "--precision"),
    clips: Path = typer.Option(
        Path("runs/evaluation-clips"), "--clips", help="Playground: folder of the clips; those missing are rendered."
    ),
    num_clips: int = typer.Option(464, "--num-clips", min=1, help="Playground: how many."),
    seed: int = typer.Option(1000, "--seed", min=0, help="Playground: other seeds give other clips."),
    data: Path | None = typer.Option(None, "--data", help="Task: folder of its data set, files as its owners publish them."),
    weights: str | None = typer.Option(None, "--model", "-m", help="Task: weights; `xclip:NAME` for an image-text model, the baseline."),
    use: TaskUse = typer.Option(TaskUse.auto, "--use", help="Task: what its answers rest on [default: as its protocol says]."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Task: one of its settings, such as split=test. Repeatable."),
    limit: int | None = typer.Option(None, "--limit", min=1, help="Task: only so many items, the first."),
    as_json: bool = typer.Option(False, "--json", help="JSON in place of the table."),
) -> None:
    """Measure a model on annotated videos: top-1, top-5, the mean of the classes, and which class is taken for which.

    watchword evaluate TASK --data DIR --model MODEL measures it on a benchmark: star, epic_kitchens, lsmdc, msrvtt_qa, vcr, tvqa,
    kinetics600_sound, or a protocol such as kinetics400. --out gets results.json, items.csv, and the leaderboard's file.

    Every video counts once. Those that cannot be read are named and, of an annotation list, counted apart; in a task they count as wrong.
    Exit codes: 0 all read, 1 some not, 2 nothing usable.
    Over several splits or draws the mean and deviation are given, and --out gets a folder for each of them. Under torchrun the processes
    share the videos.

    Without ANNOTATIONS: on clips of the playground's combinations that training never showed, among all its phrases.
    """
    if data is not None or weights is not None:
        if data is None or weights is None or annotations is not None:
            raise InputError("a task is measured by: watchword evaluate TASK --data DIR --model MODEL")
        if is_task(model):
            given = {"--protocol": protocol, "--classes": classes, "--root": root, "--split": split, "--draw": draw}
            if unused := [name for name, value in given.items() if value is not None]:
                raise InputError(f"{unused[0]} is for annotation lists: a task is changed by --set, such as --set split=test")
            common: dict[str, Any] = {"device": device, "precision": precision.value, "use": use.value, "limit": limit}
            evaluate_task(model, data, weights, _made(context, weights), settings=settings, out=out, as_json=as_json, **common)
            return
        model, annotations, protocol = weights, data, model  # one of X-CLIP's protocols
    if annotations is None:
        _playground(context, model, clips, num_clips, seed, device, as_json, out)
        return
    with warnings_as_notes():
        from ..devices import find_device
        from ..report.confusion import confusion
        from ..tasks.protocols import listed_videos
        from ..tasks.results import averaged
        from ..training.parallel import joined
        from ..xclip.views import Views

        chosen = Views.parse(views, random_seed=random_clips)
        where: dict[str, Any] = {"protocol": protocol, "root": root, "classes": classes, "split": split, "draw": draw, "part": part.value}
        results = []
        with joined(str(find_device(device))) as own_device:
            loaded = _load(model, own_device)
            for listed in listed_videos(annotations, loaded.config, **where):
                num_classes = len(listed.class_names)
                note(f"{listed.protocol}: {len(listed.videos)} videos among {num_classes} classes ({listed.source}); views {chosen}")
                results.append(_measured(loaded, listed, views=chosen, subset=subset, precision=precision.value))
    if not is_first():
        return
    failed = {video.path: video for result in results for video in result.failed}
    for video in failed.values():
        note(f"failed: {' '.join(video.error.split())}")
    made = _made(context, model)
    numbers = results[0].as_dict() if len(results) == 1 else averaged(str(protocol), results)
    if as_json:
        print(json.dumps({**made, **numbers}, indent=None if out is None else 1))
    else:
        _print(results)
    if out is not None:
        _write_numbers(out, {**made, **numbers})
        for result in results:
            folder = out if len(results) == 1 else out / result.protocol.partition("/")[2].replace("/", "-")
            _write_numbers(folder, {**made, **result.as_dict()})
            write_beside(folder / "videos.csv", result.as_csv().encode("utf-8", "surrogateescape"))
            write_beside(folder / "confusion.png", confusion(result))
        note(f"wrote results.json, videos.csv and confusion.png into {out}" + (", a folder for each" if len(results) > 1 else ""))
    raise typer.Exit(SOME_FAILED if failed else ALL_DONE)


def _load(model: str, device: str) -> XClip:
    from ..training.parallel import in_turn
    from ..xclip import XClip

    with in_turn():  # so that one process downloads
        return XClip.from_pretrained(model).to(device)


def _measured(weights: XClip, listed: ListedVideos, **options: Any) -> ClassificationResult:
    with progress(len(listed.videos), "evaluating") as advance:
        return listed.evaluate(weights, on_progress=lambda done: advance(done, 0.0), **options)


def _write_numbers(folder: Path, numbers: dict[str, Any]) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_beside(folder / "results.json", f"{json.dumps(numbers, indent=1)}\n".encode())


def _print(results: list[ClassificationResult]) -> None:
    from ..tasks.results import spread

    if len(results) == 1:
        _print_one(results[0])
        return
    for result in results:
        print(f"{result.protocol}: {len(result.read)} videos among {len(result.class_names)} classes, top-1 {result.top1:.2f}")
    print(f"mean ± deviation of {len(results)}, percent right:")
    for name, over in spread(results).items():
        print(f"  {name.replace('_', ' '):14} {over}")


def _print_one(result: ClassificationResult) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..report.text import printable

    unread = f", {len(result.failed)} could not be read" if result.failed else ""
    print(f"{len(result.read)} videos{unread}; percent right among {len(result.class_names)} classes:")
    for name, value in (("top-1", result.top1), ("top-5", result.top5), ("mean per class", result.mean_per_class)):
        if value is not None:
            print(f"  {name:14} {value:6.2f}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in ("class", "videos", "right", "most taken for"):
        table.add_column(column, justify="right" if column in ("videos", "right") else "left")
    rows = sorted((row for row in result.per_class if row.top1 is not None), key=lambda row: row.top1 or 0.0)
    for row in rows[:_SHOWN]:
        taken = f"{printable(row.taken_for)} ({row.num_taken})" if row.num_taken else ""
        table.add_row(Text(printable(row.name)), str(row.num_videos), f"{row.top1:.1f}", Text(taken))
    print_table(table, width=120)
    if len(rows) > _SHOWN:
        print(f"the {_SHOWN} hardest of {len(rows)} classes; --json and --out give all")


def _made(context: typer.Context, model: str) -> dict[str, str]:
    return {"command": shlex.join(["watchword", *context.obj]), "model": model}


def _playground(
    context: typer.Context, model: str, clips: Path, num_clips: int, seed: int, device: str, as_json: bool, out: Path | None
) -> None:
    from ..devices import find_device
    from ..tasks.playground import evaluate as measure
    from ..training.parallel import joined

    note(f"playground: {num_clips} clips in {clips}, seed {seed}")
    with warnings_as_notes(), joined(str(find_device(device))) as own_device:
        result = measure(_load(model, own_device), clips, num_clips=num_clips, seed=seed)
    if not is_first():
        return
    numbers = {**_made(context, model), "seed": seed, **result.as_dict()}
    if out is not None:
        _write_numbers(out, numbers)
        note(f"wrote results.json into {out}")
    if as_json:
        print(json.dumps(numbers))
        return
    print(f"{result.num_clips} clips, {result.num_phrases} phrases; percent right:")
    for name in ("top1", "shape", "colour", "action"):
        print(f"  {name:14} {getattr(result, name):5.1f}")
    print("by action:       phrase  action")
    for name, whole in result.top1_by_action.items():
        print(f"  {name:14} {whole:7.1f} {result.action_by_action[name]:7.1f}")
