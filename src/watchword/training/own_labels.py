"""Training for the person with some clips of each of their own classes in class folders: everything that is to be chosen, chosen.

The choices are written down as a recipe and two lists, so that they can be read, changed and run again like any other recipe.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from .. import processes
from ..datasets.annotations import read_annotations, write_annotations
from ..datasets.check import Problem, check_videos
from ..datasets.label_lists import readable
from ..datasets.splits import draw_shots
from ..errors import ConfigError, DownloadError
from ..files import write_text
from ..xclip.clip_start import PREFIX
from ..xclip.config import XClipConfig
from ..xclip.model import XClip
from ..xclip.registry import RECOMMENDED, RELEASED
from .recipes import load_recipe
from .schema import SupervisedRecipe

__all__ = ["Plan", "choose_augmentation", "choose_settings", "choose_start", "prepare", "split_folder"]

BUNDLED = "playground"
UNUSABLE = ("missing", "unreadable", "crashed", "same_content")  # kinds of problems; twins would stand on both sides of the split
HELD_OUT_SHARE = 0.2

CLIPS_SHOWN = 1000  # in all epochs, within these limits
MIN_EPOCHS, MAX_EPOCHS = 4, 20
BATCH_SIZE = 8
PAPER_RATE, PAPER_WIDTH = 8e-6, 768  # learning rate of the paper's base models
NEW_PARTS_FACTOR, TRAINED_PARTS_FACTOR = 10.0, 4.0
SIDES = frozenset({"left", "right", "leftward", "rightward", "leftwards", "rightwards", "clockwise", "anticlockwise", "counterclockwise"})
COLOURS = frozenset(
    {"black", "blue", "brown", "gold", "golden", "gray", "green", "grey", "orange", "pink", "purple", "red", "silver", "white", "yellow"}
)
BYTES_PER_ACTIVATION = 90  # kept a layer for each number of the tokens: 0.34 GB a clip of B/32 with 8 frames, measured in float32

_LISTS = {"annotations": "train", "held_out": "held_out"}  # keys of a recipe's data, and files in the run's folder

Video = tuple[Path, str]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be trained on what.

    Attributes:
        train, held_out: videos with their class names; nothing held out is trained on.
        left_out: videos that cannot be used, and why.
        class_names: in the order of the model.
        recipe: ready to run.
    """

    train: list[Video]
    held_out: list[Video]
    left_out: list[Problem]
    class_names: tuple[str, ...]
    recipe: SupervisedRecipe


def choose_start(model: str | None, report: Callable[[str], None] = lambda line: None) -> tuple[str, XClip]:
    """The weights to start from: those named, else the recommended ones if they are on this machine, else the bundled ones.

    ``report`` is told in words what the bundled weights cannot do. Errors are those of ``XClip.from_pretrained``.
    """
    if model is not None:
        return model, XClip.from_pretrained(model)
    try:
        return RECOMMENDED, XClip.from_pretrained(RECOMMENDED, offline=True)
    except DownloadError:
        megabytes = 4 * RELEASED[RECOMMENDED].num_parameters / 1e6
        report(
            f"note: starting from the bundled weights {BUNDLED!r}, which know rendered shapes and no real footage; for that "
            f"give --model {RECOMMENDED} ({megabytes:.0f} MB, downloaded once)"
        )
        return BUNDLED, XClip.from_pretrained(BUNDLED)


def prepare(
    folder: str | Path,
    out: str | Path,
    *,
    model: str,
    start: XClip,
    seed: int = 0,
    device: str = "cpu",
    report: Callable[[str], None] = lambda line: None,
) -> Plan:
    """Divide the clips, choose the settings, and write ``train.csv``, ``held_out.csv`` and ``recipe.yaml`` into ``out``.

    Args:
        folder: class folders with videos in them. Folder names are class names, ``BrushHair`` and ``brush_hair`` read as words.
        model, start: what the weights are called, and the weights.
        seed: of the division and the training.
        report: is told in words where the augmentation is not the paper's.

    If ``out`` holds a recipe already, that one is taken, so that a run that was stopped goes on as it began.

    Raises:
        ConfigError: fewer than two classes, a class with fewer than two clips that can be read, two folders of one name, or another run's
            ``out``.
    """
    folder, out = Path(folder), Path(out)
    if Path(model).exists():
        model = str(Path(model).resolve())  # so that the recipe can be run from anywhere
    train, held_out, left_out = split_folder(folder, seed=seed)
    class_names = tuple(sorted({label for _, label in train}))
    path, lists = out / "recipe.yaml", {"train.csv": train, "held_out.csv": held_out}
    if not path.exists():
        settings = choose_settings(start, len(train), seed=seed, device=device, new_parts=model.startswith(PREFIX))
        out.mkdir(parents=True, exist_ok=True)
        for name, videos in lists.items():
            write_annotations(out / name, videos)
        augment, notes = choose_augmentation(class_names)
        write_text(path, _recipe_text(folder, out, model, start, settings, augment))
        for line in notes:
            report(line)
    recipe = load_recipe(path, {"training.device": device})
    assert isinstance(recipe, SupervisedRecipe)
    same = recipe.start == model and recipe.training.seed == seed
    if not same or any(read_annotations(out / name) != [(Path(os.path.abspath(p)), c) for p, c in lists[name]] for name in lists):
        raise ConfigError(f"{out} holds a run of other clips, another seed or another start: name another folder or delete it")
    return Plan(train=train, held_out=held_out, left_out=left_out, class_names=class_names, recipe=recipe)


