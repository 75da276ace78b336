"""Stand-ins of STAR, EPIC-KITCHENS-100, LSMDC and MSR-VTT QA: their files in their own forms, about clips and films of the playground.

The right answers are what the pictures show and the sounds tell. Each is made anew in any folder, the same for the same seed.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from watchword.files import write_text
from watchword.playground.clips import folder_scenes, write_clip
from watchword.playground.film_files import film_truth, folder_films, write_film
from watchword.playground.scene import Scene
from watchword.playground.setting import generator
from watchword.playground.world import ACTIONS, COLOURS, PHRASES, SHAPES, parse_phrase

__all__ = ["write_epic_kitchens", "write_lsmdc", "write_msrvtt_qa", "write_star"]

DEFAULT_SIZE = 64
_STAR_STREAM, _LSMDC_STREAM = 21, 22
_STAR_KINDS = ("Interaction_T1", "Sequence_T3", "Prediction_T1", "Feasibility_T1")
_STAR_QUESTIONS = (
    "Which object was held by the person?",
    "What happened after the person opened the door?",
    "What will the person do next?",
    "Which other object is possible to be held by the person?",
)


def write_star(folder: str | Path, num_questions: int, *, seed: int = 0, split: str = "val", size: int = DEFAULT_SIZE) -> None:
    """``STAR_<split>.json`` and a clip for each question, ``Charades_v1_480/<video>.mp4``. The kinds of question take turns; two of them
    ask for the object, two for all that happens.
    """
    draw = generator(seed, _STAR_STREAM)
    rows = []
    for number, (name, scene) in enumerate(_clips(Path(folder) / "Charades_v1_480", "S", num_questions, seed, size, seconds=4)):
        kind = number % len(_STAR_KINDS)
        of_object = kind in (0, 3)
        right = f"The {scene.colour} {scene.shape}." if of_object else f"{scene.phrase[0].upper()}{scene.phrase[1:]}."
        others = [f"The {colour} {shape}." for colour in COLOURS for shape in SHAPES]
        others = others if of_object else [f"{phrase[0].upper()}{phrase[1:]}." for phrase in PHRASES]
        wrong = [other for other in others if other != right]
        choices = [right, *(wrong[i] for i in draw.choice(len(wrong), 3, replace=False))]
        order = draw.permutation(len(choices)).tolist()
        rows.append(
            {
                "question_id": f"{_STAR_KINDS[kind]}_{number}",
                "question": _STAR_QUESTIONS[kind],
                "video_id": name,
                "start": 0.0,
                "end": scene.duration_seconds,
                "choices": [{"choice_id": place, "choice": choices[i]} for place, i in enumerate(order)],
                **({} if split == "test" else {"answer": right}),
            }
        )
    write_text(Path(folder) / f"STAR_{split}.json", json.dumps(rows))


def write_epic_kitchens(folder: str | Path, num_films: int, *, seed: int = 0, num_scenes: int = 4, size: int = DEFAULT_SIZE) -> None:
    """All annotation files that the task reads, and a film for each participant, ``P01/videos/P01_01.MP4``: its scenes' actions are what
    is to be anticipated, and whose they are is to be seen before. The second half of the participants is unseen in training, which has
    the same actions; the test set has the same films.
    """
    folder, actions = Path(folder), [action.name.replace(" ", "-") for action in ACTIONS]
    nouns = [f"{shape}:{colour}" for shape in SHAPES for colour in COLOURS]
    rows: list[dict[str, Any]] = []
    for number, film in enumerate(folder_films(num_films, seed=seed, num_scenes=num_scenes), start=1):
        video = f"P{number:02}_01"
        path = folder / f"P{number:02}" / "videos" / f"{video}.MP4"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_film(film, path, size=size)
        for place, scene in enumerate(film_truth(film, path.name, size=size)["scenes"]):
            shape, colour, action = parse_phrase(scene["label"])
            start, stop = scene["action_seconds"]
            noun, verb = nouns.index(f"{shape}:{colour}"), ACTIONS.index(action)
            times = {"narration_timestamp": _timestamp(start), "start_timestamp": _timestamp(start), "stop_timestamp": _timestamp(stop)}
            frames = {"start_frame": round(start * film.fps), "stop_frame": round(stop * film.fps)}
            said = {"narration": scene["label"], "verb": actions[verb], "verb_class": verb, "noun": nouns[noun], "noun_class": noun}
            whose = {"narration_id": f"{video}_{place}", "participant_id": f"P{number:02}", "video_id": video}
            rows.append({**whose, **times, **frames, **said, "all_nouns": [nouns[noun]], "all_noun_classes": [noun]})
    unseen = sorted({row["participant_id"] for row in rows})[num_films // 2 :]
    pairs = [(verb, noun) for verb in range(len(actions)) for noun in range(len(nouns))]
    vocabulary = [{"id": n, "verb": v, "noun": o, "action": f"{actions[v]} {nouns[o]}"} for n, (v, o) in enumerate(pairs)]
    labels = ("narration", "verb", "verb_class", "noun", "noun_class", "all_nouns", "all_noun_classes")
    tables: dict[str, Sequence[dict[str, Any]]] = {
        "actions.csv": vocabulary,
        "EPIC_100_validation.csv": rows,
        "EPIC_100_train.csv": rows,
        "EPIC_100_test_timestamps.csv": [{key: value for key, value in row.items() if key not in labels} for row in rows],
        "EPIC_100_unseen_participant_ids_validation.csv": [{"participant_id": name} for name in unseen],
        "EPIC_100_tail_verbs.csv": [{"verb": number} for number in range(len(actions) // 2)],
        "EPIC_100_tail_nouns.csv": [{"noun": number} for number in range(len(nouns) // 2)],
    }
    for name, table in tables.items():
        write_text(folder / name, _table(table))


def write_lsmdc(folder: str | Path, num_sentences: int, *, seed: int = 0, split: str = "test", size: int = DEFAULT_SIZE) -> None:
    """``LSMDC16_annos_<split>_FIB.csv`` and a clip for each sentence, ``FILM/<clip>.mp4``; a colour, a shape or an action is left out."""
    draw = generator(seed, _LSMDC_STREAM)
    rows = []
    for name, scene in _clips(Path(folder) / "0001_PLAYGROUND", "0001_PLAYGROUND_", num_sentences, seed, size, seconds=3):
        words = scene.phrase.split()
        place = int(draw.integers(1, len(words)))
        question = " ".join([*words[:place], "_____", *words[place + 1 :], "."])
        times = dict.fromkeys(("start_aligned", "end_aligned", "start_extracted", "end_extracted"), "00.00.00.000")
        rows.append({"video_id": name, **times, "sentence": f"{scene.phrase} .", "question": question, "answer": words[place]})
    write_text(Path(folder) / f"LSMDC16_annos_{split}_FIB.csv", _table(rows, delimiter="\t"))


def write_msrvtt_qa(folder: str | Path, num_clips: int, *, seed: int = 0, size: int = DEFAULT_SIZE) -> None:
    """``train_qa.json``, ``val_qa.json``, ``test_qa.json`` and clips, ``TrainValVideo/video<n>.mp4``: of each clip three questions, for
    what acts, for what it does, and for what colour it has. A quarter of the clips each is val and test.
    """
    rows: dict[str, list[dict[str, Any]]] = {"train": [], "val": [], "test": []}
    for number, (_, scene) in enumerate(_clips(Path(folder) / "TrainValVideo", "video", num_clips, seed, size, seconds=7, digits=1)):
        part = ("train", "val", "test")[max(0, number % 4 - 1)]
        asked = (
            (f"what {scene.action}?", scene.shape),
            (f"what does the {scene.shape} do?", scene.action),
            (f"what is the colour of the {scene.shape}?", scene.colour),
        )
        rows[part] += [
            {"answer": answer, "category_id": 0, "id": 3 * number + n, "question": question, "video_id": number}
            for n, (question, answer) in enumerate(asked)
        ]
    for part, questions in rows.items():
        write_text(Path(folder) / f"{part}_qa.json", json.dumps(questions))


def _clips(folder: Path, prefix: str, count: int, seed: int, size: int, *, seconds: float, digits: int = 5) -> Iterator[tuple[str, Scene]]:
    """Name and scene of each clip, which is written if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, scene in enumerate(folder_scenes(count, seed=seed, heard=True, duration_seconds=seconds)):
        name = f"{prefix}{number:0{digits}}"
        if not (folder / f"{name}.mp4").exists():
            write_clip(scene, folder / f"{name}.mp4", size=size)
        yield name, scene


def _timestamp(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes) // 60:02}:{int(minutes) % 60:02}:{rest:05.2f}"


def _table(rows: Sequence[dict[str, Any]], delimiter: str = ",") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
