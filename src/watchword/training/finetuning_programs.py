"""From a recipe of MERLOT Reserve's finetuning to what is trained: the examples, the pretrained model with its head, and the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..datasets.playground import world_hash
from ..datasets.playground_questions import PlaygroundQuestions
from ..datasets.playground_vcr import playground_vcr
from ..datasets.tvqa import TvqaFolder
from ..datasets.tvqa_examples import TvqaExamples
from ..datasets.vcr import VcrExamples, with_pictures
from ..datasets.vcr_files import VcrItems
from ..datasets.videos_with_sound import SOUND_CLASSES, VideosWithSound, write_sound_classes
from ..playground.stand_ins.tvqa import write_tvqa
from ..reserve import Reserve, ReserveConfig, sound_choices
from ..reserve.choices import ChoiceProgram, for_choices
from ..reserve.class_scores import ClassProgram, for_classes
from .loop import Program
from .schema import ChoicesRecipe, ClassesRecipe, PlaygroundTvqaData, PlaygroundVcrData, QuestionsData, TvqaData, VcrData, VideosData
from .xclip_programs import measured_on

__all__ = ["choices", "classes"]


def choices(recipe: ChoicesRecipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on."""
    data, seed = recipe.data, recipe.training.seed
    if isinstance(data, TvqaData | PlaygroundTvqaData):
        return _sound_choices(for_choices(_start(recipe), recipe.name, parts=sound_choices.PARTS), data, seed, beside)
    model = for_choices(_start(recipe), recipe.name)
    if isinstance(data, QuestionsData):
        sizes: dict[str, Any] = dict(grid=model.config.grid, frame_size=data.frame_size, cache_folder=beside / "cache")
        questions = PlaygroundQuestions(data.num_stills, seed=data.seed, **sizes)
        held_out = PlaygroundQuestions(data.num_held_out, seed=data.seed + 1, **sizes)
        return ChoiceProgram(model, questions, held_out=held_out), {"protocol": f"playground questions, seed {data.seed + 1}"}
    options: dict[str, Any] = dict(grid=model.config.grid, length=data.length)
    training = VcrExamples.for_training(
        with_pictures(VcrItems(folder := _vcr_folder(data, beside), "train")), seed=seed, released_flip=data.released_flip, **options
    )
    measured = VcrExamples(with_pictures(VcrItems(folder, "val", limit=data.num_held_out)), **options)
    return ChoiceProgram(model, training, held_out=measured), {"protocol": f"{len(measured)} validation questions of {data.kind}"}


def _vcr_folder(data: VcrData | PlaygroundVcrData, beside: Path) -> Path:
    if isinstance(data, VcrData):
        return data.folder
    return playground_vcr(data.num_questions, num_held_out=data.num_held_out, seed=data.seed, cache_folder=beside / "cache")


def _sound_choices(model: Reserve, data: TvqaData | PlaygroundTvqaData, seed: int, beside: Path) -> tuple[Program, dict[str, Any]]:
    limit = data.num_held_out
    folder = TvqaFolder(data.folder) if isinstance(data, TvqaData) else _tvqa_stand_in(data, beside / "cache")
    grid = model.config.grid
    training = TvqaExamples(folder, folder.items("train"), grid=grid, training=True, seed=seed)
    measured = TvqaExamples(folder, folder.items("val")[:limit], grid=grid, training=False)
    program = sound_choices.SoundChoiceProgram(model, training, held_out=measured)
    return program, {"protocol": f"{len(measured)} validation questions of {data.kind}"}


def _tvqa_stand_in(data: PlaygroundTvqaData, cache_folder: Path) -> TvqaFolder:
    sizes: dict[str, Any] = dict(num_scenes=data.num_scenes, scene_seconds=data.scene_seconds, size=data.frame_size)
    counts = {"train": data.num_questions, "val": data.num_held_out}
    name = "-".join(["tvqa", *map(str, [*counts.values(), *sizes.values()]), f"seed{data.seed}", world_hash()])
    write_tvqa(cache_folder / name, counts, seed=data.seed, **sizes)
    return TvqaFolder(cache_folder / name)


def classes(recipe: ClassesRecipe, beside: Path) -> tuple[Program, dict[str, Any]]:
    """The program, and what its results are measured on."""
    data = recipe.data
    if isinstance(data, VideosData):
        training, held_out = data.lists()
        lists, names, record = (training.videos, held_out.videos), training.class_names, measured_on(held_out)
    else:
        clips: dict[str, Any] = dict(size=data.frame_size, cache_folder=beside / "cache")
        own = write_sound_classes(data.num_clips, seed=data.seed, **clips)
        lists, names = (own, write_sound_classes(data.num_held_out, seed=data.seed + 1, **clips)), SOUND_CLASSES
        record = {"protocol": f"playground sounds, seed {data.seed + 1}"}
    model = for_classes(_start(recipe), names, recipe.name, sound=recipe.sound)
    reading: dict[str, Any] = dict(grid=model.config.grid, sound=recipe.sound, seed=recipe.training.seed)
    learned, measured = (VideosWithSound(videos, names, training=own, **reading) for videos, own in zip(lists, (True, False), strict=True))
    return ClassProgram(model, learned, held_out=measured), record


def _start(recipe: ChoicesRecipe | ClassesRecipe) -> Reserve:
    """The pretrained model, or one that knows nothing."""
    values = ReserveConfig.from_dict(recipe.model)
    return Reserve(values) if recipe.start is None else Reserve.from_pretrained(recipe.start, grid=values.grid if recipe.model else None)
