"""The playground protocol of fill: films that training never showed, asked at each scene what it shows, with all phrases as options.

Films are written as MP4 files and go the way of any user's video, through decoding, segments and ``Filler``. Their captions, which tell
the answer, are not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from .. import processes
from ..datasets.splits import Protocol
from ..devices import find_device
from ..playground import COLOURS, HEARD_PHRASES, PHRASES, SHAPES, Action, parse_phrase, write_films
from ..playground.world import Split
from ..reserve import Reserve
from ..reserve.answers import Question, Use
from ..reserve.filling import Filler
from ..reserve.segmentation import SEGMENT_SECONDS
from ..training.parallel import in_turn
from .finetuned import checked_settings
from .task import DataReport, EvaluationOptions, Needed, TaskResult, weights_record

__all__ = ["OPTIONS", "FilmsResult", "PlaygroundFilms", "asked_scenes", "evaluate", "question_about"]

OPTIONS = (*PHRASES, *HEARD_PHRASES)
OBJECTS = tuple(f"{colour} {shape}" for colour in COLOURS for shape in SHAPES)
QUESTION = "<mask>"
DEFAULT_SIZE = 128


class _Settings(BaseModel):
    """``films``: how many.  ``seed``: others give other films.  ``scenes``: of each, None for as many as the films of training have.
    ``objects``: only what acts is asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    films: int = Field(default=12, ge=1)
    seed: int = Field(default=1000, ge=0)
    scenes: int | None = Field(default=None, ge=1)
    objects: bool = False


class PlaygroundFilms:
    """The task ``playground_films``, whose data is rendered into the folder. Its settings: ``films``, ``seed``, ``scenes``, and
    ``objects``, which asks only what acts, among the 36 objects.
    """

    name = "playground_films"
    title = "what happens in films of the rendered world, among all its phrases"
    needs: Sequence[Needed] = ()

    def check(self, folder: Path, settings: Mapping[str, Any]) -> DataReport:
        """See ``Task``: nothing is needed."""
        chosen = checked_settings(_Settings, self.name, settings)
        return DataReport(num_items=chosen.films, notes=("films that are not there are rendered",))

    def evaluate(self, folder: Path, model: str, options: EvaluationOptions) -> TaskResult:
        """See ``Task``; ``use`` is as of ``Filler.run``, auto is sound."""
        chosen = checked_settings(_Settings, self.name, options.settings)
        weights = Reserve.from_pretrained(model).to(find_device(options.device))
        use: Use = "sound" if options.use == "auto" else options.use
        if chosen.objects:
            return self._of_objects(weights, folder, chosen, use)
        result = evaluate(weights, folder, use=use, num_films=chosen.films, seed=chosen.seed, num_scenes=chosen.scenes)
        rows = [
            {"id": str(number), "kind": parse_phrase(right)[2].name, "right": right, "guess": guess, "place": place, "error": ""}
            for number, ((right, guess), place) in enumerate(zip(result.guesses, result.places, strict=True))
        ]
        return TaskResult(
            task=f"{self.name}, {chosen.films} films, from {use}",
            metrics=result.percents,
            rows=rows,
            baselines={"random": _measure(use, _at_random([right for right, _ in result.guesses]), {}).percents},
            settings={**result.settings, "use": use, "action_by_action": result.action_by_action},
        )

    def _of_objects(self, weights: Reserve, folder: Path, chosen: _Settings, use: Use) -> TaskResult:
        with in_turn():
            truth = write_films(folder, chosen.films, seed=chosen.seed, split="unseen", num_scenes=chosen.scenes, size=DEFAULT_SIZE)
        labels = [scene["label"] for film in truth for scene in asked_scenes(film)]
        right = [f"{colour} {shape}" for shape, colour, _ in map(parse_phrase, labels)]
        best = _answers(weights, folder, truth, OBJECTS, use)
        places = [found.index(wanted) + 1 for wanted, found in zip(right, best, strict=True)]
        rows = [
            {"id": str(number), "right": wanted, "guess": found[0], "place": place, "error": ""}
            for number, (wanted, found, place) in enumerate(zip(right, best, places, strict=True))
        ]
        return TaskResult(
            task=f"{self.name}, {chosen.films} films, the object, from {use}",
            metrics={f"top{k}": _percent([place <= k for place in places]) for k in (1, 5)},
            rows=rows,
            baselines={"random": {f"top{k}": 100 * k / len(OBJECTS) for k in (1, 5)}},
            settings={
                **weights_record(weights),
                "use": use,
                "seed": chosen.seed,
            },
        )


