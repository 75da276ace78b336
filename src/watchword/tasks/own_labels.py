"""From class folders to a model that knows these classes: train, and measure before and after on clips that were held out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .. import processes
from ..datasets.annotations import hash_annotations
from ..files import write_text
from ..training.own_labels import Plan, choose_start, prepare
from ..training.parallel import in_turn, joined
from ..training.recipes import run
from ..xclip.model import XClip
from .classification import evaluate
from .results import ClassificationResult

__all__ = ["Learned", "learn"]


@dataclass(frozen=True, kw_only=True)
class Learned:
    """A finished run.

    Attributes:
        folder: of the run; the model is in ``folder/model`` and its class names are its default labels.
        plan: what was trained on what.
        before, after: accuracy on the held-out clips with the start's weights and with the trained ones, among the same class names.
    """

    folder: Path
    plan: Plan
    before: ClassificationResult
    after: ClassificationResult

    @property
    def model_path(self) -> Path:
        return self.folder / "model"


def learn(
    folder: str | Path,
    out: str | Path,
    *,
    model: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> Learned:
    """Train on the class folders in ``folder`` and write the run into ``out``; killed and started again, it goes on. Under torchrun the
    processes share the work, the first one writes, and all get the result.

    ``out`` gets the lists and the recipe (see ``training.own_labels.prepare``), the run, ``model/``, and of the held-out clips
    ``held_out_results.json`` (before and after) and ``held_out_videos.csv``. ``model`` are the weights to start from, see
    ``choose_start``. ``report`` is told what happens.

    Raises:
        ConfigError: the folder or ``out`` cannot be used, see ``prepare``.
        CheckpointError, DownloadError, InputError: the start cannot be loaded.
    """
    out = Path(out)
    with joined(device) as own_device:
        return _learn(Path(folder), out, model, seed, own_device, progress, report if processes.rank() == 0 else lambda line: None)


def _learn(folder: Path, out: Path, model: str | None, seed: int, device: str, progress: bool, report: Callable[[str], None]) -> Learned:
    with in_turn():
        name, start = choose_start(model, report)
    plan = processes.of_first(lambda: prepare(folder, out, model=name, start=start, seed=seed, device=device, report=report))
    training = plan.recipe.training.model_copy(update={"device": device})  # each process has its own
    plan = replace(plan, recipe=plan.recipe.model_copy(update={"training": training}))
    for problem in plan.left_out:
        report(f"left out: {problem.path}: {problem.message}")
    report(
        f"{len(plan.class_names)} classes: {len(plan.train)} clips to learn from, {len(plan.held_out)} held out; start: {name}; "
        f"settings: {out / 'recipe.yaml'}"
    )

    digest = processes.of_first(lambda: hash_annotations(out / "held_out.csv"))

    def measure(weights: XClip) -> ClassificationResult:
        return evaluate(weights.to(device), plan.held_out, plan.class_names, protocol="held-out clips", annotations_sha256=digest)

    before = measure(start)
    report(f"before: {before.top1:.0f} % of the held-out clips right (by chance {100 / len(plan.class_names):.0f} %)")
    run(plan.recipe, out, progress=progress, report=report)
    after = measure(processes.of_first(lambda: XClip.from_pretrained(out / "model")))
    report(f"after: {after.top1:.0f} %")
    if processes.rank() == 0:
        write_text(out / "held_out_videos.csv", after.as_csv())
        write_text(out / "held_out_results.json", json.dumps({**after.as_dict(), "before": before.as_dict()}, indent=1) + "\n")
    return Learned(folder=out, plan=plan, before=before, after=after)
