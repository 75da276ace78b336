"""The page of the pretraining demo: what was learned from, how, what came of it, and what so short a training can show."""

from __future__ import annotations

import shlex

import numpy as np

from ..playground import ACTIONS, COLOURS, SHAPES
from ..reserve import Reserve
from ..reserve.shards import RecordShards
from ..reserve.spectrogram import SUBSEGMENTS
from ..tasks.playground_films import OPTIONS, FilmsResult
from ..tasks.pretrain_demo import SHOWN_SCENE, USES, PretrainDemo
from .curves import curves
from .fill_strip import fill_strip
from .html import document, escaped, picture
from .pretraining import masked_record, neighbours_picture, sound_neighbours
from .run import FillingRun
from .text import clock, duration

__all__ = ["SHORT", "answer_rows", "page", "summary"]

NEIGHBOUR_RECORDS = 12

SHORT = (
    "So short a training shows that every part works, not what the method can do. In some minutes the model begins to learn its few films "
    "by heart, so that the losses fall, and next to nothing that holds for films it has not met: expect answers near chance. To name "
    "phrases of this small world takes more films and hours (recipes/playground_reserve.yaml); real footage takes far more videos, and "
    "accelerators (docs/pretrain.md)."
)
"""What a training of minutes can and cannot do."""


def answer_rows(done: PretrainDemo) -> list[list[str]]:
    """Film, moment, truth, and for each of ``USES`` the best phrase and the truth's place among all, scene by scene."""
    rows = [[film, clock(at), truth] for film, at, truth in done.scenes]
    for use in USES:
        answer = done.answers[use]
        for row, (_, best), place in zip(rows, answer.guesses, answer.places, strict=True):
            row += [best, str(place)]
    return rows


def summary(done: PretrainDemo) -> list[str]:
    """The results, each beside what chance would give, a line each."""
    results, numbers = done.results, done.results.get("num_held_out", 0)
    lines = [_answers(done.answers[use]) for use in USES]
    for kind, words, count in (
        ("frame", "its frame found among all by a segment's words or sound", numbers * done.prepared.manifest.num_segments),
        ("sound", "its clip of sound found among all by what is around it", numbers * done.prepared.manifest.num_segments * SUBSEGMENTS),
    ):
        if (value := results.get(f"held_out_{kind}_top1")) is not None:
            lines.append(f"held-out records, {words}: {value:.1f} % (by chance {100 / count:.1f})")
    if (value := results.get("held_out_span_audio2text_top1")) is not None:
        lines.append(f"held-out records, hidden words found among all hidden ones by what is heard around them: {value:.1f} %")
    return lines


def _answers(answer: FilmsResult) -> str:
    chances = ((answer.colour, "colour", len(COLOURS)), (answer.shape, "shape", len(SHAPES)), (answer.action, "action", len(ACTIONS)))
    parts = [f"{name} {value:.0f} % (by chance {100 / count:.0f})" for value, name, count in chances]
    right = round(answer.top1 * answer.num_questions / 100)
    middle = float(np.median(answer.places))
    return (
        f"{USES[answer.use]}: {right} of {answer.num_questions} phrases right, the truth in the median at place {middle:g} of "
        f"{len(OPTIONS)} (by chance {(len(OPTIONS) + 1) / 2:g}); right {', '.join(parts)}"
    )


def page(done: PretrainDemo) -> str:
    """The demo as one HTML page that needs nothing beside it."""
    validation = RecordShards(done.prepared.folder, split="validation")
    records = [validation[number] for number in range(min(len(validation), NEIGHBOUR_RECORDS))]
    model = Reserve.from_pretrained(done.model_path)
    near = neighbours_picture(sound_neighbours(model, records), name=f"{len(records)} held-out records")
    parts = [
        _header(done),
        _section("Blanks filled in on films of combinations that it never met", _table(done)),
        _section("One answer of each film, from frames and sound", _shown_truths(done) + picture(_strip(done), "filled blanks over time")),
        _section("Curves", picture(curves(done.folder / "run"), "losses, held-out percentages and learning rate over the steps")),
        _section(
            "What it learns from: a held-out record, masked",
            picture(masked_record(records[0], masking=done.masking), "a record with what is hidden in two views"),
        ),
        _section(
            "Held-out frames, and the sounds that the model finds nearest to them",
            '<p class="faint">Training compares frames with sounds only by way of the joint encoder, so that this comes late.</p>'
            + picture(near, "frames and the sounds nearest to them"),
        ),
        _section("Go on", _next(done)),
    ]
    return document("Watchword: a small MERLOT Reserve, pretrained", "".join(parts))


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escaped(title)}</h2>{content}</section>"


def _header(done: PretrainDemo) -> str:
    videos, training = done.prepared.manifest.videos, done.recipe.training
    facts = [
        f"{videos['num_prepared']} films of {duration(videos['seconds'])} in all, {videos['num_segments']} segments",
        f"{done.prepared.manifest.num_records('train')} records to learn from, {done.results.get('num_held_out', 0)} held out",
        f"{training.num_steps} steps of {training.batch_size} records",
        f"seed {training.seed}",
    ]
    lines = "".join(f"<li>{escaped(line)}</li>" for line in summary(done))
    return f"""<h1>A small MERLOT Reserve, pretrained from nothing</h1>
<p class="faint">{" · ".join(map(escaped, facts))}</p>
<ul>{lines}</ul>
<p class="warning">{escaped(SHORT)}</p>"""


def _table(done: PretrainDemo) -> str:
    head = "<tr><th>film</th><th>at</th><th>truth</th>"
    head += "".join(f"<th>answer from {words}</th><th>truth's place</th>" for words in USES.values())
    rows = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>\n" for row in answer_rows(done))
    about = f"Among all {len(OPTIONS)} phrases; subtitles, which tell them, are not read."
    return f'<p class="faint">{about}</p><table>{head}</tr>\n{rows}</table>'


def _shown_truths(done: PretrainDemo) -> str:
    films = dict.fromkeys(film for film, _, _ in done.scenes)
    truths = [[truth for own, _, truth in done.scenes if own == film][SHOWN_SCENE] for film in films]
    return f'<p class="faint">The truth: {escaped("; ".join(f"{film}: {truth}" for film, truth in zip(films, truths, strict=True)))}.</p>'


def _strip(done: PretrainDemo) -> bytes:
    facts = {"name": str(done.model_path), "trained": True}
    return fill_strip(FillingRun(model=facts, settings={}, results=done.filled, top=5))


def _next(done: PretrainDemo) -> str:
    folder, model = shlex.quote(str(done.folder)), shlex.quote(str(done.model_path))
    commands = (
        f"watchword fill {folder}/unseen/00000.mp4 '<mask>' --options playground --model {model} --use sound --windows",
        f"watchword train {folder}/recipe.yaml --out {folder}/longer --set training.num_steps=3000",
        "watchword prepare YOUR_VIDEOS records",
    )
    return "".join(f"<p><code>{escaped(command)}</code></p>" for command in commands)
