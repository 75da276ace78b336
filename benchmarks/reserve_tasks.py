"""MERLOT Reserve's benchmarks: operations for a candidate of VCR, items a second of each task, and what sharing what is encoded spares."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from watchword.datasets.videos_with_sound import SOUND_CLASSES, write_sound_classes
from watchword.playground.stand_ins import tvqa, vcr, zero_shot
from watchword.reserve import Reserve, ReserveConfig
from watchword.reserve.answers import Question
from watchword.reserve.choices import choice_scores, for_choices
from watchword.reserve.cost import count_candidate
from watchword.reserve.filling import Filler
from watchword.reserve.segments import Stretches
from watchword.tasks.msrvtt_qa import in_threes
from watchword.tasks.registry import find_task
from watchword.tasks.task import EvaluationOptions
from watchword.text.reserve import MASK

from .results import Report, Table
from .timing import interleaved, measure

__all__ = ["run"]

NUM_THREADS = 2
PAPER = {"base": 146, "large": 341}
SMALL = ReserveConfig(width=128, head_size=32, vision_layers=3, audio_layers=3, span_layers=2, joint_layers=4, grid=(8, 8))
NUM_CANDIDATES, LENGTH = 8, 48
NUM_QUESTIONS = 6


def run(*, quick: bool) -> Report:
    report = Report("MERLOT Reserve's benchmarks")
    rounds, count = (1, 4) if quick else (3, 40)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(NUM_THREADS)
    torch.manual_seed(0)
    report.tables.append(_cost())
    with tempfile.TemporaryDirectory() as folder:
        report.tables.append(_rates(Path(folder), count, rounds))
        base = replace(SMALL, weights="small") if quick else replace(ReserveConfig.named("base"), weights="base")
        report.tables.append(_sharing(Path(folder), base, rounds))
    torch.set_num_threads(threads_before)
    report.notes += [
        "Operations: two for each multiply-accumulate of the matrix products, by torch's counter; a candidate has 144 token ids. The paper "
        "does not say what it counts or at which size of frames.",
        f"Items a second: `evaluate` from files to numbers on the playground's stand-ins, {NUM_THREADS} threads, the sizes of the "
        f"playground's Reserve ({SMALL.width} wide, {SMALL.joint_layers} joint layers), random weights; reading and decoding included.",
        f"Sharing: {'tiny sizes' if quick else 'Base'}, random weights: {NUM_CANDIDATES} candidates of {LENGTH} tokens about one picture, "
        f"and {NUM_QUESTIONS} questions about one clip with sound, decoding included; everything encoded once, beside once for each.",
    ]
    return report


def _cost() -> Table:
    rows = []
    for size, paper in PAPER.items():
        for grid in ((12, 20), (18, 32)):
            cost = count_candidate(replace(ReserveConfig.named(size), grid=grid))
            numbers = (cost.vision, cost.joint, cost.alone, cost.sharing(NUM_CANDIDATES))
            rows.append((size, f"{grid[0] * 16} x {grid[1] * 16}", *(f"{number:.0f}" for number in numbers), str(paper)))
    columns = ("size", "frame", "picture", "sequence", "both", "with an eighth of a picture", "the paper's")
    return Table("A candidate of VCR, GFLOP", columns, rows)


def _rates(folder: Path, count: int, rounds: int) -> Table:
    model = Reserve(replace(SMALL, weights="small"))
    model.save_pretrained(folder / "small")
    for_choices(model, "choices").save_pretrained(folder / "choices")
    tvqa_model = Reserve(replace(SMALL, parts=("audio_encoder", "proj"), weights="tvqa"))
    tvqa_model.save_pretrained(folder / "tvqa-model")
    writers: dict[str, tuple[Callable[[Path], Any], str]] = {
        "vcr": (lambda path: vcr.write_vcr(path, 1, num_val=count, num_test=1), "choices"),
        "tvqa": (lambda path: tvqa.write_tvqa(path, count), "tvqa-model"),
        "star": (lambda path: zero_shot.write_star(path, count), "small"),
        "epic_kitchens": (lambda path: zero_shot.write_epic_kitchens(path, -(-count // 4)), "small"),
        "lsmdc": (lambda path: zero_shot.write_lsmdc(path, count), "small"),
        "msrvtt_qa": (lambda path: zero_shot.write_msrvtt_qa(path, count), "small"),
    }
    writers["kinetics600_sound"] = (lambda path: _labelled_videos(path, count), "small")
    settings = {"kinetics600_sound": {"classes": str(folder / "kinetics600_sound" / "classes.txt")}}
    tasks, items = {}, {}
    for name, (write, weights) in writers.items():
        write(folder / name)
        options = EvaluationOptions(device="cpu", settings=settings.get(name, {}))
        work = partial(find_task(name).evaluate, folder / name, str(folder / weights), options)
        items[name] = len(work().rows)
        tasks[name] = partial(measure, work)
    timings = interleaved(tasks, rounds=rounds, warm_up=False)
    rows = [(name, str(items[name]), f"{items[name] / timing.wall_seconds:.1f}") for name, timing in timings.items()]
    return Table("Items a second", ("task", "items", "a second"), rows)


def _labelled_videos(folder: Path, count: int) -> None:
    """A validation list of clips in four classes that only sound tells, and the list of these."""
    videos = write_sound_classes(count, size=64, seed=0, cache_folder=folder)
    (folder / "classes.txt").write_text("\n".join(SOUND_CLASSES))
    lines = [f"{path.relative_to(folder)} {SOUND_CLASSES.index(label)}\n" for path, label in videos]
    (folder / "val.txt").write_text("".join(lines))


@torch.no_grad()
def _sharing(folder: Path, config: ReserveConfig, rounds: int) -> Table:
    model = Reserve(config).eval()
    choices = for_choices(model, "choices").eval()
    picture = torch.rand(1, config.num_patches, config.patch_features)
    tokens = torch.randint(10, config.vocab_size, (1, 2, NUM_CANDIDATES // 2, LENGTH))
    tokens[..., -1] = MASK
    clip = next((folder / "msrvtt_qa").rglob("*.mp4"))
    filler = Filler(model)
    questions = [Question(text=f"<mask> is number {n}", options=("a star", "a moon"), segment=-1) for n in range(NUM_QUESTIONS)]
    stretches = Stretches(clip, in_threes)

    def ask(jobs: list[Any]) -> None:
        assert all(result.failure is None for result in filler.run(jobs, use="sound", subtitles=False, in_place=True))

    def one_by_one() -> None:
        for part in tokens.flatten(0, 2):
            choice_scores(choices, picture, part[None, None, None])

    works: dict[str, Callable[[], object]] = {
        "candidates, shared": lambda: choice_scores(choices, picture, tokens),
        "candidates, each": one_by_one,
        "questions, shared": lambda: ask([(stretches, questions)]),
        "questions, each": lambda: ask([(stretches, [question]) for question in questions]),
    }
    timings = interleaved({name: partial(measure, work) for name, work in works.items()}, rounds=rounds)
    rows = []
    for what in ("candidates", "questions"):
        once, each = (timings[f"{what}, {how}"].wall_seconds for how in ("shared", "each"))
        rows.append((what, f"{once:.2f}", f"{each:.2f}", f"{each / once:.1f}"))
    return Table("Encoded once for all, seconds", ("about one video", "once for all", "for each", "times as long"), rows)
