"""Visual Commonsense Reasoning: which of four answers to a question about a picture is right, and which of four rationales says why.

Told are Q->A, QA->R (the rationale given the right answer) and Q->AR (both right), and, for the owners' leaderboard, the probabilities of
the answers and of the rationales given each of them. Sources: merlot-reserve-model spec section 8.2, merlot-reserve-data spec section 17.1.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.utils.data import default_collate

from .. import processes
from ..datasets.vcr import VcrExamples
from ..datasets.vcr_files import NUM_CHOICES, PICTURES, SPLITS, TERMS, WHERE, Split, VcrItems
from ..datasets.vcr_texts import LENGTH, Names, VcrTexts
from ..devices import autocast, find_device, usable_precision, with_precision
from ..errors import ConfigError, InputError, WatchwordError
from ..reserve import Reserve
from ..reserve.choices import choice_scores
from ..training.parallel import in_turn
from .finetuned import checked_settings, scored
from .task import DataReport, EvaluationOptions, Needed, TaskResult, look_for, percent, require, weights_record

__all__ = ["LEADERBOARD", "Vcr"]

LEADERBOARD = "leaderboard.csv"
_AT_ONCE = 4
_ANNOTATIONS = f"{WHERE} (vcr1annots.zip)"

Floats = npt.NDArray[np.float64]
Example = dict[str, Any]


class _Settings(BaseModel):
    """``split``: train, val or test, which has no labels. ``length``: token ids of a sequence; 140 is the released submission's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Split = "val"
    length: int = Field(default=LENGTH, ge=2, le=640)


@dataclass(frozen=True)
class _Scored:
    """Of one item: (5, 4) probabilities of the answers, and of the rationales given each of them; even ones and why, if there are none."""

    probabilities: Floats
    error: str = ""


