"""The loop, for every model and every recipe: what one step computes is the program's affair.

A run is a folder. It holds ``state.pt`` (what to resume from), ``metrics.jsonl`` and TensorBoard curves, ``settings.json`` and, in the
end, ``model/`` and ``results.json``; of the best model so far ``best/`` has both. Killed at any moment and started again, it goes on
where the last state was and ends with the same weights, bit for bit on the CPU with the same number of threads: the data order,
augmentations and dropout of a step depend on the seed and the step alone.

Several processes (``parallel``) compute each step on shares of its batch. Only the first of them writes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from .. import processes
from ..datasets import batches
from ..errors import ConfigError
from ..files import write_text
from ..weights.states import hash_state
from .claims import claim
from .log import NoLog, RunLog
from .measures import Waiting, peak_memory_megabytes
from .optimizers import Optimizers
from .parallel import Layout, compile_blocks
from .schedule import learning_rate
from .settings import OptimizerSettings, TrainingSettings

__all__ = ["Program", "train"]

NO_RECORD: Mapping[str, Any] = MappingProxyType({})


class Program(Protocol):
    """What a recipe provides. ``dataset`` maps a position (epoch, index) to a dictionary of arrays and has a length."""

    name: str
    dataset: Any

    @property
    def metrics(self) -> Sequence[str]:
        """Which numbers of ``evaluate`` are better the higher they are."""
        ...

    @property
    def model(self) -> nn.Module: ...

    def parameter_groups(self, optimizer: OptimizerSettings) -> list[dict[str, Any]]:
        """Parameter groups as ``Optimizers`` takes them, each with its ``lr`` and ``weight_decay``."""
        ...

    def prepare(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """What is done to a step's whole batch, on the model's device, before its loss is computed in parts."""
        ...

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a batch on the model's device, and other numbers to log: means over its samples.

        Of several processes each is given its share of the samples, and the loss of all is the mean weighted by numbers of samples.
        """
        ...

    def evaluate(self) -> dict[str, Any]:
        """Numbers on held-out data; called with the model in evaluation mode and without gradients.

        Called on every process, which computes its ``processes.share`` and gives the numbers of all of them.
        """
        ...

    def trained_parameters(self) -> str:
        """In words, how many parameters learn."""
        ...

    def checkpoint_activations(self) -> None:
        """From now on compute the model's activations anew for the gradients instead of keeping them."""
        ...

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        """Write the finished model, whose state dict is ``weights``; called on one process."""
        ...


