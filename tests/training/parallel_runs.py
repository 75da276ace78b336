"""Trainings of all programs in every layout: called by test_parallel in one process, and run by torchrun in two."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from record_fixtures import as_file, record
from tiny_clips import tiny_model
from tiny_reserve import tiny_reserve
from watchword import processes
from watchword.datasets.records import RecordExamples
from watchword.errors import ConfigError
from watchword.reserve.examples import Pictures
from watchword.reserve.masking import Masking
from watchword.reserve.pretraining import PretrainingConfig
from watchword.reserve.recipe import PretrainingProgram
from watchword.training import OptimizerSettings, TrainingSettings, load_recipe, parallel, run, train
from watchword.training.optimizers import Optimizers
from watchword.training.parallel import joined
from watchword.xclip.recipe import ImageTextProgram, SupervisedProgram

NAMES = ("a cat", "a small dog", "two birds flying", "rain")
PROGRAMS = ("supervised", "image_text", "pretraining")
BEST = {"supervised": "held_out_top1", "image_text": "caption_retrieval_1", "pretraining": "held_out_sound_top1"}
PRETRAINING = PretrainingConfig(spans_per_example=6, split_probability=0.5)
SETTINGS: dict[str, Any] = {
    "num_steps": 3,
    "batch_size": 5,  # uneven shares
    "checkpoint_every": 1,
    "evaluate_every": 2,  # a forward pass of another kind in the midst of training
    "log_every": 1,
    "optimizer": {"learning_rate": 1e-3, "eps": 1e-3, "clip_gradient_norm": 1.0},
}


class Noise:
    """Clips of noise, each with a label or with captions of two kinds."""

    captions = NAMES

    def __init__(self, num_samples: int, *, num_frames: int, seed: int) -> None:
        self.num_samples, self.num_frames, self.seed = num_samples, num_frames, seed

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, position: tuple[int, int]) -> dict[str, Any]:
        draw = np.random.default_rng((self.seed, *position))
        frames = draw.integers(0, 256, (self.num_frames, 32, 32, 3), dtype=np.uint8)
        number = position[1] % len(NAMES)
        if self.num_frames == 1:
            return {"frames": frames, "captions": np.array([number, number // 2])}
        return {"frames": frames, "label": number}


def examples(num_records: int, seed: int) -> RecordExamples:
    """Records of four segments, two of each of two videos, masked anew in each epoch. No two frames are alike."""
    records = []
    for number in range(num_records):
        draw = np.random.default_rng((seed, number))
        own = record(f"record{seed}_{number}", seed=10 * number, web_text=False)
        segments = [replace(part, frame=as_file(draw.integers(0, 256, (12, 20, 3), np.uint8), "JPEG")) for part in own.segments]
        records.append(replace(own, segments=tuple(segments)))
    masking = Masking(group_segments=2, length=40, joint_length=96, text_length=96, web_masks=0)
    return RecordExamples(records, grid=(2, 4), masking=masking, pretraining=PRETRAINING, pictures=Pictures(), seed=seed)


def program(name: str) -> ImageTextProgram | SupervisedProgram | PretrainingProgram:
    if name.startswith("pretraining"):
        return PretrainingProgram(tiny_reserve(), examples(12, 12), config=PRETRAINING, held_out=examples(7, 7))
    if name == "image_text":
        data = [Noise(count, num_frames=1, seed=count) for count in (12, 7)]
        model = tiny_model(num_frames=1, message="off", mit_layers=0, prompt_layers=0, context_length=16)
        return ImageTextProgram(model, data[0], held_out=data[1])
    data = [Noise(count, num_frames=4, seed=count) for count in (12, 7)]
    options: dict[str, Any] = dict(class_names=NAMES, trained="all", label_smoothing=0.1, mixing=None)
    return SupervisedProgram(tiny_model(context_length=16), data[0], held_out={"held_out": data[1]}, **options)


def settings(name: str, layout: str) -> TrainingSettings:
    program_name = name.removesuffix("_bfloat16").removesuffix("_finetuning")
    values = {**SETTINGS, "parallel": "fsdp" if layout == "fsdp" else "ddp", "keep_best": BEST[program_name]}
    if name.endswith("_bfloat16"):
        values["optimizer"] = {"kind": "bfloat16_adam", "learning_rate": 1e-3, "eps": 1e-6, "schedule": "from_zero", "warmup_steps": 1}
    if name.endswith("_finetuning"):
        finetuning = {"kind": "bfloat16_adam", "pull_to_start": True, "correct_bias": True, "weight_decay": 0.1}
        values["optimizer"] = {**SETTINGS["optimizer"], **finetuning, "schedule": "linear"}
    if name == "supervised":
        values["accumulation"] = 2
    return TrainingSettings.model_validate(values)


def trained(name: str, layout: str, folder: Path, *, state_from: Path | None = None) -> dict[str, Any]:
    """Train in ``folder``, from the state after the first step of another run if one is given."""
    if state_from is not None and processes.rank() == 0:
        folder.mkdir(parents=True)
        shutil.copy(state_from / "state-1.pt", folder / "state.pt")
    return train(program(name), settings(name, layout), folder, progress=False)


@contextmanager
def every_state_kept() -> Iterator[None]:
    """Each ``state.pt`` is kept beside itself as ``state-STEP.pt``, too."""
    write = parallel.save_state

    def save_state(path: Path, state: dict[str, Any]) -> None:
        write(path, state)
        shutil.copy(path, path.with_name(f"state-{state['step']}.pt"))

    parallel.save_state = save_state
    try:
        yield
    finally:
        parallel.save_state = write


def difference_of_muon(height: int, width: int) -> float:
    """How far a step of Muon on a matrix in shards is from that on the whole one, as a share of the step."""
    draw = torch.Generator().manual_seed(0)
    start, gradient = torch.randn(2, height, width, generator=draw)
    mesh = init_device_mesh("cpu", (processes.count(),))
    ends = []
    for matrix, slope in ((start, gradient), tuple(distribute_tensor(tensor, mesh, [Shard(0)]) for tensor in (start, gradient))):
        parameter = torch.nn.Parameter(matrix.clone())
        parameter.grad = slope
        Optimizers(
            [{"params": [parameter], "lr": 0.1, "muon": True}, {"params": [torch.nn.Parameter(torch.zeros(1))]}],
            OptimizerSettings(learning_rate=0.1),
        ).step()
        end = parameter.detach()
        ends.append(end.full_tensor() if isinstance(end, DTensor) else end)
    return float((ends[1] - ends[0]).norm() / (ends[0] - start).norm())


def main(folder: Path, recipe: Path) -> None:
    """All that two processes do: every program in every layout, each from the others' states, and the rest of the killed runs."""
    results: dict[str, Any] = {}
    with joined("cpu"):
        for name in PROGRAMS:
            for layout in ("ddp", "fsdp"):
                results[f"{name}-{layout}"] = trained(name, layout, folder / f"{name}-{layout}")
        for before, after in (("ddp", "fsdp"), ("fsdp", "ddp")):  # with moments of two bytes
            trained("pretraining_bfloat16", before, folder / f"bfloat16-{before}")
            trained("pretraining_bfloat16", after, folder / f"bfloat16-{before}-{after}", state_from=folder / f"bfloat16-{before}")
        for before, after in (("ddp", "fsdp"), ("fsdp", "ddp")):
            trained("supervised_finetuning", before, folder / f"finetuning-{before}")
            target = folder / f"finetuning-{before}-{after}"
            trained("supervised_finetuning", after, target, state_from=folder / f"finetuning-{before}")
        results["muon"] = [difference_of_muon(*shape) for shape in ((64, 192), (192, 64), (33, 99))]
        for before, after in (("one", "ddp"), ("one", "fsdp"), ("ddp", "fsdp"), ("fsdp", "ddp")):
            target = folder / f"supervised-{before}-{after}"
            results[target.name] = trained("supervised", after, target, state_from=folder / f"supervised-{before}")
        for layout in ("ddp", "fsdp"):
            for name in (f"whole-{layout}", f"killed-{layout}"):
                results[name] = run(load_recipe(recipe, {"training.parallel": layout}), folder / name, progress=False)
        try:
            one = settings("supervised", "ddp").model_copy(update={"batch_size": 3, "accumulation": 2})
            train(program("supervised"), one, folder / "refused", progress=False)
        except ConfigError as error:
            results["refused"] = str(error)
        (folder / f"results-{processes.rank()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    with every_state_kept():
        main(*map(Path, sys.argv[1:]))
