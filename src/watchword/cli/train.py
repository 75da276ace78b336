"""``watchword train``: run a recipe, or learn the classes of a folder, or go on with a run that was stopped."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import typer

from ..errors import InputError
from ..launched import is_first
from .notes import check_folder, note, warnings_as_notes, write_beside
from .values import parse_settings

__all__ = ["train"]

COMMANDS = {
    "image_text": "tag CLIP --labels ...",
    "supervised": "tag CLIP --labels ...",
    "pretraining": "fill VIDEO '... <mask> ...' --options ...",
}


def train(
    recipe: Path | None = typer.Argument(None, help="A recipe, such as recipes/playground_xclip.yaml; or the word `timing`."),
    words: Path | None = typer.Argument(None, help="After `timing`: a CSV of words as captioned and as heard."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder of the run; a run that was stopped there goes on."),
    labels_from: Path | None = typer.Option(
        None, "--labels-from", metavar="FOLDER", help="In place of a recipe: learn the classes of FOLDER, a folder of clips for each."
    ),
    model: str | None = typer.Option(
        None, "--model", "-m", help="With --labels-from: weights to start from [default: those of `tag` if downloaded, else playground]."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="With --labels-from: which clips are held out, and the order of the others."),
    changes: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as training.seed=1. Repeatable."
    ),
    tiny: bool = typer.Option(False, "--tiny", help="Run the recipe small, on the playground, in a minute: to see that it works."),
    device: str = typer.Option("auto", "--device", help="cpu, cuda, cuda:1, mps; auto takes a GPU if there is one."),
    views: str | None = typer.Option(
        None, "--views", metavar="CLIPSx1", help="Evaluate the finished run in OUT again, each clip in so many views, in place of training."
    ),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="No progress bar."),
) -> None:
    """Train a model as a recipe says, or on clips of your own classes with settings chosen for them.

    The finished model is in OUT/model, the curves in OUT/metrics.jsonl and OUT/tensorboard; --labels-from also writes OUT/report.html and
    the recipe. Killed at any moment, the same command goes on from the last saved step and ends with the same weights. Under torchrun the
    processes share each batch. `train timing WORDS` learns how captions mistime words, into OUT/timing.json.
    """
    if (recipe is None) == (labels_from is None):
        raise InputError("train takes a recipe or --labels-from FOLDER" + (", not both" if recipe else ""))
    check_folder(out)
    if words is not None:
        if str(recipe) != "timing":
            raise InputError(f"train takes one recipe, but was also given {str(words)!r}")
        _learn_timing(words, out, seed=seed)
        return
    if labels_from is not None:
        if views is not None:
            raise InputError("--views goes with a recipe; for videos: watchword evaluate MODEL LIST --views")
        if changes:
            raise InputError(f"--set changes a recipe: --labels-from writes one, {out / 'recipe.yaml'}, which can be changed and run")
        _learn(labels_from, out, model=model, seed=seed, device=device, progress=not quiet)
        return
    if model is not None or seed:
        raise InputError("--model and --seed go with --labels-from: change a recipe with --set start=... and --set training.seed=...")
    with warnings_as_notes():
        from ..devices import find_device
        from ..training import evaluate, load_recipe, run
        from ..xclip.views import Views

        assert recipe is not None
        chosen = load_recipe(recipe, {"training.device": str(find_device(device)), **parse_settings(changes)}, tiny=tiny)
        if views is not None:
            print(json.dumps(evaluate(chosen, out, Views.parse(views))))
            return
        results = run(chosen, out, progress=not quiet, report=note)
    if is_first():
        command = COMMANDS.get(chosen.program)
        note(f"the model is in {out / 'model'}" + (f": watchword {command} --model {shlex.quote(str(out / 'model'))}" if command else ""))
        print(json.dumps(results))


def _learn_timing(words: Path, out: Path, *, seed: int) -> None:
    from ..datasets.aligned_words import read_aligned_words
    from ..tasks.timing import learn_timing

    learned = learn_timing(read_aligned_words(words), seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    learned.regressor.save(out / "timing.json")
    note(f"wrote {out / 'timing.json'}, for --timing of fill and prepare")
    numbers = {"num_words": learned.num_words, "num_held_out": learned.num_held_out}
    print(json.dumps({**numbers, "error_seconds_before": round(learned.before, 4), "error_seconds": round(learned.after, 4)}))


def _learn(folder: Path, out: Path, *, model: str | None, seed: int, device: str, progress: bool) -> None:
    with warnings_as_notes():
        from ..devices import find_device
        from ..report.own_labels import page
        from ..tasks.own_labels import learn

        learned = learn(folder, out, model=model, seed=seed, device=str(find_device(device)), progress=progress, report=note)
        if not is_first():
            return
        write_beside(out / "report.html", page(learned).encode("utf-8", "backslashreplace"))
    note(f"the report is {out / 'report.html'}; the model: watchword tag CLIP --model {shlex.quote(str(learned.model_path))}")
    before, after = learned.before, learned.after
    print(
        json.dumps({"top1_before": before.top1, "top1": after.top1, "num_held_out": len(after.read), "num_classes": len(after.class_names)})
    )
