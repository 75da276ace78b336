"""Examples of pretraining: how many a second one core makes of records, beside how many the model trains on."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import default_collate

from watchword.datasets.record_folder import FolderSettings, prepare
from watchword.datasets.records import RecordExamples
from watchword.playground import write_films
from watchword.reserve.config import ReserveConfig
from watchword.reserve.cost import count_pretraining
from watchword.reserve.examples import Pictures
from watchword.reserve.masking import Masking
from watchword.reserve.preparing import VideoSettings
from watchword.reserve.pretraining import PretrainingConfig
from watchword.reserve.shards import RecordShards
from watchword.training.optimizers import Optimizers
from watchword.training.recipes import load_recipe
from watchword.training.reserve_programs import pretraining

from .pretraining_plan import ACCELERATORS, BATCH, TERAFLOPS
from .results import Goal, Report, Table
from .timing import interleaved, measure

__all__ = ["run"]

RECIPE = Path(__file__).parents[1] / "recipes" / "playground_reserve.yaml"
FRAME_SIZE = 288


def run(*, quick: bool) -> Report:
    report = Report("Examples of pretraining, one core")
    rounds, count = (1, 4) if quick else (5, 32)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        small, learnt = _small(Path(folder), count, rounds)
        published = _published(Path(folder), 2 if quick else 16, rounds)
    torch.set_num_threads(threads_before)
    cost = count_pretraining(ReserveConfig.named("base"))
    rows = [("the playground's, 8 segments of 64 x 64", f"{small:.0f}", f"{learnt:.1f}", "")]
    needed = []
    for accelerators in ACCELERATORS:
        seconds = cost.total * 1e9 * 2 * 4 * BATCH / accelerators / (TERAFLOPS * 1e12)
        needed.append(f"{BATCH / seconds / published / accelerators:.0f} cores an accelerator")
    rows.append((f"as published, 16 segments of {FRAME_SIZE} x {FRAME_SIZE}", f"{published:.1f}", "", needed[0]))
    report.tables.append(Table("Examples a second", ("records", "made", "trained on", f"made for a batch of {BATCH}"), rows))
    report.goals.append(Goal("the small model does not wait for its examples", f"{small / learnt:.1f} times as many", small >= learnt))
    report.notes += [
        "Made: read, checked, decoded, cut and turned, sound cropped, both masked views, donation, packing. Trained on: loss, gradients "
        "and a step of the bundled model's recipe.",
        f"Cores to make a batch of {BATCH} as fast as Base trains on it, by the plan's assumption of {TERAFLOPS} Tflop/s an accelerator: "
        "a plan.",
    ]
    return report


def _small(folder: Path, count: int, rounds: int) -> tuple[float, float]:
    recipe: Any = load_recipe(RECIPE, {"data.num_films": 2 + count // 3, "data.num_held_out": 0})
    program, _ = pretraining(recipe, folder)
    settings = recipe.training.optimizer
    optimizer = Optimizers(program.parameter_groups(settings), settings)
    program.model.train()
    batch = program.prepare(default_collate([program.dataset[0, number % len(program.dataset)] for number in range(count)]))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = program.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    making = partial(_make, program.dataset, count)
    timings = interleaved({"made": partial(measure, making), "trained": partial(measure, step)}, rounds=rounds)
    return count / timings["made"].cpu_seconds, count / timings["trained"].cpu_seconds


def _published(folder: Path, count: int, rounds: int) -> float:
    """Films written, prepared as a user's videos are, and read back."""
    write_films(folder / "films", max(2, count // 2), num_scenes=24, size=FRAME_SIZE)
    settings = FolderSettings(videos=VideoSettings(min_words=0, transcript=False), validation_share=0.0)
    prepare([folder / "films"], folder / "records", settings, num_processes=0)
    examples = RecordExamples(
        RecordShards(folder / "records"),
        grid=ReserveConfig.named("base").grid,
        masking=Masking(web_masks=0),
        pretraining=PretrainingConfig(),
        pictures=Pictures(),
        seed=0,
    )
    return count / interleaved({"made": partial(measure, partial(_make, examples, count))}, rounds=rounds)["made"].cpu_seconds


def _make(examples: Any, count: int) -> Sequence[Any]:
    return [examples[0, number % len(examples)] for number in range(count)]
