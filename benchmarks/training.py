"""Training: steps against the same loop around ``transformers.XCLIPModel``, data loading, waiting for data, and memory of a step."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from watchword.datasets import batches
from watchword.datasets.label_lists import named_labels
from watchword.datasets.videos import VideoClips, read_annotations
from watchword.playground import write_folder
from watchword.training import OptimizerSettings, TrainingSettings, train
from watchword.training.measures import peak_memory_megabytes
from watchword.xclip import Preprocessing, XClip, XClipConfig, to_tensor
from watchword.xclip.augment import Augmentation
from watchword.xclip.recipe import SupervisedProgram

from .results import Goal, Report, Table, has_bfloat16, num_cores
from .timing import interleaved, measure
from .xclip_speed import as_huggingface

__all__ = ["run"]

TINY = XClipConfig(  # as in the playground's recipes
    image_size=64,
    patch_size=8,
    vision_width=128,
    vision_layers=4,
    embed_dim=128,
    text_width=64,
    text_layers=2,
    preprocessing=Preprocessing.official(64),
)
MOST_WAITING = 0.05
OPTIMIZER = OptimizerSettings(learning_rate=8e-6)


def run(*, quick: bool) -> Report:
    report = Report("Training X-CLIP, 8 frames")
    threads_before = torch.get_num_threads()
    torch.set_num_threads(1 if quick else num_cores())
    try:
        for name in ("tiny",) if quick else ("tiny", "B/32"):
            _compare_steps(report, name, quick=quick)
        with TemporaryDirectory() as folder:
            write_folder(folder, 4 if quick else 64, duration_seconds=0.5 if quick else 4.0)
            _load_data(report, Path(folder), quick=quick)
            _wait_for_data(report, Path(folder), quick=quick)
    finally:
        torch.set_num_threads(threads_before)
    _measure_memory(report, quick=quick)
    report.notes += [
        "Steps: loss, gradients, AdamW; random weights, the same in both, and the same frames. With text frozen ours encodes the labels "
        "once; the peer's forward pass encodes them (padded to the longest) at every step.",
        "Waiting: of the training loop's own runs, text frozen, the first two steps left out; the model's threads and the worker share "
        f"{num_cores()} cores.",
        "Memory: most resident memory of the whole process, torch, weights and AdamW's state included, of two steps. The paper's 22 GB and "
        "6 GB are of text trained and frozen on its GPUs.",
    ]
    return report


def _config(name: str) -> XClipConfig:
    return TINY if name == "tiny" else XClipConfig.named("base_patch32")


# Steps against the peer


def _compare_steps(report: Report, name: str, *, quick: bool) -> None:
    """Rows of clips a second for frozen and trained text, in float32 and bfloat16."""
    num_clips, num_labels = (2, 8) if quick else (8, 400)
    rows = []
    for trained in ("video", "all"):
        for precision in ("float32", "bfloat16") if has_bfloat16() and not quick else ("float32",):
            torch.manual_seed(0)
            model = XClip(_config(name))
            frames = torch.randint(256, (num_clips, 8, model.config.image_size, model.config.image_size, 3), dtype=torch.uint8)
            batch = {"frames": frames, "label": torch.arange(num_clips) % num_labels}
            program = _program(model, None, named_labels("kinetics400").labels[:num_labels], trained)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peer = as_huggingface(model)
            cast = partial(torch.autocast, "cpu", torch.bfloat16) if precision == "bfloat16" else nullcontext
            ours, theirs = _our_step(program, batch, cast), _peer_step(peer, program, batch, trained, cast)
            first = [float(step()) for step in (ours, theirs)]  # the same weights: the same loss, before they part
            tasks = {"ours": partial(measure, ours), "theirs": partial(measure, theirs)}
            timings = interleaved(tasks, rounds=1 if quick else 3, warm_up=False)
            speeds = [num_clips / timings[which].wall_seconds for which in tasks]
            cells = (*(f"{speed:.2f}" for speed in speeds), f"{speeds[0] / speeds[1]:.2f}", f"{abs(first[0] - first[1]):.0e}")
            rows.append(("trained" if trained == "all" else "frozen", precision, *cells))
    columns = ("text", "precision", "watchword, clips/s", "transformers, clips/s", "times as fast", "difference of the first losses")
    report.tables.append(
        Table(f"{name}: steps of {num_clips} clips, {num_labels} labels, {torch.get_num_threads()} threads", columns, rows)
    )


def _program(model: XClip, dataset: Any, class_names: tuple[str, ...], trained: Any, *, held_out: Any = None) -> SupervisedProgram:
    options: dict[str, Any] = dict(class_names=class_names, trained=trained, label_smoothing=0.1, mixing=None, held_out=held_out)
    return SupervisedProgram(model, dataset, **options)


def _our_step(program: SupervisedProgram, batch: dict[str, Tensor], cast: Callable[[], Any]) -> Callable[[], Tensor]:
    optimizer = torch.optim.AdamW(program.parameter_groups(OPTIMIZER), foreach=True)
    program.model.train()

    def step() -> Tensor:
        with cast():
            loss, _ = program.loss(batch)
        return _descend(loss, optimizer)

    return step


def _peer_step(
    peer: torch.nn.Module, program: SupervisedProgram, batch: dict[str, Tensor], trained: str, cast: Callable[[], Any]
) -> Callable[[], Tensor]:
    for name, parameter in peer.named_parameters():
        parameter.requires_grad_(trained == "all" or not name.startswith(("text_", "logit_scale")))
    learning = [parameter for parameter in peer.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=OPTIMIZER.learning_rate, weight_decay=OPTIMIZER.weight_decay, foreach=True)
    peer.train()
    ids = program.head.token_ids[:, : int(program.head.token_ids.argmax(dim=-1).max()) + 1]
    mask = (torch.arange(ids.shape[1]) <= ids.argmax(dim=-1, keepdim=True)).long()

    def step() -> Tensor:
        video = to_tensor(batch["frames"], program.model.config.preprocessing)
        with cast():
            logits = peer(input_ids=ids, attention_mask=mask, pixel_values=video).logits_per_video
        return _descend(F.cross_entropy(logits.float(), batch["label"], label_smoothing=program.label_smoothing), optimizer)

    return step


def _descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> Tensor:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


# Data


def _clips(folder: Path, config: XClipConfig, *, augment: bool) -> VideoClips:
    annotations = read_annotations(folder / "annotations.csv")
    names = sorted({label for _, label in annotations})
    return VideoClips(annotations, names, config, training=True, seed=0, augment=Augmentation() if augment else None)


def _load_data(report: Report, folder: Path, *, quick: bool) -> None:
    rows = []
    for augment in (False, True):
        data = _clips(folder, _config("B/32"), augment=augment)
        for num_workers in (1,) if quick else (0, 1, 2):
            rows.append(("augmented" if augment else "plain", str(num_workers), f"{_clips_a_second(data, num_workers, quick=quick):.1f}"))
    report.tables.append(Table("Data loading alone: 256x256 H.264 to 8 frames of 224x224", ("clips", "workers", "clips/s"), rows))


def _clips_a_second(data: VideoClips, num_workers: int, *, quick: bool) -> float:
    """Clips a second from the second batch on: the first waits for the workers to start."""
    size, num_batches = (2, 4) if quick else (8, 24)
    positions = list(batches(len(data), size, seed=0, start_step=0, num_steps=num_batches))
    loader = DataLoader(data, batch_sampler=positions, num_workers=num_workers, multiprocessing_context="spawn" if num_workers else None)
    loaded: Iterator[Any] = iter(loader)
    next(loaded)
    began = perf_counter()
    count = sum(len(batch["label"]) for batch in loaded)
    return count / (perf_counter() - began)


def _wait_for_data(report: Report, folder: Path, *, quick: bool) -> None:
    """Runs of the training loop itself, which tells what share of the time it waited."""
    rows = []
    for name, num_steps in (("tiny", 4),) if quick else (("tiny", 120), ("B/32", 12)):
        for augment in (False,) if quick else (False, True):
            torch.manual_seed(0)
            data = _clips(folder, _config(name), augment=augment)
            names = tuple(sorted({label for _, label in data.annotations}))
            held_out = VideoClips(data.annotations[:1], names, data.config, training=False, seed=0)  # the last evaluation costs nothing
            program = _program(XClip(data.config), data, names, "video", held_out={"held_out": held_out})
            settings = TrainingSettings(
                num_steps=num_steps,
                batch_size=2 if quick else 8,
                log_every=1,
                checkpoint_every=num_steps,
                optimizer=OPTIMIZER,
                num_workers=1,
            )
            with TemporaryDirectory() as out:
                train(program, settings, out, progress=False)
                lines = [json.loads(line) for line in Path(out, "metrics.jsonl").read_text().splitlines()]
            shares = [line["data_wait_share"] for line in lines if "data_wait_share" in line][2:]  # the first ones wait for the start
            share = sum(shares) / len(shares)
            rows.append((name, "augmented" if augment else "plain", f"{share:.1%}"))
            report.goals.append(
                Goal(f"waits for data under {MOST_WAITING:.0%}: {' '.join(rows[-1][:2])}", f"{share:.1%}", share < MOST_WAITING)
            )
    report.tables.append(Table("Share of a step that waits for data, one worker", ("model", "clips", "waiting"), rows))


# Memory


def _measure_memory(report: Report, *, quick: bool) -> None:
    """One step of B/32 in a process of its own for each row."""
    name, num_clips, num_labels = ("tiny", 2, 8) if quick else ("B/32", 8, 400)
    rows = []
    for trained in ("video", "all"):
        for checkpointed in (False, True):
            words = [name, trained, str(int(checkpointed)), str(num_clips), str(num_labels)]
            command = [sys.executable, "-m", "benchmarks.training", *words]
            told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout.split()
            text = "trained" if trained == "all" else "frozen"
            rows.append((text, "checkpointed" if checkpointed else "kept", f"{float(told[0]):.0f}", f"{float(told[1]):.0f}"))
    columns = ("text", "activations", "before the step, MB", "peak, MB")
    report.tables.append(Table(f"Memory of a step: {name}, {num_clips} clips, {num_labels} labels, float32", columns, rows))


def _worker(name: str, trained: str, checkpointed: str, num_clips: str, num_labels: str) -> None:
    """Two steps; prints the peak of this process's memory before and after, in megabytes."""
    torch.set_num_threads(num_cores())
    torch.manual_seed(0)
    model = XClip(_config(name))
    if checkpointed == "1":
        model.checkpoint_activations()
    program = _program(model, None, named_labels("kinetics400").labels[: int(num_labels)], trained)
    size = model.config.image_size
    frames = torch.randint(256, (int(num_clips), 8, size, size, 3), dtype=torch.uint8)
    step = _our_step(program, {"frames": frames, "label": torch.arange(int(num_clips))}, nullcontext)
    before = peak_memory_megabytes("cpu")
    step(), step()
    print(before, peak_memory_megabytes("cpu"))


if __name__ == "__main__":
    _worker(*sys.argv[1:])
