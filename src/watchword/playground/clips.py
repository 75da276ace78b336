"""Scenes to files: an MP4 with sound, a subtitle file beside it, and whole folders with annotations and the truth."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

from watchword.files import replacing, write_text
from watchword.playground.encoding import check_size, claim, encode
from watchword.playground.motion import action_span, event_times
from watchword.playground.render import render_frames
from watchword.playground.scene import DURATION_SECONDS, FPS, Scene, sample_scene
from watchword.playground.setting import generator
from watchword.playground.sound import SOUND_RATE, render_sound
from watchword.playground.speech import narration, narration_vtt
from watchword.playground.world import Split, combinations, held_out


def write_clip(scene: Scene, path: str | Path, *, size: int = 256) -> dict[str, Any]:
    """Write a scene as an MP4 (H.264 yuv420p, AAC mono) with its narration as ``.vtt`` beside it.

    Both are written beside and renamed into place, the MP4 last: where it is, the clip is complete.

    Args:
        scene: what to write, at its own frame rate and length.
        path: the MP4 to write.
        size: side of the square picture in pixels, even, at least 16.

    Returns:
        The truth about the clip, fit for JSON: see `clip_truth`.

    Raises:
        InputError: the size is odd or too small.
    """
    path = Path(path)
    check_size(size)
    write_text(path.with_suffix(".vtt"), narration_vtt(narration(scene)))
    with replacing(path) as beside:
        encode(beside, [(render_frames(scene, scene.times, size=size), render_sound(scene))], size=size, fps=scene.fps)
    return clip_truth(scene, path.name, size=size)


def clip_truth(scene: Scene, name: str, *, size: int) -> dict[str, Any]:
    """Everything known about a clip: its label, split and length, when what happens and is said, and its scene."""
    return {
        "path": name,
        "label": scene.phrase,
        "split": "unseen" if held_out(scene.shape, scene.colour, scene.action) else "train",
        "duration_seconds": scene.duration_seconds,
        "fps": scene.fps,
        "num_frames": scene.num_frames,
        "size": size,
        "sound_rate": SOUND_RATE,
        "action_seconds": list(action_span(scene)),
        "event_seconds": event_times(scene),
        "words": [asdict(word) for word in narration(scene)],
        "scene": scene.as_dict(),
    }


def write_folder(
    folder: str | Path,
    num_clips: int,
    *,
    seed: int = 0,
    split: Split | None = None,
    heard: bool = False,
    size: int = 256,
    duration_seconds: float = DURATION_SECONDS,
    fps: float = FPS,
) -> list[dict[str, Any]]:
    """Write a data set: clips ``00000.mp4``, ..., the truth about each (``truth.jsonl``) and ``annotations.csv``.

    The annotations (columns path and label, paths relative to the folder) are written last: where they are, the folder
    is complete. A run that was stopped goes on where it was; a larger `num_clips` adds clips to the same ones.

    Args:
        folder: made if it is not there.
        num_clips: how many; all combinations of the split occur equally often, in random order.
        seed: fixes everything.
        split: ``"train"``, ``"unseen"``, or None for both.
        heard: also clips that only their sound can tell.
        size, duration_seconds, fps: of each clip.

    Returns:
        The truth about each clip.

    Raises:
        InputError: the folder holds clips made with other settings.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    scenes = folder_scenes(num_clips, seed=seed, split=split, heard=heard, duration_seconds=duration_seconds, fps=fps)
    truth = [clip_truth(scene, f"{index:05}.mp4", size=size) for index, scene in enumerate(scenes)]
    claim(folder / "truth.jsonl", truth)
    for scene, known in zip(scenes, truth, strict=True):
        path = folder / known["path"]
        if not path.exists():
            write_clip(scene, path, size=size)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerows([("path", "label"), *((known["path"], known["label"]) for known in truth)])
    write_text(folder / "annotations.csv", table.getvalue())
    return truth


def folder_scenes(
    num_clips: int,
    *,
    seed: int = 0,
    split: Split | None = None,
    heard: bool = False,
    duration_seconds: float = DURATION_SECONDS,
    fps: float = FPS,
) -> list[Scene]:
    """The scenes that `write_folder` writes, in the same order, for rendering them without files."""
    choices = combinations(split=split, heard=heard)
    scenes = []
    for index in range(num_clips):
        lap, place = divmod(index, len(choices))
        if place == 0:
            order = generator(seed, lap).permutation(len(choices))
        shape, colour, action = choices[order[place]]
        own_seed = int(generator(seed, lap, place).integers(2**32))
        scene = sample_scene(own_seed, shape=shape, colour=colour, action=action, duration_seconds=duration_seconds, fps=fps)
        scenes.append(scene)
    return scenes