def train(
    program: Program, settings: TrainingSettings, folder: str | Path, *, progress: bool = True, record: Mapping[str, Any] = NO_RECORD
) -> dict[str, Any]:
    """Run ``program`` in ``folder`` to the end, resuming if the folder holds an unfinished run of the same settings.

    Returns the final evaluation, which ``results.json`` has with ``record``, what it was measured on. Raises ConfigError if the folder
    belongs to a run with other settings.
    """
    folder = Path(folder)
    first = processes.rank() == 0
    if first:
        _claim(folder, program, settings)
    if settings.precision == "float16" and settings.parallel == "fsdp" and processes.count() > 1:
        raise ConfigError("float16 is not offered with fsdp, whose shards overflow apart: use precision bfloat16 or parallel ddp")
    model = program.model.to(settings.device)
    if settings.checkpoint_activations:
        program.checkpoint_activations()
    if settings.compile:
        compile_blocks(model)
    layout = Layout(model, program.parameter_groups(settings.optimizer), kind=settings.parallel, device=settings.device)
    optimizer = Optimizers(layout.parameter_groups, settings.optimizer)
    base_rates = [group["lr"] for group in optimizer.param_groups]
    scaler = torch.amp.GradScaler(torch.device(settings.device).type, enabled=settings.precision == "float16")  # type: ignore[attr-defined]
    best = _Best(folder / "best", settings.keep_best, program, layout, record)
    saved = layout.load(folder / "state.pt", optimizer)
    start = 0
    if saved is None and settings.moments_from is not None and layout.load(settings.moments_from, optimizer) is None:
        raise ConfigError(f"training.moments_from: no state of a run is at {str(settings.moments_from)!r}")
    if saved is not None:
        scaler.load_state_dict(saved["scaler"])
        start = saved["step"]
        best.resume()
    with (
        RunLog(folder, start_step=start, num_steps=settings.num_steps, description=program.name, progress=progress) if first else NoLog()
    ) as log:
        began = time.monotonic()
        loaded = Waiting(_load(program.dataset, settings, start))
        for step, batch in enumerate(loaded, start=start):
            for group, base in zip(optimizer.param_groups, base_rates, strict=True):
                group["lr"] = learning_rate(step, base, settings, len(program.dataset))
            numbers = _step(program, layout, optimizer, scaler, settings, step, batch)
            done = step + 1
            log.advance(done)
            if step == start:
                log.record(done, {"peak_memory_megabytes": round(peak_memory_megabytes(settings.device))})
            if done % settings.log_every == 0 or done == settings.num_steps:
                rate = (done - start) * settings.batch_size / (time.monotonic() - began)
                log.record(
                    done,
                    {
                        **{k: float(v) for k, v in processes.total(numbers).items()},
                        "learning_rate": optimizer.param_groups[0]["lr"],
                        "samples_per_second": round(rate, 2),
                        "data_wait_share": round(loaded.share(), 4),
                        **({"loss_scale": scaler.get_scale()} if scaler.is_enabled() else {}),
                        **optimizer.counts,
                    },
                )
            if settings.evaluate_every and done % settings.evaluate_every == 0 and done < settings.num_steps:
                results = layout.evaluate(program.evaluate)
                log.record(done, results)
                best.consider(done, results)
            if done % settings.checkpoint_every == 0 or done == settings.num_steps:
                layout.save(folder / "state.pt", optimizer, {"step": done, "scaler": scaler.state_dict()})
        results = layout.evaluate(program.evaluate)
        log.record(settings.num_steps, results)
        best.consider(settings.num_steps, results)
    weights = layout.weights()
    if first:
        program.save(folder / "model", weights)
        _write_results(folder, settings.num_steps, results, weights, record)
    return results


def _claim(folder: Path, program: Program, settings: TrainingSettings) -> None:
    unimportant = {"device", "num_workers", "parallel", "checkpoint_activations", "compile"}  # the weights do not depend on them

    def is_this(values: dict[str, Any]) -> bool:
        values |= {name: getattr(settings, name) for name in unimportant}
        return values.pop("program", None) == program.name and TrainingSettings.model_validate(values) == settings

    values = {"program": program.name, **settings.model_dump(mode="json", exclude=unimportant)}
    claim(folder / "settings.json", values, is_this, "other settings")


class _Best:
    """The model with the highest ``metric`` so far, in a folder of its own; nothing is kept if ``metric`` is None.

    A run that resumes evaluates anew what it had evaluated after its last state, and finds that model there already.
    """

    def __init__(self, folder: Path, metric: str | None, program: Program, layout: Layout, record: Mapping[str, Any]) -> None:
        if metric is not None and metric not in program.metrics:
            raise ConfigError(f"training.keep_best is {metric!r}, but the evaluation gives {', '.join(program.metrics)}")
        self.folder, self.metric, self.program, self.layout, self.record = folder, metric, program, layout, record
        self.highest = -math.inf

    def resume(self) -> None:
        """Take on what is in the folder. All processes call this, the first one reads."""
        path = self.folder / "results.json"
        there = processes.of_first(lambda: path.exists() and json.loads(path.read_text()))
        if self.metric is not None and there:
            self.highest = there[self.metric]

    def consider(self, step: int, results: dict[str, Any]) -> None:
        """Keep the model as it is if these results of it are the best. All processes call this, the first one writes."""
        if self.metric is None or results[self.metric] <= self.highest:
            return
        self.highest = results[self.metric]
        weights = self.layout.weights()
        if processes.rank() == 0:
            self.program.save(self.folder, weights)
            _write_results(self.folder, step, results, weights, self.record)