def choose_augmentation(class_names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """What a recipe's ``augment`` says for these classes, the paper's where it says nothing, and why it differs, a line each.

    A clip is not mirrored if a class name tells left from right, and its colours are left alone if one names a colour.
    """
    words = {word for name in class_names for word in re.findall(r"\w+", name.casefold())}
    augment: dict[str, float] = {}
    notes = []
    if sides := sorted(words & SIDES):
        augment["flip_probability"] = 0.0
        notes.append(f"note: training clips are not mirrored, as a class name says {sides[0]!r}")
    if colours := sorted(words & COLOURS):
        augment |= {"jitter_probability": 0.0, "grey_probability": 0.0}
        notes.append(f"note: the colours of training clips are left as they are, as a class name says {colours[0]!r}")
    return augment, notes


def _recipe_text(folder: Path, out: Path, model: str, start: XClip, settings: dict[str, Any], augment: dict[str, float]) -> str:
    recipe = {
        "program": "supervised",
        "name": folder.resolve().name or "own labels",
        "model": {name: value for name, value in start.config.as_dict().items() if name not in ("class_names", "weights")},
        "start": model,
        "augment": augment,
        "data": {"kind": "videos", **{key: str(out.resolve() / f"{name}.csv") for key, name in _LISTS.items()}},
        "training": settings,
    }
    checked = SupervisedRecipe.model_validate(recipe)
    values = checked.model_dump(mode="json", exclude_unset=True, exclude={"training": {"device"}})
    head = f"# Made by: watchword train --labels-from {shlex.quote(str(folder))} --out {shlex.quote(str(out))}\n"
    return head + yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def split_folder(folder: str | Path, *, seed: int) -> tuple[list[Video], list[Video], list[Problem]]:
    """Training clips, held-out clips (a fifth of each class, at least one, drawn by the seed), and what cannot be used.

    Labels are class names as words. Every file is opened. Errors are those of ``prepare``.
    """
    if not Path(folder).is_dir():
        raise ConfigError(f"{folder}: no such folder; give one that holds a folder of clips for each class")
    left_out = [problem for problem in check_videos(folder).problems if problem.kind in UNUSABLE]
    unusable = {problem.path for problem in left_out}
    by_name: defaultdict[str, list[Path]] = defaultdict(list)
    spelled: dict[str, str] = {}
    for path, label in read_annotations(folder):
        name = readable(label)
        if spelled.setdefault(name.casefold(), label) != label:
            raise ConfigError(
                f"{folder}: the folders {spelled[name.casefold()]!r} and {label!r} are one class, {name!r}: merge or rename them"
            )
        by_name[name] += [] if str(path) in unusable else [path]
    if len(by_name) < 2:
        raise ConfigError(f"{folder}: there is one class, {next(iter(by_name))!r}: give at least two folders of clips")
    train: list[Video] = []
    held_out: list[Video] = []
    for name in sorted(by_name):
        videos = [(path, name) for path in sorted(by_name[name])]
        if len(videos) < 2:
            error = ConfigError(
                f"{folder}: class {name!r} needs 2 clips that can be read, to learn from and to test, but has {len(videos) or 'none'}"
            )
            for problem in left_out:
                error.add_note(f"left out: {problem.path}: {problem.message}")
            raise error
        chosen = draw_shots(videos, max(1, round(HELD_OUT_SHARE * len(videos))), seed=seed)
        held_out += sorted(chosen)
        train += [video for video in videos if video not in chosen]
    return train, held_out, left_out


def choose_settings(start: XClip, num_clips: int, *, seed: int, device: str, new_parts: bool = False) -> dict[str, Any]:
    """Training settings, fit for a recipe, for finetuning ``start`` on so many clips.

    The text encoder stays frozen (the recipes' default). The rate is the paper's, which is for a width of 768, by the square of the width;
    epochs are fewer the more clips there are; a step's clips are computed in as many parts as the memory asks for. ``new_parts``: the video
    parts of ``start`` were never trained, and learn faster than the rest.
    """
    batch_size = min(BATCH_SIZE, num_clips)
    epochs = min(max(CLIPS_SHOWN / num_clips, MIN_EPOCHS), MAX_EPOCHS)
    num_steps = max(2, round(epochs * num_clips / batch_size))
    fitting = _fitting_clips(start, device)
    cores = os.cpu_count() or 1
    return {
        "seed": seed,
        "num_steps": num_steps,
        "batch_size": batch_size,
        "accumulation": max(1, min(-(-batch_size // fitting), batch_size // processes.count())),  # every process has a clip of each part
        "precision": "float32" if torch.device(device).type == "cpu" else "bfloat16",
        "checkpoint_every": max(1, num_steps // 4),
        "evaluate_every": max(1, num_steps // 5),
        "log_every": max(1, num_steps // 100),
        "num_workers": 0 if cores < 4 else min(4, cores // 2),
        "device": device,
        "optimizer": {
            "learning_rate": float(f"{PAPER_RATE * (PAPER_WIDTH / start.config.vision_width) ** 2:.3g}"),
            "new_parts_factor": NEW_PARTS_FACTOR if new_parts else TRAINED_PARTS_FACTOR,
            "warmup_steps": num_steps // 10,
        },
    }


def _fitting_clips(model: XClip, device: str) -> int:
    """How many clips of a training step fit in half the memory beside the weights, gradients and averages; at least one."""
    weights = 16 * sum(parameter.numel() for parameter in model.parameters())
    return max(1, int((_memory(device) / 2 - weights) / _bytes_per_clip(model.config)))


def _bytes_per_clip(config: XClipConfig) -> int:
    return config.num_frames * config.vision_layers * (config.num_patches + 2) * config.vision_width * BYTES_PER_ACTIVATION


def _memory(device: str) -> int:
    """Bytes: of a GPU those that are free, else all of the machine's, or 8 GB where it does not say."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # Windows
        return 8 << 30
