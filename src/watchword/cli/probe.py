"""``watchword probe``: what is in a media file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .notes import note

if TYPE_CHECKING:
    from ..media import MediaInfo

__all__ = ["probe"]


def probe(
    paths: list[Path] = typer.Argument(..., metavar="FILE...", help="Media files."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document with a row for each file."),
) -> None:
    """Say what is in media files: streams, sizes, times, and what is wrong with them.

    Exit codes: 0 all read, 1 some failed, 2 none could be read.
    """
    from ..errors import WatchwordError
    from ..media import probe as probe_file
    from ..report.text import fitting, printable, to_json

    rows: list[dict[str, Any]] = []
    for path in paths:
        try:
            info = probe_file(path)
        except WatchwordError as error:
            reason = getattr(error, "reason", type(error).__name__)
            rows.append({"path": str(path), "status": "failed", "reason": reason, "message": str(error)})
            note(f"failed: {printable(str(error))}")
            continue
        rows.append({"status": "done", **info.as_dict()})
        if not as_json:
            print("\n".join(fitting(printable(line), sys.stdout.encoding) for line in _lines(info)))
    if as_json:
        print(to_json(rows, indent=2))
    num_failed = sum(row["status"] == "failed" for row in rows)
    raise typer.Exit(0 if not num_failed else 2 if num_failed == len(rows) else 1)


def _lines(info: MediaInfo) -> list[str]:
    from ..report.text import clock

    length = "length not stated" if info.duration_seconds_hint is None else f"{clock(info.duration_seconds_hint, decimals=2)} by its header"
    lines = [info.path, f"  {info.container}, {info.num_bytes / 1e6:,.2f} MB, {length}"]
    if info.video:
        video = info.video
        rate = f", {video.frame_rate_hint:.3g} frames/s" if video.frame_rate_hint else ""
        turned = f", turned by {video.rotation}°" if video.rotation else ""
        lines.append(f"  video {video.stream}: {video.codec}, {video.width}x{video.height}, {video.bit_depth} bit{rate}{turned}")
    if info.audio:
        audio = info.audio
        lines.append(f"  sound {audio.stream}: {audio.codec}, {audio.sample_rate} Hz, {audio.channel_layout}")
    lines += [f"  words {words.stream}: {words.codec}, {words.language or 'language not stated'}" for words in info.subtitles]
    return lines + [f"  note: {warning}" for warning in info.warnings]
