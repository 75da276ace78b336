"""The page of a folder of records: what became of the videos, and some segments to look at."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from ..counted import counted
from ..datasets.record_folder import PreparedFolder
from ..reserve.preparing import REASONS
from ..reserve.records import Record, RecordSegment
from ..reserve.shards import RecordShards
from ..text.reserve import default_tokenizer
from .html import document, escaped
from .text import clock, duration

__all__ = ["page", "reason_lines"]

NUM_SAMPLES = 12
MAX_LISTED = 200

_STYLE = """<style>
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 20px 16px; margin-top: 14px; }
.samples figure { margin: 0; min-width: 0; } .samples img { width: 100%; display: block; border-radius: 3px; }
.samples .sound { height: 64px; margin-top: 3px; image-rendering: pixelated; }
.samples figcaption { font-size: 13px; margin-top: 6px; overflow-wrap: anywhere; } .number { text-align: right; width: 70px; }
</style>"""


def page(prepared: PreparedFolder) -> str:
    """The folder as one HTML page that needs nothing beside it."""
    title = f"Watchword: {prepared.manifest.videos['num_prepared']} videos prepared"
    return document(title, "".join([_STYLE, _header(prepared), _reasons(prepared), _samples(prepared), _left_out(prepared)]))


def reason_lines(prepared: PreparedFolder) -> list[tuple[str, int, str]]:
    """(reason, how many videos, what it means) of what was left out, the most frequent first; of what cannot be read the first message."""
    first: dict[str, str] = {}
    for video in prepared.rejected:
        first.setdefault(video.reason, video.message)
    counts: dict[str, int] = prepared.manifest.videos["by_reason"]
    return [
        (reason, count, REASONS.get(reason) or f"for example {first[reason]}")
        for reason, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _header(prepared: PreparedFolder) -> str:
    manifest = prepared.manifest
    videos = manifest.videos
    parts = [
        f"{part}: {counted(manifest.num_records(part), 'record')} of {counted(manifest.num_segments, 'segment')} "
        f"in {counted(len(manifest.shards(part)), 'shard')}"
        for part in ("train", "validation")
    ]
    left_out = f"{counted(videos['num_rejected'], 'video')} left out" if videos["num_rejected"] else "none left out"
    no_text = "" if manifest.settings.get("text") else '<p class="faint">without web text</p>'
    return f"""<h1>{escaped(prepared.folder.resolve().name)}</h1>
<p><b>{counted(videos["num_prepared"], "video")}</b>, {duration(videos["seconds"])} long together, gave
<b>{counted(videos["num_segments"], "segment")}</b>; {left_out}.</p>
<p>{" · ".join(parts)}</p>{no_text}"""


def _reasons(prepared: PreparedFolder) -> str:
    if not prepared.rejected:
        return ""
    rows = "".join(
        f'<tr><td class="number">{count}</td><td>{escaped(reason)}</td><td>{escaped(meaning)}</td></tr>\n'
        for reason, count, meaning in reason_lines(prepared)
    )
    head = '<tr><th class="number">videos</th><th>reason</th><th>meaning</th></tr>'
    return f"<section><h2>Why videos were left out</h2><table>{head}\n{rows}</table></section>"


def _samples(prepared: PreparedFolder) -> str:
    shards = RecordShards(prepared.folder)
    numbers = np.unique(np.linspace(0, len(shards) - 1, NUM_SAMPLES).round().astype(int))
    figures = [_figure(_telling(shards[int(number)], place)) for place, number in enumerate(numbers)]
    about = "One segment of some records: its frame, its sound as the model takes it (low notes at the bottom), and its words."
    return f'<section><h2>Samples</h2><p class="faint">{about}</p><div class="samples">{"".join(figures)}</div></section>'


def _telling(record: Record, place: int) -> RecordSegment:
    """A segment with words, each time another."""
    talking = [segment for segment in record.segments if segment.tokens] or record.segments
    return talking[place % len(talking)]


def _figure(segment: RecordSegment) -> str:
    words = default_tokenizer().decode(segment.tokens).strip() or "(no words)"
    span = f"{clock(segment.start_time, decimals=1)} to {clock(segment.end_time, decimals=1)}"
    facts = [escaped(segment.video_id), span]
    facts += [f"{segment.playback_speed} times faster"] * (segment.playback_speed > 1) + ["no sound"] * (not segment.has_sound)
    return f"""<figure>{_image("frame", "jpeg", segment.frame)}{_image("sound", "png", _spectrogram(segment))}
<figcaption>{escaped(words)}<br><span class="faint">{" · ".join(facts)}</span></figcaption></figure>
"""


def _spectrogram(segment: RecordSegment) -> bytes:
    """A PNG file, dark where it is loud, high notes at the top."""
    values = segment.log_mel().numpy().T[::-1]
    levels = 255 - np.clip(values * (235 / max(float(values.max()), 1.0)), 0, 235)
    out = io.BytesIO()
    Image.fromarray(levels.astype(np.uint8)).save(out, format="PNG")
    return out.getvalue()


def _image(what: str, format: str, data: bytes) -> str:
    return f'<img class="{what}" alt="{what}" src="data:image/{format};base64,{base64.b64encode(data).decode("ascii")}">'


def _left_out(prepared: PreparedFolder) -> str:
    if not prepared.rejected:
        return ""
    rows = "".join(
        f"<tr><td>{escaped(video.path)}</td><td>{escaped(video.reason)}</td><td>{escaped(video.message)}</td></tr>\n"
        for video in prepared.rejected[:MAX_LISTED]
    )
    more = len(prepared.rejected) - MAX_LISTED
    note = f'<p class="faint">and {more} more, see rejected.jsonl</p>' if more > 0 else ""
    return f"<section><h2>Left out</h2><table><tr><th>file</th><th>reason</th><th>message</th></tr>\n{rows}</table>{note}</section>"
