"""Films to files: an MP4 with sound, automatic captions beside it, and whole folders with the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from watchword.files import replacing, write_text
from watchword.playground.encoding import Part, check_size, claim, encode
from watchword.playground.films import OFF_TIME, Film, render_film_sound, sample_film
from watchword.playground.motion import action_span, event_times
from watchword.playground.narrator import film_captions, narrate
from watchword.playground.render import render_frames
from watchword.playground.setting import generator
from watchword.playground.sound import SOUND_RATE
from watchword.playground.speech import narration_vtt
from watchword.playground.world import Split, held_out

_SEED_STREAM = 13


def write_film(film: Film, path: str | Path, *, size: int = 256) -> dict[str, Any]:
    """Write a film as an MP4 (H.264 yuv420p, AAC mono) with its automatic captions as ``.vtt`` beside it.

    Both are written beside and renamed into place, the MP4 last: where it is, the film is complete.

    Args:
        film: what to write.
        path: the MP4 to write.
        size: side of the square picture in pixels, even, at least 16.

    Returns:
        The truth about the film, fit for JSON: see `film_truth`.

    Raises:
        InputError: the size is odd or too small.
    """
    path = Path(path)
    check_size(size)
    write_text(path.with_suffix(".vtt"), narration_vtt(film_captions(film)))
    with replacing(path) as beside:
        encode(beside, _parts(film, size), size=size, fps=film.fps)
    return film_truth(film, path.name, size=size)


def film_truth(film: Film, name: str, *, size: int) -> dict[str, Any]:
    """All that is known about a film: its scenes, when each is on, acts and is told, and the words, as said and as captions time them."""
    narration = narrate(film)
    return {
        "path": name,
        "seed": film.seed,
        "off_time": film.off_time,
        "duration_seconds": film.seconds,
        "fps": film.fps,
        "size": size,
        "sound_rate": SOUND_RATE,
        "scenes": [
            {
                "label": scene.phrase,
                "split": "unseen" if held_out(scene.shape, scene.colour, scene.action) else "train",
                "start_seconds": float(film.edges[number]),
                "end_seconds": float(film.edges[number + 1]),
                "action_seconds": [float(film.edges[number]) + seconds for seconds in action_span(scene)],
                "event_seconds": [float(film.edges[number]) + seconds for seconds in event_times(scene)],
                "phrase_seconds": list(narration.phrase_seconds(number)),
                "scene": scene.as_dict(),
            }
            for number, scene in enumerate(film.scenes)
        ],
        "words": [asdict(word) for word in narration.words],
        "captions": [asdict(word) for word in film_captions(film)],
    }


def write_films(
    folder: str | Path,
    num_films: int,
    *,
    seed: int = 0,
    split: Split | None = None,
    num_scenes: int | None = None,
    off_time: float = OFF_TIME,
    size: int = 256,
    num_processes: int = 0,
) -> list[dict[str, Any]]:
    """Write films ``00000.mp4``, ... and the truth about each (``truth.jsonl``, written first).

    A run that was stopped goes on where it was; a larger `num_films` adds films to the same ones.

    Args:
        folder: made if it is not there.
        num_films: how many.
        seed: fixes everything.
        split, num_scenes, off_time: see `sample_film`.
        size: side of the square picture in pixels, even, at least 16.
        num_processes: that write side by side; 0 writes in this one.

    Returns:
        The truth about each film.

    Raises:
        InputError: the folder holds films made with other settings, or a setting is out of range.
    """
    check_size(size)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    films = folder_films(num_films, seed=seed, split=split, num_scenes=num_scenes, off_time=off_time)
    truth = [film_truth(film, f"{index:05}.mp4", size=size) for index, film in enumerate(films)]
    claim(folder / "truth.jsonl", truth)
    paths = [folder / known["path"] for known in truth]
    missing = [(film, path) for film, path in zip(films, paths, strict=True) if not path.exists()]
    _write_all(missing, partial(write_film, size=size), min(num_processes, len(missing)))
    return truth


def _write_all(missing: list[tuple[Film, Path]], write: Callable[[Film, Path], object], num_processes: int) -> None:
    if not num_processes:
        for film, path in missing:
            write(film, path)
        return
    # spawn: a forked child would inherit this process's threads in an unknown state.
    with ProcessPoolExecutor(num_processes, mp_context=get_context("spawn")) as pool:
        for written in [pool.submit(write, film, path) for film, path in missing]:
            written.result()


def folder_films(
    num_films: int, *, seed: int = 0, split: Split | None = None, num_scenes: int | None = None, off_time: float = OFF_TIME
) -> list[Film]:
    """The films that `write_films` writes, in the same order, for rendering them without files."""
    seeds = [int(generator(seed, _SEED_STREAM, index).integers(2**32)) for index in range(num_films)]
    return [sample_film(own_seed, num_scenes=num_scenes, split=split, off_time=off_time) for own_seed in seeds]


def _parts(film: Film, size: int) -> Iterator[Part]:
    """Each scene's frames and sound."""
    sound = render_film_sound(film)
    for number, scene in enumerate(film.scenes):
        first, last = (round(edge * SOUND_RATE) for edge in film.edges[number : number + 2])
        yield render_frames(scene, scene.times, size=size), sound[first:last]
