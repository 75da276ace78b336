"""The HTML report: one page that needs nothing beside it, no script, and loads nothing."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from ..results import NONE_OF_THESE
from ..xclip.tagging import ClipResult
from .run import TaggingRun
from .text import clock, duration, printable
from .thumbnails import Thumbnail, thumbnails

__all__ = ["document", "escaped", "failure_table", "page", "picture", "thumbnail_row"]

NUM_THUMBNAILS = 8
THUMBNAIL_PIXELS = 108  # high
JPEG_QUALITY = 78

_STYLE = """
:root { --ink: #1d2530; --faint: #5f6a76; --line: #e2e6eb; --track: #eef1f4; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 24px 60px; color: var(--ink); background: #fff;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0; overflow-wrap: anywhere; }
p { margin: 4px 0; } .faint { color: var(--faint); font-size: 13px; }
.warning { background: #fff4e0; border-left: 4px solid #d9822b; padding: 8px 12px; margin: 14px 0; }
section { border-top: 1px solid var(--line); padding: 18px 0 14px; margin-top: 18px; }
.head { display: flex; gap: 16px; justify-content: space-between; align-items: baseline; }
.answer { white-space: nowrap; font-weight: 600; } .none { color: var(--faint); font-weight: 400; }
.row { display: grid; grid-template-columns: 210px 1fr 52px 86px; gap: 12px; align-items: center; margin: 4px 0; }
.thumbs { display: flex; gap: 6px; margin: 10px 0 8px; grid-column: 2; }
.thumbs figure { flex: 1 1 0; margin: 0; min-width: 0; text-align: center; }
.thumbs img { max-width: 100%; max-height: 108px; border-radius: 3px; display: block; margin: 0 auto; }
.thumbs figcaption, .axis { color: var(--faint); font-size: 11px; font-variant-numeric: tabular-nums; }
.name { text-align: right; overflow-wrap: anywhere; font-size: 14px; }
.track { background: var(--track); height: 18px; border-radius: 3px; overflow: hidden; }
.track.time { height: 24px; } .track svg, .bar { display: block; width: 100%; height: 100%; }
.score { font-weight: 600; font-variant-numeric: tabular-nums; } .axis { display: flex; justify-content: space-between; }
.below { opacity: .55; } .alone .row { grid-template-columns: minmax(0, 1fr); } .alone .thumbs { grid-column: 1; }
.picture { max-width: 100%; display: block; margin: 8px 0; }
code { background: var(--track); padding: 1px 5px; border-radius: 3px; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
td, th { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
@media (max-width: 700px) { .head { flex-direction: column; gap: 2px; } .answer { white-space: normal; }
  .row { grid-template-columns: 110px minmax(0, 1fr) 44px; } .match, .thumbs figure:nth-child(even) { display: none; }
  .thumbs { grid-column: 1 / -1; } }
"""


def page(run: TaggingRun) -> str:
    """The run as one HTML page: for each video its thumbnails and its labels' scores, then what failed and why."""
    parts = [_header(run), *(_section(run, result) for result in run.done), _failures(run)]
    return document(f"Watchword: {len(run.done)} of {len(run.results)} videos tagged", "".join(parts))


def document(title: str, body: str) -> str:
    """A whole page of this HTML body; browsers are told to load nothing."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{escaped(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _header(run: TaggingRun) -> str:
    model, settings = run.model, run.settings
    weights = "" if str(model["weights"]) == str(model["name"]) else f" (weights: {escaped(str(model['weights']))})"
    facts = [
        f"model {escaped(str(model['name']))}{weights}",
        f"{model['num_frames']} frames of {model['image_size']} pixels",
        str(model["precision"]),
        f"{len(settings['labels'])} labels: {escaped(str(settings['labels_from']))}",
    ]
    if run.windowed:
        stride = settings.get("stride_seconds") or settings["window_seconds"]
        facts.append(f"windows of {settings['window_seconds']:g} s every {stride:g} s")
    if run.threshold is not None:
        facts.append(f"threshold {run.threshold:g}")
    failed = f", {len(run.failed)} failed" if run.failed else ""
    against = escaped(str(settings["match_against"]))
    meaning = (
        f"The score is a label's share among the labels given. The match is its share if it stood alone against a fixed background of "
        f"other things ({against}): it is low if no label fits."
        if against
        else "Score and match are both the probability that the label fits, each label by itself."
    )
    untrained = "" if model["trained"] else '<p class="warning">These weights were never trained: the scores mean nothing.</p>'
    return f"""<h1>Watchword</h1>
<p>{len(run.done)} of {len(run.results)} videos tagged{failed}</p>
<p class="faint">{" · ".join(facts)}</p>
<p class="faint">{meaning}</p>
{untrained}"""


def _section(run: TaggingRun, result: ClipResult) -> str:
    start, end = float(result.spans[0, 0]), float(result.spans[-1, 1])
    tags = run.tags(result)
    answer = f'<span class="answer">{escaped(tags[0].label)}</span>' if tags else f'<span class="answer none">{NONE_OF_THESE}</span>'
    rows = "".join(_row(run, result, label) for label in run.shown_labels(result))
    axis = ""
    if run.windowed:
        decimals = 0 if end - start > 10 else 1
        ticks = "".join(f"<span>{clock(time, decimals=decimals)}</span>" for time in np.linspace(start, end, 6))
        axis = f'<div class="row"><span></span><div class="axis">{ticks}</div></div>'
    notes = "".join(f'<p class="faint">note: {escaped(warning)}</p>' for warning in result.warnings)
    return f"""<section>
<div class="head"><h2>{escaped(result.path)}</h2><span>{answer} <span class="faint">{duration(end - start)}</span></span></div>
{thumbnail_row(result.path, span=(start, end))}
{rows}{axis}{notes}
</section>
"""


def thumbnail_row(path: str, *, span: tuple[float, float] | None = None) -> str:
    """Thumbnails of a video, or of a span of it in seconds, side by side with their times."""
    shown = thumbnails(path, NUM_THUMBNAILS, span=span, height=THUMBNAIL_PIXELS)
    decimals = 0 if shown and shown[-1].time_seconds - shown[0].time_seconds > 60 * (NUM_THUMBNAILS - 1) / NUM_THUMBNAILS else 1
    return f'<div class="row"><div class="thumbs">{"".join(_figure(thumbnail, decimals) for thumbnail in shown)}</div></div>'


def _figure(thumbnail: Thumbnail, decimals: int) -> str:
    out = io.BytesIO()
    Image.fromarray(thumbnail.rgb).save(out, format="JPEG", quality=JPEG_QUALITY)
    data = base64.b64encode(out.getvalue()).decode("ascii")
    time = clock(thumbnail.time_seconds, decimals=decimals)
    return f'<figure><img alt="frame at {time}" src="data:image/jpeg;base64,{data}"><figcaption>{time}</figcaption></figure>'


def _row(run: TaggingRun, result: ClipResult, label: int) -> str:
    score, match = float(result.over_time(result.scores)[label]), float(result.over_time(result.matches)[label])
    below = " below" if run.threshold is not None and min(score, match) < run.threshold else ""
    colour = run.colour(label)
    if run.windowed:
        track = f'<div class="track time">{_timeline(result, label, colour)}</div>'
    else:
        track = f'<div class="track"><div class="bar" style="width:{100 * score:.2f}%;background:{colour}"></div></div>'
    return f"""<div class="row{below}"><span class="name">{escaped(result.labels[label])}</span>{track}
<span class="score">{score:.2f}</span><span class="faint match">match {match:.2f}</span></div>
"""


def _timeline(result: ClipResult, label: int, colour: str) -> str:
    """The label's score over time as steps, in units of 1000 by 100."""
    start, end = result.spans[0, 0], result.spans[-1, 1]
    edges = 1000 * (np.append(result.spans[:, 0], end) - start) / max(end - start, 1e-9)
    steps = "".join(
        f"H{left:.1f}V{100 * (1 - score):.1f}H{right:.1f}"
        for left, right, score in zip(edges[:-1], edges[1:], result.scores[:, label], strict=True)
    )
    shape = f'<path fill="{colour}" d="M0 100{steps}V100Z"/>'
    return f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="score over time">{shape}</svg>'


def _failures(run: TaggingRun) -> str:
    return failure_table(
        [(result.path, result.failure.stage, result.failure.reason, str(result.failure.error)) for result in run.failed if result.failure]
    )


def failure_table(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """(file, stage, reason, message) of what could not be used; nothing if there is none."""
    if not rows:
        return ""
    lines = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<section><h2>Failed</h2><table><tr><th>file</th><th>stage</th><th>reason</th><th>message</th></tr>\n{lines}</table></section>"


def picture(png: bytes, what: str) -> str:
    """A PNG file, and in words what it shows."""
    return f'<img class="picture" alt="{escaped(what)}" src="data:image/png;base64,{base64.b64encode(png).decode("ascii")}">'


def escaped(text: str) -> str:
    """Any text as HTML shows it, on one line."""
    return escape(printable(text))
