"""TVQA with finetuned MERLOT Reserve weights: from the owners' files to accuracy and the leaderboard's file.

Each question is answered from the subtitles, from the sound, and from both, by the mean of the two's probabilities (model spec section
8.3). A clip without subtitles or sound is answered with what there is; one without frames counts as wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from .. import processes
from ..datasets.tvqa import FILES, NUM_CHOICES, OWNERS, TERMS, Split, TvqaFolder, TvqaItem, most_frequent_label
from ..datasets.tvqa_examples import as_tensors
from ..devices import Precision, autocast, find_device, usable_precision, with_precision
from ..errors import ConfigError, InputError, WatchwordError
from ..reserve import Reserve
from ..reserve.images import Grid
from ..reserve.sound_choices import VERSIONS, score_versions
from ..training.parallel import in_turn
from ..weights.evaluating import evaluating
from .finetuned import scored
from .task import DataReport, EvaluationOptions, Needed, TaskResult, percent, weights_record

__all__ = ["Tvqa"]

_SUBTITLES, _FRAMES = "tvqa_subtitles", "frames_hq"
_QUESTIONS = {split: Needed(name, f"the questions of its {split} part", OWNERS, "free to download") for split, name in FILES.items()}
_FOLDERS = (
    Needed(f"{_FRAMES}/*_frames/*/00001.jpg", "frames of the clips, three a second", OWNERS, TERMS),
    Needed(f"{_SUBTITLES}/*.srt", "subtitles of the clips", OWNERS, "free to download", optional=True),
    Needed("audio/*.mp3", "sound of the clips (or the owners' folder audios, or video files of these names)", OWNERS, TERMS, optional=True),
)
_EXPORTS = {"val": "prediction_val.json", "test": "prediction_test_public.json", "train": "prediction_train.json"}
_SETTINGS = ("split", "grid", "batch_size")
BOTH = "both"


@dataclass(frozen=True)
class _Settings:
    """split: whose questions.  grid: patches of a frame, None for the weights' own.  batch_size: questions at once."""

    split: Split = "val"
    grid: Grid | None = None
    batch_size: int = 4

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> _Settings:
        if unknown := set(values) - set(_SETTINGS):
            raise ConfigError(f"tvqa has no setting {min(unknown)!r}; there are {', '.join(_SETTINGS)}")
        split = values.get("split", cls.split)
        if split not in FILES:
            raise ConfigError(f"split is {split!r}, but must be one of {', '.join(FILES)}")
        try:
            batch_size = int(values.get("batch_size", cls.batch_size))
            grid = values.get("grid")
            sides = tuple(int(side) for side in (grid.split("x") if isinstance(grid, str) else grid or ()))
        except (TypeError, ValueError):
            raise ConfigError("batch_size must be a whole number, and grid rows x columns of patches such as 18x32") from None
        if batch_size < 1 or len(sides) not in (0, 2):
            raise ConfigError(f"batch_size {batch_size}, grid {values.get('grid')!r}: give at least 1, and rows x columns such as 18x32")
        return cls(split, (sides[0], sides[1]) if sides else None, batch_size)


def _labelled_alike(items: Sequence[TvqaItem]) -> Sequence[TvqaItem]:
    """The items. ConfigError if only some of them have an answer: the others would be lost."""
    without = [item for item in items if item.label is None]
    if 0 < len(without) < len(items):
        raise ConfigError(f"tvqa: question {without[0].qid} has no answer_idx, but others have")
    return items


@dataclass(frozen=True)
class _Answered:
    """A question with the probabilities (versions, choices) of its answers, or why there are none."""

    item: TvqaItem
    probabilities: Tensor | None = None
    notes: tuple[str, ...] = ()
    error: str = ""