def _write_results(folder: Path, step: int, results: dict[str, Any], weights: dict[str, Tensor], record: Mapping[str, Any]) -> None:
    made = {"program": "watchword train", "step": step, "weights_sha256": hash_state(weights)}
    write_text(folder / "results.json", json.dumps({**made, **record, **results}, indent=1) + "\n")


def _load(dataset: Dataset[dict[str, Any]], settings: TrainingSettings, start: int) -> DataLoader[dict[str, Any]]:
    num_samples = len(dataset)  # type: ignore[arg-type]
    whole = batches(num_samples, settings.batch_size, seed=settings.seed, start_step=start, num_steps=settings.num_steps)
    shares = _shares(settings)
    positions = ([batch[place] for share in shares for place in share] for batch in whole)
    # spawn: a forked child would inherit this process's threads in an unknown state.
    context = "spawn" if settings.num_workers else None
    return DataLoader(dataset, batch_sampler=positions, num_workers=settings.num_workers, multiprocessing_context=context)  # type: ignore[arg-type]


def _step(
    program: Program, layout: Layout, optimizer: Optimizers, scaler: Any, settings: TrainingSettings, step: int, batch: dict[str, Any]
) -> dict[str, Tensor]:
    layout.model.train()
    # Dropout of a step is the same after a resume, and another on each process.
    torch.manual_seed((processes.rank() * 1_000_003 + settings.seed) * 1_000_003 + step)
    batch = program.prepare({name: value.to(settings.device) if isinstance(value, Tensor) else value for name, value in batch.items()})
    total: dict[str, Tensor] = {}
    parts = _parts(batch, settings)
    low = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(settings.precision)
    for number, part in enumerate(parts, start=1):
        with layout.reducing(number == len(parts)):
            with torch.autocast(torch.device(settings.device).type, dtype=low, enabled=low is not None):
                loss, numbers = layout(program.loss, part)
            if not torch.isfinite(loss):
                raise ConfigError(f"the loss is {float(loss)} at step {step + 1}; lower the learning rate or use precision float32")
            share = len(next(iter(part.values()))) / settings.batch_size
            scaler.scale(loss * share * processes.count()).backward()  # gradients are means over processes
        total = {name: total.get(name, 0) + share * value.detach() for name, value in {"loss": loss, **numbers}.items()}
    scaler.unscale_(optimizer)
    if settings.optimizer.clip_gradient_norm is not None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, settings.optimizer.clip_gradient_norm)
    scaler.step(optimizer)  # a step of all optimizers or, where a gradient overflowed, of none
    scaler.update()
    optimizer.zero_grad()
    return total


def _shares(settings: TrainingSettings) -> list[range]:
    """Of each part of a batch that is computed at once, the samples that are this process's."""
    size, num_parts = settings.batch_size, min(settings.accumulation, settings.batch_size)
    if size // num_parts < processes.count():
        raise ConfigError(
            f"a batch of {size} samples in {num_parts} parts leaves some of {processes.count()} processes without one; "
            "raise training.batch_size or lower training.accumulation"
        )
    ends = [size * part // num_parts for part in range(num_parts + 1)]
    return [range(start, end)[own.start : own.stop] for start, end in pairwise(ends) for own in (processes.share(end - start),)]


def _parts(batch: dict[str, Any], settings: TrainingSettings) -> list[dict[str, Any]]:
    ends = [0, *accumulate(len(share) for share in _shares(settings))]
    return [{name: values[start:end] for name, values in batch.items()} for start, end in pairwise(ends)]
