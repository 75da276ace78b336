"""A stand-in for TVQA: clips of the playground as frames, sound and subtitles, with questions of which each rests on one of the three.

* ``frames``: what is shown? A colour and a shape, which nobody names.
* ``sound``: what is heard? One of the actions that only their sound tells.
* ``subtitles``: what is said? A colour and a shape that are named and not shown.

Which of them answers a question stands in ``truth.jsonl`` beside it; no model is meant to read that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from watchword.errors import InputError
from watchword.files import replacing, write_text
from watchword.playground.chatter import chatter
from watchword.playground.encoding import claim
from watchword.playground.films import Film, render_film_frames, render_film_sound
from watchword.playground.scene import sample_scene
from watchword.playground.setting import generator
from watchword.playground.sound import SOUND_RATE
from watchword.playground.world import COLOURS, HEARD_ACTIONS, SEEN_ACTIONS, SHAPES, with_article

__all__ = ["KINDS", "write_tvqa"]

KINDS: Final = ("frames", "sound", "subtitles")
"""What a question rests on."""

_QUESTIONS: Final = {"frames": "What is shown?", "sound": "What is heard?", "subtitles": "What is said?"}
_FILES: Final = {"train": "tvqa_train.jsonl", "val": "tvqa_val.jsonl", "test": "tvqa_test_public.jsonl"}
_SHOWS: Final = {"": "The Big Bang Theory", "castle": "Castle", "friends": "Friends"}
_NUM_CHOICES: Final = 5
_FRAMES_PER_SECOND: Final = 3
_STREAM: Final = 41

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class _Clip:
    """name: as the owners name clips.  film: its scenes.  said: (start, end, text) of its subtitles.  questions: of the same number."""

    name: str
    film: Film
    said: tuple[tuple[float, float, str], ...]
    questions: tuple[dict[str, Any], ...]


def write_tvqa(
    folder: str | Path,
    num_questions: int | Mapping[str, int],
    *,
    seed: int = 0,
    num_scenes: int = 6,
    scene_seconds: float = 5.0,
    size: int = 96,
    kinds: tuple[str, ...] = KINDS,
) -> list[dict[str, Any]]:
    """Write questions, one of each kind to a clip, and the clips.

    A run that was stopped goes on where it was. The same arguments give the same files everywhere, but for what encoders make of them.

    Args:
        folder: made if it is not there; its files are the owners', see ``watchword.datasets.tvqa``.
        num_questions: of each split, or for each of ``train``, ``val`` and ``test``, whose questions have no answers.
        seed: fixes everything.
        num_scenes, scene_seconds: of each clip.
        size: side of the square frames in pixels.
        kinds: of questions, some of ``KINDS``.

    Returns:
        The truth about each question: its ``qid``, ``split``, ``kind`` and ``label``.

    Raises:
        InputError: the folder holds others, or a setting is out of range.
    """
    counts = dict.fromkeys(_FILES, num_questions) if isinstance(num_questions, int) else dict(num_questions)
    settings = (num_scenes, scene_seconds, *counts.values())
    if min(settings) < 1 or size < 16 or not kinds or set(kinds) - set(KINDS) or not counts or set(counts) - set(_FILES):
        raise InputError(f"no data set is of {counts} questions about {kinds}, {num_scenes} scenes of {scene_seconds} s, {size} pixels")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    clips = {split: _clips(split, count, seed, num_scenes, scene_seconds, kinds) for split, count in counts.items()}
    asked = {split: [row for clip in of_split for row in clip.questions][: counts[split]] for split, of_split in clips.items()}
    truth = [
        {"qid": row["qid"], "split": split, "kind": row["kind"], "label": row["answer_idx"], "size": size}
        for split, rows in asked.items()
        for row in rows
    ]
    claim(folder / "truth.jsonl", truth)
    for split, rows in asked.items():
        hidden = {"kind"} | ({"answer_idx"} if split == "test" else set())
        lines = [json.dumps({key: value for key, value in row.items() if key not in hidden}, sort_keys=True) for row in rows]
        write_text(folder / _FILES[split], "".join(f"{line}\n" for line in lines))
    for clip in (clip for of_split in clips.values() for clip in of_split):
        _write_clip(folder, clip, size)
    return truth


def _clips(split: str, num_questions: int, seed: int, num_scenes: int, scene_seconds: float, kinds: tuple[str, ...]) -> list[_Clip]:
    first = list(_FILES).index(split) * 1_000_000
    count = -(-num_questions // len(kinds))
    return [_clip(split, number, first + number * len(kinds), seed, num_scenes, scene_seconds, kinds) for number in range(count)]


def _clip(split: str, number: int, first_qid: int, seed: int, num_scenes: int, scene_seconds: float, kinds: tuple[str, ...]) -> _Clip:
    """A clip and its questions, each about a scene of its own if there are as many."""
    rng = generator(seed, _STREAM, list(_FILES).index(split), number)
    heard = [HEARD_ACTIONS[int(rng.integers(len(HEARD_ACTIONS)))] for _ in range(num_scenes)]
    seeds = [int(rng.integers(2**32)) for _ in range(num_scenes)]
    pairs = [(str(rng.choice(SHAPES)), str(rng.choice(COLOURS))) for _ in range(num_scenes)]
    scenes = tuple(
        sample_scene(own, shape=shape, colour=colour, action=action, duration_seconds=scene_seconds)
        for own, (shape, colour), action in zip(seeds, pairs, heard, strict=True)
    )
    film = Film(seeds[0], scenes)
    show = list(_SHOWS)[number % len(_SHOWS)]
    name = "_".join(
        [*([show] if show else []), f"s{1 + list(_FILES).index(split):02}e{1 + number // 100:02}", f"seg01_clip_{number % 100:02}"]
    )
    order = rng.permutation(num_scenes)
    about = {kind: int(order[place % num_scenes]) for place, kind in enumerate(kinds)}
    told = {about["subtitles"]: _unlike(pairs[about["subtitles"]], rng)} if "subtitles" in kinds else {}
    said = tuple(_said(scene, film, told.get(scene), rng) for scene in range(num_scenes))
    questions = []
    for place, kind in enumerate(kinds):
        scene = about[kind]
        right = {"frames": pairs[scene], "subtitles": told.get(scene), "sound": heard[scene].name}[kind]
        choices, label = _choices(kind, right, rng)
        start, end = (float(edge) for edge in film.edges[scene : scene + 2])
        questions.append(
            {"qid": first_qid + place, "q": _QUESTIONS[kind], **{f"a{i}": text for i, text in enumerate(choices)}, "answer_idx": label,
             "ts": f"{start + 0.25:.2f}-{end - 0.25:.2f}", "vid_name": name, "show_name": _SHOWS[show], "kind": kind}
        )  # fmt: skip
    return _Clip(name, film, said, tuple(questions))


def _unlike(pair: tuple[str, str], rng: np.random.Generator) -> tuple[str, str]:
    """Another shape and another colour."""
    shape, colour = pair
    return str(rng.choice([one for one in SHAPES if one != shape])), str(rng.choice([one for one in COLOURS if one != colour]))


def _said(scene: int, film: Film, told: tuple[str, str] | None, rng: np.random.Generator) -> tuple[float, float, str]:
    """One subtitle in the middle of a scene: talk, or what is told."""
    start, end = film.edges[scene : scene + 2]
    words = " ".join(chatter(rng)) if told is None else f"it was {with_article(f'{told[1]} {told[0]}')}"
    speaker = ("", "(Ann:)", "(Ben:)")[int(rng.integers(3))]
    return float(start + 0.3 * (end - start)), float(start + 0.7 * (end - start)), f"{speaker}{words}."


def _choices(kind: str, right: Any, rng: np.random.Generator) -> tuple[list[str], int]:
    """Five texts and the number of the right one. Of sounds there are four that are ever right, so that chance is a fourth of them."""
    if kind == "sound":
        wrong = [action.name for action in HEARD_ACTIONS if action.name != right]
        wrong.append(SEEN_ACTIONS[int(rng.integers(len(SEEN_ACTIONS)))].name)
        texts = [f"it {name}" for name in (right, *wrong)]
    else:
        pairs = [right]
        while len(pairs) < _NUM_CHOICES:
            other = str(rng.choice(SHAPES)), str(rng.choice(COLOURS))
            pairs += [other] if other not in pairs else []
        texts = [with_article(f"{colour} {shape}") for shape, colour in pairs]
    order = rng.permutation(_NUM_CHOICES)
    return [texts[i] for i in order], int(np.flatnonzero(order == 0)[0])


def _write_clip(folder: Path, clip: _Clip, size: int) -> None:
    """Frames, subtitles and, last, sound: where that is, the clip is complete."""
    sound = folder / "audio" / f"{clip.name}.mp3"
    if sound.exists():
        return
    show = clip.name.split("_", 1)[0]
    frames = folder / "frames_hq" / f"{show if show in _SHOWS else 'bbt'}_frames" / clip.name
    for made in (frames, folder / "tvqa_subtitles", sound.parent):
        made.mkdir(parents=True, exist_ok=True)
    times = np.arange(0, clip.film.seconds, 1 / _FRAMES_PER_SECOND)
    for number, rgb in enumerate(render_film_frames(clip.film, times, size=size), start=1):
        Image.fromarray(rgb).save(frames / f"{number:05}.jpg", quality=95)
    blocks = [f"{number}\n{_clock(start)} --> {_clock(end)}\n{text}\n" for number, (start, end, text) in enumerate(clip.said, start=1)]
    write_text(folder / "tvqa_subtitles" / f"{clip.name}.srt", "\n".join(blocks))
    with replacing(sound) as beside:
        _write_mp3(beside, render_film_sound(clip.film))


def _write_mp3(path: Path, samples: Floats) -> None:
    with av.open(str(path), "w", format="mp3") as container:
        stream = container.add_stream("libmp3lame", rate=SOUND_RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = SOUND_RATE, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return f"00:{minutes:02}:{milliseconds // 1000:02},{milliseconds % 1000:03}"