class Tvqa:
    """The task, see ``tasks.task.Task``. Settings: ``split`` (val, test, train), ``grid`` (such as 18x32) and ``batch_size``."""

    name = "tvqa"
    title = "TVQA: five answers to questions about clips of television series"
    needs: Sequence[Needed] = (_QUESTIONS["val"], *_FOLDERS)

    def check(self, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        chosen, files = _Settings.of(settings), TvqaFolder(folder)
        items = [item for split in FILES if files.questions(split) is not None for item in files.items(split)]
        one_of = list({item.clip: item for item in items}.values())
        problems = [f"clip {item.clip}: no frames" for item in one_of if files.frames_of(item) is None] if files.frames else []
        notes = [f"no {FILES[split]}" for split in FILES if split != chosen.split and files.questions(split) is None]
        for what, find in (("subtitles", files.subtitles_of), ("sound", files.sound_of)):
            if num_without := sum(find(item) is None for item in one_of):
                notes.append(f"{num_without} of {len(one_of)} clips have no {what}")
        return DataReport(num_items=len(items), missing=_missing(files, chosen.split), problems=tuple(problems), notes=tuple(notes))

    def evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """``use`` is ``auto`` or ``both``, which also tell what sound and subtitles give alone, or one of these two.

        Raises ConfigError if a needed file is missing or of another form, InputError if the weights were not finetuned on TVQA.
        """
        chosen, files = _Settings.of(options.settings), TvqaFolder(folder)
        use = BOTH if options.use == "auto" else options.use
        if use not in (BOTH, *VERSIONS):
            raise ConfigError(f"tvqa is answered from {', '.join(VERSIONS)} or {BOTH}, not from {use}")
        if missing := _missing(files, chosen.split):
            raise ConfigError(f"{str(folder)!r} has no {missing[0].path}: {missing[0].what}, from {missing[0].where} ({missing[0].terms})")
        items = _labelled_alike(files.items(chosen.split))[: options.limit]
        own = processes.share(len(items))
        with in_turn():  # so that one process downloads
            weights = Reserve.from_pretrained(model, grid=chosen.grid)
        weights.part("proj", "score no choices: give weights that were finetuned on TVQA")
        weights.part("audio_encoder", "take no sound: give weights that were finetuned on TVQA")
        device = find_device(options.device)
        precision = usable_precision(options.precision, device)
        scoring = with_precision(weights, precision).to(device)
        mine = _answered(scoring, device, precision, files, items[own.start : own.stop], chosen.batch_size, options.on_progress)
        rows = [row for part in processes.gather([_row(answer, use) for answer in mine]) for row in part]
        if all(row["error"] for row in rows):
            raise InputError(f"none of the {len(rows)} questions can be answered; the first: {rows[0]['error']}")
        return TaskResult(
            task=f"TVQA, {chosen.split}, from {use}",
            metrics=_metrics(rows, use),
            rows=rows,
            baselines=_baselines(items),
            exports=_exports(rows, chosen.split, use),
            notes=_notes(rows),
            settings={
                **weights_record(weights),
                "grid": list(weights.config.grid),
                "split": chosen.split,
                "use": use,
                "precision": precision,
            },
        )


def _missing(files: TvqaFolder, split: Split) -> tuple[Needed, ...]:
    there = (files.questions(split), files.frames)
    return tuple(needed for needed, path in zip((_QUESTIONS[split], _FOLDERS[0]), there, strict=True) if path is None)


def _answered(
    model: Reserve,
    device: torch.device,
    precision: Precision,
    files: TvqaFolder,
    items: Sequence[TvqaItem],
    batch_size: int,
    on_progress: Callable[[float], None],
) -> Iterator[_Answered]:
    """Each question with its probabilities, in order."""

    def read(item: TvqaItem) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        example = files.read(item)
        return as_tensors(item, example, grid=model.config.grid), example.notes

    def score(examples: list[tuple[dict[str, Tensor], tuple[str, ...]]]) -> Iterator[tuple[Tensor, tuple[str, ...]]]:
        batch = {name: values.to(device) for name, values in default_collate([tensors for tensors, _ in examples]).items()}
        with torch.no_grad(), evaluating(model), autocast(device, precision):
            scores = score_versions(model, batch["images"], batch["audio_clips"], batch["sequences"])
        yield from zip(scores.float().softmax(dim=-1).cpu(), (notes for _, notes in examples), strict=True)

    found = scored([partial(read, item) for item in items], score, batch_size=batch_size, on_progress=on_progress)
    for item, answer in zip(items, found, strict=True):
        yield _Answered(item, error=str(answer)) if isinstance(answer, WatchwordError) else _Answered(item, *answer)


def _row(answered: _Answered, use: str) -> dict[str, Any]:
    item = answered.item
    row: dict[str, Any] = {
        "id": str(item.qid),
        "clip": item.clip,
        "question": item.question,
        "label": "" if item.label is None else item.label,
    }
    for version, shares in _shares(answered.probabilities, use).items():
        row[version] = "" if shares is None else int(shares.argmax())
        row[f"{version}_probability"] = "" if shares is None else round(float(shares.max()), 6)
    return {**row, "notes": "; ".join(answered.notes), "error": answered.error}


def _shares(probabilities: Tensor | None, use: str) -> dict[str, Tensor | None]:
    """Probabilities (choices,) by what they rest on, as far as ``use`` asks for them."""
    names = VERSIONS if use == BOTH else (use,)
    of_versions = {name: None if probabilities is None else probabilities[VERSIONS.index(name)] for name in names}
    return {BOTH: None if probabilities is None else probabilities.mean(dim=0), **of_versions} if use == BOTH else of_versions


def _metrics(rows: Sequence[Mapping[str, Any]], use: str) -> dict[str, float]:
    """Accuracy by what it rests on, that of ``use`` first, over the questions that have a label; nothing without one."""
    labelled = [row for row in rows if row["label"] != ""]
    names = (BOTH, *VERSIONS) if use == BOTH else (use,)
    if not labelled:
        return {}
    return {"accuracy" if name == use else f"accuracy_{name}": percent([row[name] == row["label"] for row in labelled]) for name in names}


def _baselines(items: Sequence[TvqaItem]) -> dict[str, dict[str, float]]:
    """A random answer's expectation, and the answer that is right most often among these very items."""
    labels = [item.label for item in items if item.label is not None]
    if not labels:
        return {}
    prior = most_frequent_label(items)
    return {"random": {"accuracy": 100 / NUM_CHOICES}, "prior": {"accuracy": percent([label == prior for label in labels])}}


def _notes(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    counts = {what: sum(f"no {what}" in row["notes"] for row in rows) for what in ("sound", "subtitles")}
    return tuple(f"{count} of {len(rows)} questions are about clips without {what}" for what, count in counts.items() if count)


def _exports(rows: Sequence[Mapping[str, Any]], split: Split, use: str) -> dict[str, bytes]:
    """The leaderboard's files: the number of the answer by question; 0 where there is none, as every question must have one."""
    names = (BOTH, *VERSIONS) if use == BOTH else (use,)
    return {
        _EXPORTS[split] if name == use else f"{name}/{_EXPORTS[split]}": json.dumps({row["id"]: row[name] or 0 for row in rows}).encode()
        for name in names
    }
