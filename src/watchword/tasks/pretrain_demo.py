"""Pretraining from beginning to end in minutes: films with subtitles, records, a small model, blanks filled in on films it never saw."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from ..datasets.record_folder import FolderSettings, PreparedFolder, prepare
from ..devices import num_cores
from ..errors import InputError
from ..files import write_text
from ..playground import write_films
from ..reserve import Reserve
from ..reserve.answers import FillResult, Use
from ..reserve.filling import Filler
from ..reserve.masking import Masking
from ..reserve.preparing import VideoSettings
from ..training.claims import claim
from ..training.recipes import load_recipe, run
from ..training.schema import PretrainingRecipe
from .playground_films import FilmsResult, asked_scenes, evaluate, question_about

__all__ = ["SHOWN_SCENE", "USES", "PretrainDemo", "pretrain_demo"]

USES: dict[Use, str] = {"frames": "frames alone", "sound": "frames and sound"}
"""What the answers rest on, and in words."""

SIZE = 64  # pixels; the model sees them twice as large
NUM_SEGMENTS = 8  # of a record: one group
SCENES_A_FILM, SCENES_ASKED = 36, 20  # of four to six seconds
NUM_UNSEEN, UNSEEN_SEED = 2, 1000
VALIDATION_SHARE = 0.1
JPEG_QUALITY = 95  # of frames so small that the default would blur them
MEASURED_STEPS, FEWEST_STEPS = 5, 10
SHOWN_SCENE = 2
"""Of each unseen film the scene whose answer is shown in full."""


@dataclass(frozen=True, kw_only=True)
class PretrainDemo:
    """What was made and measured.

    Attributes:
        folder: has ``films``, ``records``, ``recipe.yaml``, ``run`` (the model is in ``run/model``) and ``unseen``.
        prepared, recipe: what was learned from, and how.
        results: of the held-out records, see ``PretrainingProgram.evaluate``.
        scenes: those asked about: the film's file name, the moment in seconds, and the true phrase.
        answers: by what they rest on (``USES``), in the order of the scenes.
        filled: one question of each unseen film in full, for pictures.
    """

    folder: Path
    prepared: PreparedFolder
    recipe: PretrainingRecipe
    results: dict[str, Any]
    scenes: list[tuple[str, float, str]]
    answers: dict[Use, FilmsResult]
    filled: list[FillResult]

    @property
    def model_path(self) -> Path:
        return self.folder / "run" / "model"

    @property
    def masking(self) -> Masking:
        return Masking(**self.recipe.masking)

    def as_dict(self) -> dict[str, Any]:
        """Everything measured, as plain values."""
        steps = {"num_steps": self.recipe.training.num_steps, "batch_size": self.recipe.training.batch_size}
        return {**steps, **self.results, **{use: answer.as_dict() for use, answer in self.answers.items()}}


def pretrain_demo(
    folder: str | Path,
    *,
    num_films: int = 40,
    minutes: float = 5.0,
    num_steps: int | None = None,
    seed: int = 0,
    num_processes: int | None = None,
    device: str = "cpu",
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> PretrainDemo:
    """Write films of the playground, prepare them, pretrain a small model on them and ask it about films of unseen combinations.

    Run again, it goes on where it was stopped; what is done is not done again. ``results.json`` gets the numbers.

    Args:
        folder: made if it is not there.
        num_films: to learn from, each of about three minutes; at least 2, since some are held out.
        minutes: of training: as many steps as fit by the speed of the first few.
        num_steps: in place of ``minutes``; only so does a seed give the same model again.
        seed: of films, masks and training.
        num_processes: that write and prepare films side by side; default: all cores.
        device: that trains and answers.
        report: is told what happens.

    Raises:
        InputError: fewer than 2 films.
        ConfigError: the folder holds a run of other settings.
    """
    folder, cores = Path(folder), num_cores() if num_processes is None else num_processes
    if num_films < 2:
        raise InputError(f"{num_films} films: give at least 2, one to learn from and one to hold out")
    asked = {"num_films": num_films, "minutes": minutes if num_steps is None else None, "num_steps": num_steps, "seed": seed}
    claim(folder / "settings.json", asked, lambda values: values == asked, "another number of films, length or seed")
    report(f"films: {num_films} with subtitles and sound, into {folder / 'films'}")
    write_films(folder / "films", num_films, seed=seed, split="train", num_scenes=SCENES_A_FILM, size=SIZE, num_processes=cores)
    report(f"records: cut from the films, into {folder / 'records'}")
    prepared = prepare([folder / "films"], folder / "records", _folder_settings(seed), num_processes=cores)
    recipe = _recipe(folder, minutes, num_steps, seed, device, report)
    results = run(recipe, folder / "run", progress=progress, report=report)
    model = Reserve.from_pretrained(folder / "run" / "model").to(device)
    report(f"blanks: {NUM_UNSEEN} films of combinations that it never met, into {folder / 'unseen'}")
    films = write_films(
        folder / "unseen", NUM_UNSEEN, seed=UNSEEN_SEED + seed, split="unseen", num_scenes=SCENES_ASKED, size=SIZE, num_processes=cores
    )
    done = PretrainDemo(
        folder=folder,
        prepared=prepared,
        recipe=recipe,
        results=results,
        scenes=[(film["path"], question_about(scene).at or 0.0, scene["label"]) for film in films for scene in asked_scenes(film)],
        answers={use: _ask(model, folder / "unseen", use, seed) for use in USES},
        filled=_filled(model, folder / "unseen", films),
    )
    write_text(folder / "results.json", json.dumps(done.as_dict(), indent=1) + "\n")
    return done


def _folder_settings(seed: int) -> FolderSettings:
    """The filters are those of the published data, which the films pass."""
    videos = VideoSettings(seed=seed, jpeg_quality=JPEG_QUALITY)
    return FolderSettings(videos=videos, num_segments=NUM_SEGMENTS, validation_share=VALIDATION_SHARE, some_validation=True)


def _recipe(
    folder: Path, minutes: float, num_steps: int | None, seed: int, device: str, report: Callable[[str], None]
) -> PretrainingRecipe:
    """The recipe in the folder, written first if it is not there."""
    path = folder / "recipe.yaml"
    if not path.exists():
        values = yaml.safe_load((files("watchword.tasks") / "pretrain_demo.yaml").read_text(encoding="utf-8"))
        values["data"]["folder"] = str((folder / "records").resolve())
        values["training"]["seed"] = seed
        steps = num_steps or _steps_in(60 * minutes, values, device, report)
        values["training"] |= {
            "num_steps": steps,
            "evaluate_every": max(FEWEST_STEPS, steps // 4),
            "checkpoint_every": max(1, min(10, steps // 4)),
            "log_every": max(1, steps // 50),
        }
        values["training"]["optimizer"]["warmup_steps"] = steps // 10
        write_text(path, f"# Made by: watchword pretrain-demo\n{yaml.safe_dump(values, sort_keys=False)}")
    recipe = load_recipe(path, {"training.device": device})
    assert isinstance(recipe, PretrainingRecipe)
    return recipe


def _steps_in(seconds: float, values: dict[str, Any], device: str, report: Callable[[str], None]) -> int:
    """How many steps of a recipe are done in the time, by the speed of a few after the first, which is slow."""
    report(f"speed: {MEASURED_STEPS} steps to see how many fit into {seconds / 60:g} minutes")
    training = {**values["training"], "num_steps": MEASURED_STEPS, "log_every": 1, "device": device}
    with tempfile.TemporaryDirectory() as scratch:
        run(PretrainingRecipe.model_validate({**values, "training": training}), Path(scratch) / "run", progress=False)
        logged = [json.loads(line) for line in (Path(scratch) / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    ends = [line["step"] * training["batch_size"] / line["samples_per_second"] for line in logged if "samples_per_second" in line]
    step_seconds = float(ends[-1] - ends[0]) / (len(ends) - 1)
    return max(FEWEST_STEPS, round(seconds / step_seconds))


def _ask(model: Reserve, unseen: Path, use: Use, seed: int) -> FilmsResult:
    return evaluate(model, unseen, use=use, num_films=NUM_UNSEEN, seed=UNSEEN_SEED + seed, num_scenes=SCENES_ASKED, size=SIZE)


def _filled(model: Reserve, unseen: Path, films: list[dict[str, Any]]) -> list[FillResult]:
    jobs = [(unseen / film["path"], [question_about(asked_scenes(film)[SHOWN_SCENE])]) for film in films]
    return list(Filler(model).run(jobs, use="sound", subtitles=False))