@dataclass(frozen=True)
class FilmsResult:
    """Percentages over ``num_questions`` scenes.

    Attributes:
        use: what beside the frames the answers rest on, see ``Filler.run``.
        top1, top5: the whole phrase is right, among all ``num_options``.
        shape, colour, action: the best phrase has the right one.
        action_heard_only: the action, over the scenes that only their sound can tell.
        action_by_action: over the scenes of each action.
        guesses: (truth, best phrase) of every scene, in order.
        places: of the truth among the options, from 1, of every scene.
        settings: with what it was measured: protocol, weights, hashes.
    """

    use: Use
    num_questions: int
    num_options: int
    top1: float
    top5: float
    shape: float
    colour: float
    action: float
    action_heard_only: float
    action_by_action: dict[str, float]
    guesses: tuple[tuple[str, str], ...]
    places: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def percents(self) -> dict[str, float]:
        """The percentages by name."""
        return {name: getattr(self, name) for name in ("top1", "top5", "shape", "colour", "action", "action_heard_only")}

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single scenes."""
        return {**self.settings, **{name: value for name, value in vars(self).items() if name not in ("guesses", "places", "settings")}}


def evaluate(
    model: Reserve,
    folder: str | Path,
    *,
    use: Use = "sound",
    num_films: int = 12,
    seed: int = 1000,
    split: Split = "unseen",
    num_scenes: int | None = None,
    size: int = DEFAULT_SIZE,
) -> FilmsResult:
    """Ask about every scene of ``num_films`` films of a split, written to ``folder`` (those already there are taken).

    ``num_scenes``, ``size``: of the films, see ``write_films``.

    A question stands on the segment of five seconds that holds the middle of its scene's action.
    """
    with in_turn():
        truth = write_films(folder, num_films, seed=seed, split=split, num_scenes=num_scenes, size=size)
    best = _answers(model, Path(folder), truth, OPTIONS, use)
    true = [scene["label"] for film in truth for scene in asked_scenes(film)]
    videos = [(Path(folder) / film["path"], scene["label"]) for film in truth for scene in asked_scenes(film)]
    name = f"playground films/{split}, seed {seed}" + (f", {size} pixels" if size != DEFAULT_SIZE else "")
    protocol = Protocol.of(name, OPTIONS, videos, subset=True)
    settings = {**weights_record(model), **protocol.as_dict()}
    return _measure(use, list(zip(true, best, strict=True)), settings)


def _answers(model: Reserve, folder: Path, truth: Sequence[dict[str, Any]], options: Sequence[str], use: Use) -> list[list[str]]:
    """The options of every scene that is asked about, best first. Several processes share the films."""
    own = processes.share(len(truth))
    jobs = [
        (folder / film["path"], [question_about(scene, options) for scene in asked_scenes(film)]) for film in truth[own.start : own.stop]
    ]
    found = []
    for result in Filler(model).run(jobs, use=use, subtitles=False):
        if result.failure:
            raise result.failure.error
        found.append([answer.option for answer in result.blanks()[0]])
    return [answers for part in processes.gather(found) for answers in part]


def asked_scenes(film: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a film's truth the scenes whose action is in the middle of a whole segment: what is behind the last whole one is left out."""
    end = film["duration_seconds"] // SEGMENT_SECONDS * SEGMENT_SECONDS
    return [scene for scene in film["scenes"] if sum(scene["action_seconds"]) / 2 < end]


def question_about(scene: dict[str, Any], options: Sequence[str] = OPTIONS) -> Question:
    """What it shows, asked at the middle of its action."""
    return Question(text=QUESTION, options=options, at=sum(scene["action_seconds"]) / 2)


def _measure(use: Use, answers: Sequence[tuple[str, list[str]]], settings: dict[str, Any]) -> FilmsResult:
    pairs = [(parse_phrase(true), parse_phrase(best[0])) for true, best in answers]
    by_action: dict[Action, list[bool]] = defaultdict(list)
    for true, guess in pairs:
        by_action[true[2]].append(true[2] == guess[2])
    places = tuple(best.index(true) + 1 if true in best else len(OPTIONS) for true, best in answers)
    heard = [right for action, rights in by_action.items() if action.heard_only for right in rights]
    return FilmsResult(
        use=use,
        num_questions=len(pairs),
        num_options=len(OPTIONS),
        top1=_percent([true == guess for true, guess in pairs]),
        top5=_percent([place <= 5 for place in places]),
        shape=_percent([true[0] == guess[0] for true, guess in pairs]),
        colour=_percent([true[1] == guess[1] for true, guess in pairs]),
        action=_percent([true[2] == guess[2] for true, guess in pairs]),
        action_heard_only=_percent(heard),
        action_by_action={action.name: _percent(rights) for action, rights in by_action.items()},
        guesses=tuple((true, best[0]) for true, best in answers),
        places=places,
        settings=settings,
    )


def _at_random(phrases: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Every phrase with all options in random order (seed 0)."""
    draw = np.random.default_rng(0)
    return [(phrase, [OPTIONS[i] for i in draw.permutation(len(OPTIONS))]) for phrase in phrases]


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits) if hits else float("nan")
