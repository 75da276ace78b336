"""The page of a run on one's own classes: how well it went, the curves, what is taken for what, and the clips it got wrong."""

from __future__ import annotations

import shlex

from ..tasks.own_labels import Learned
from ..tasks.results import ClassificationResult, VideoResult
from .confusion import confusion
from .curves import curves
from .html import document, escaped, failure_table, picture, thumbnail_row

__all__ = ["page"]

MAX_WRONG = 40  # clips shown


def page(learned: Learned) -> str:
    """The run as one HTML page that needs nothing beside it."""
    after = learned.after
    parts = [
        _header(learned),
        f"<section><h2>Curves</h2>{picture(curves(learned.folder), 'loss, accuracies and learning rate over the steps')}</section>",
        f"<section><h2>What is taken for what</h2>{picture(confusion(after), 'confusion of the classes')}{_classes(after)}</section>",
        *_wrong(after),
        failure_table(
            [
                *((problem.path or "", "check", problem.kind, problem.message) for problem in learned.plan.left_out),
                *((video.path, "evaluate", video.reason, video.error) for video in after.failed),
            ]
        ),
    ]
    return document(f"Watchword: {learned.plan.recipe.name}", "".join(parts))


def _header(learned: Learned) -> str:
    plan, before, after = learned.plan, learned.before, learned.after
    chance = 100 / len(plan.class_names)
    training = plan.recipe.training
    few = ""
    if len(after.read) < 50:
        step = 100 / len(after.read)
        few = f'<p class="warning">One held-out clip is {step:.1f} %: with so few, small differences mean nothing.</p>'
    augment = plan.recipe.augment
    kept = [
        *(["not mirrored"] if augment is None or not augment.flip_probability else []),
        *(["in their own colours"] if augment is None or not (augment.jitter_probability or augment.grey_probability) else []),
    ]
    shown = f" · clips to learn from were shown {' and '.join(kept)}" if kept else ""
    command = f"watchword tag VIDEO --model {shlex.quote(str(learned.model_path))}"
    return f"""<h1>{escaped(plan.recipe.name)}</h1>
<p><b>{after.top1:.0f} % of {len(after.read)} held-out clips right</b>; before training {before.top1:.0f} %, by chance {chance:.0f} %.</p>
<p class="faint">{len(plan.class_names)} classes · {len(plan.train)} clips to learn from · start: {escaped(str(plan.recipe.start))} ·
{training.num_steps} steps of {training.batch_size} clips · seed {training.seed}{shown}</p>
<p>Use it: <code>{escaped(command)}</code> (its labels are your classes)</p>
{few}"""


def _classes(result: ClassificationResult) -> str:
    rows = []
    for row in result.per_class:
        right = "" if row.top1 is None else f"{row.top1:.0f} %"
        taken = f"{escaped(row.taken_for)} ({row.num_taken})" if row.num_taken else ""
        rows.append(f"<tr><td>{escaped(row.name)}</td><td>{row.num_videos}</td><td>{right}</td><td>{taken}</td></tr>\n")
    head = "<tr><th>class</th><th>held-out clips</th><th>right</th><th>most taken for</th></tr>"
    return f"<table>{head}\n{''.join(rows)}</table>"


def _wrong(result: ClassificationResult) -> list[str]:
    shown = result.wrong[:MAX_WRONG]
    if not shown:
        return ["<section><h2>Clips it got wrong</h2><p>None of those held out.</p></section>"]
    left_out = f" (the {len(shown)} surest mistakes)" if len(shown) < len(result.wrong) else ""
    title = f"<section><h2>Clips it got wrong: {len(result.wrong)} of {len(result.read)}{left_out}</h2></section>"
    return [title, *(_clip(result, video) for video in shown)]


def _clip(result: ClassificationResult, video: VideoResult) -> str:
    names = result.class_names
    guess, share = video.ranked[0]
    return f"""<section class="alone">
<div class="head"><h2>{escaped(video.path)}</h2><span class="answer">{escaped(names[guess])} ({share:.2f})</span></div>
<p class="faint">the truth: <b>{escaped(names[video.label])}</b> ({video.probability:.2f}, place {video.place} of {len(names)})</p>
{thumbnail_row(video.path)}
</section>
"""