class Vcr:
    """The task ``vcr``. Its settings: ``split`` (train, val, test), and ``length`` of a sequence in token ids (144; as submitted 140)."""

    name = "vcr"
    title = "Visual Commonsense Reasoning (VCR)"
    needs: Sequence[Needed] = (
        *(
            Needed(f"**/{split}.jsonl", f"the questions of the {split} split", _ANNOTATIONS, TERMS, optional=split != "val")
            for split in SPLITS
        ),
        Needed(f"**/{PICTURES}", "the pictures, and a JSON file of objects beside each", f"{WHERE} (vcr1images.zip)", TERMS),
    )

    def check(self, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        """See ``Task.check``. The items of the split are read, and looked for is whether their pictures are there."""
        split = checked_settings(_Settings, self.name, settings).split
        if missing := look_for(folder, _needed(split)):
            return DataReport(missing=missing)
        items = VcrItems(folder, split)
        absent = items.missing_files()
        problems = tuple(f"{items[index].annot_id}: {path} is not there" for index, path in absent.items())
        there = [other for other in SPLITS if not look_for(folder, _needed(other))]
        notes = (f"split {split}; there are {', '.join(there)}",)
        return DataReport(num_items=len(items), problems=problems, notes=notes)

    def evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """See ``Task.evaluate``. Of the test split there are no metrics, but the leaderboard's file."""
        settings = checked_settings(_Settings, self.name, options.settings)
        if options.use not in ("auto", "frames"):
            raise ConfigError(f"VCR has still pictures alone, so it cannot be answered from {options.use}: use frames or auto")
        require(folder, _needed(settings.split))
        items = VcrItems(folder, settings.split, limit=options.limit)
        device = find_device(options.device)
        precision = usable_precision(options.precision, device)
        with in_turn():  # so that one process downloads
            weights = Reserve.from_pretrained(model).to(device)
        weights.part("proj", "score no answers; finetune them on VCR (recipes/reserve/vcr-base.yaml)")
        if weights.audio_encoder is not None:
            raise InputError(f"the weights {weights.config.weights!r} were finetuned with sound, which VCR has not: give weights of VCR")
        examples = VcrExamples(items, grid=weights.config.grid, length=settings.length)
        with torch.inference_mode(), autocast(device, precision):
            own = dict(_score(with_precision(weights, precision), examples, processes.share(len(items)), options.on_progress))
        found = {index: scored for part in processes.gather(own) for index, scored in part.items()}
        if all(one.error for one in found.values()):
            raise InputError(f"none of the {len(items)} pictures can be read; the first: {found[0].error}")
        results = [found[index] for index in range(len(items))]
        rows = [_row(items, index, each) for index, each in enumerate(results)]
        labelled = settings.split != "test"
        return TaskResult(
            task=f"{self.title}, split {settings.split}",
            metrics=_metrics(rows) if labelled else {},
            rows=rows,
            baselines=_baselines(folder, rows) if labelled else {},
            notes=()
            if labelled
            else (f"the test split has no labels: {LEADERBOARD} is for the leaderboard at https://visualcommonsense.com/leaderboard/",),
            exports={LEADERBOARD: _leaderboard([row["id"] for row in rows], results)},
            settings={
                **weights_record(weights),
                "grid": list(weights.config.grid),
                "precision": precision,
                "annotations_sha256": items.sha256(),
                **settings.model_dump(),
            },
        )


def _needed(split: Split) -> list[Needed]:
    return [replace(needed, optional=False) for needed in Vcr.needs if needed.path in (f"**/{PICTURES}", f"**/{split}.jsonl")]


def _score(
    model: Reserve, examples: VcrExamples, own: Sequence[int], on_progress: Callable[[float], None]
) -> Iterator[tuple[int, _Scored]]:
    """(item, probabilities) of the own items; each picture is encoded once for all sequences about it."""
    device = model.token_encoder.weight.device

    def score(read: list[Example]) -> Iterator[_Scored]:
        batch = default_collate(read)
        scores = choice_scores(model, batch["images"].to(device), batch["tokens"].to(device))
        yield from (_Scored(share) for share in scores.double().softmax(dim=-1).cpu().numpy())

    even = np.full((1 + NUM_CHOICES, NUM_CHOICES), 1 / NUM_CHOICES)
    reads = [partial(examples.for_leaderboard, index) for index in own]
    for index, found in zip(own, scored(reads, score, batch_size=_AT_ONCE, on_progress=on_progress), strict=True):
        yield index, _Scored(even, " ".join(str(found).split())) if isinstance(found, WatchwordError) else found


def _row(items: VcrItems, index: int, scored: _Scored) -> dict[str, Any]:
    """What was chosen; the rationale is that given the right answer or, in the test split, given the chosen one. Labels count from 0.

    Of an item without probabilities nothing was chosen, and it counts as wrong.
    """
    item = items[index]
    answer_label, rationale_label = (None, None) if items.split == "test" else items.labels(item, index)
    row: dict[str, Any] = {"id": item.annot_id, "picture": item.img_fn, "question": "", "answer": None, "rationale": None}
    row |= {"answer_text": "", "rationale_text": "", "answer_probability": None, "rationale_probability": None}
    row |= {"answer_label": answer_label, "rationale_label": rationale_label}
    if not scored.error:
        answer = int(scored.probabilities[0].argmax())
        of_rationales = scored.probabilities[1 + (answer if answer_label is None else answer_label)]
        rationale = int(of_rationales.argmax())
        plain = VcrTexts.of(item, Names(item.objects))
        row |= {"question": plain.question, "answer": answer, "rationale": rationale}
        row |= {"answer_text": plain.answers[answer], "rationale_text": plain.rationales[rationale]}
        row |= {"answer_probability": float(scored.probabilities[0, answer]), "rationale_probability": float(of_rationales[rationale])}
    return {**row, "error": scored.error}


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return _percents([(row["answer"] == row["answer_label"], row["rationale"] == row["rationale_label"]) for row in rows])


def _baselines(folder: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """``prior`` always gives the labels that are most frequent in training; there is none where the training split is not."""
    chance = 100 / NUM_CHOICES
    found = {"random": {"Q->A": chance, "QA->R": chance, "Q->AR": chance / NUM_CHOICES}}
    if not look_for(folder, _needed("train")):
        answer, rationale = VcrItems(folder, "train").frequent_labels()
        found["prior"] = _percents([(row["answer_label"] == answer, row["rationale_label"] == rationale) for row in rows])
    return found


def _percents(right: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    return {
        "Q->A": percent([answer for answer, _ in right]),
        "QA->R": percent([rationale for _, rationale in right]),
        "Q->AR": percent([answer and rationale for answer, rationale in right]),
    }


def _leaderboard(ids: Sequence[str], scored: Sequence[_Scored]) -> bytes:
    """The CSV file that the leaderboard takes."""
    choices = range(NUM_CHOICES)
    conditioned = [f"rationale_conditioned_on_a{given}_{choice}" for given in choices for choice in choices]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["annot_id", *(f"answer_{choice}" for choice in choices), *conditioned])
    for name, each in zip(ids, scored, strict=True):
        writer.writerow([name, *(f"{value:.8f}" for value in each.probabilities.flatten())])
    return out.getvalue().encode()
