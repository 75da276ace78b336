"""Subtitles as cues and timed words, from a file of their own, from a side-car file beside a video, or from inside a video."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import av.error
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream

from watchword.media.cues import Cue, Fragment, RawCue, Repair, Subtitles, Word, finish_cues
from watchword.media.errors import LimitError, MediaError, NoSubtitlesError
from watchword.media.languages import same_language
from watchword.media.limits import DEFAULT_LIMITS, Limits
from watchword.media.opening import Path, open_container, open_file
from watchword.media.probe import read_only
from watchword.media.text_encoding import NotTextError, decode_text
from watchword.media.timed_text import ass_lines, is_timing_line, read_ass, read_cue_blocks, vtt_language, vtt_line
from watchword.media.youtube import read_json3, read_xml

__all__ = ["Cue", "Repair", "Subtitles", "Word", "parse_subtitles", "read_subtitles"]

_MAX_TEXT_BYTES = 64 << 20
_HEAD_BYTES = 1 << 16
# In order of preference: the formats that can time words first.
_SIDE_CAR_ENDINGS = ("json3", "srv3", "vtt", "ass", "ssa", "srt", "srv1", "xml")
_LANGUAGE_TAG = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")


def read_subtitles(
    path: Path,
    *,
    language: str | None = None,
    track: int | None = None,
    encoding: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Subtitles:
    """Read subtitles as cues and timed words.

    path: a subtitle file (WebVTT, SubRip, ASS or SSA, YouTube's json3, srv1 and srv3, whatever its name), or a video. For a video the
    files beside it are tried first (`clip.vtt`, `clip.en.srt`, ... for `clip.mp4`), then the text tracks inside it.
    language: a tag such as "en" or "eng" (default: any; of the tracks inside, the one marked default). What states no language is taken
    to be in the one asked for, if nothing of its kind states it. A subtitle file that is given itself is read whatever its language.
    track: index of the stream inside the video; no side-car is looked at then.
    encoding: of a subtitle file. Default: byte order mark, UTF-8, UTF-16, and Windows-1252 as a last guess, which the report tells.

    Times are seconds: as written, in a file; on the container's clock, the same as `VideoReader.times`, for tracks inside a video.

    Raises:
        NoSubtitlesError: the video has none (in that language), or the file holds no cue that can be read.
        MediaError: another subclass, where the file cannot be opened or is neither subtitles nor media.
    """
    if track is None:
        head = _read(path, limits, _HEAD_BYTES)
        if _looks_like_subtitles(head) or _ending(path) in _SIDE_CAR_ENDINGS:
            return _read_file(path, encoding, limits)
        notes: list[Repair] = []
        for side_car, tag in _side_cars(path, language):
            try:
                found = _read_file(side_car, encoding, limits, language=tag, notes=notes)
            except MediaError as error:
                notes.append(Repair(str(error), "side-car left out"))
                continue
            if language is None or found.language is None or same_language(found.language, language):
                return found
        return _read_track(path, language, None, limits, notes)
    return _read_track(path, language, track, limits, [])


def parse_subtitles(text: str, *, source: str = "<text>", keep_tags: bool = False) -> Subtitles:
    """Like `read_subtitles`, for the text of a subtitle file. keep_tags: tags and entities of SubRip stay in the text.

    Raises NoSubtitlesError if it is of no known format or has no cue.
    """
    kind = _format(text)
    report: list[Repair] = []
    try:
        if kind == "json3":
            raw_cues = list(read_json3(text, report))
        elif kind == "xml":
            kind, raw_cues = read_xml(text, report)
        elif kind == "ass":
            raw_cues = list(read_ass(text, report))
        elif kind is not None:
            raw_cues = list(read_cue_blocks(text, vtt=kind == "vtt", report=report, keep_tags=keep_tags))
        else:
            raise ValueError("not subtitles in a known format (WebVTT, SubRip, ASS, YouTube's json3 or XML)")
    except ValueError as error:
        raise NoSubtitlesError(source, f"{error}; check what the file holds") from None
    cues = finish_cues(raw_cues, report)
    if not cues and report:
        raise NoSubtitlesError(source, f"no cue can be read ({report[0]}); check what the file holds")
    language = vtt_language(text) if kind == "vtt" else None
    return Subtitles(cues=cues, report=tuple(report), format=str(kind), language=language, source=source)


def _format(text: str) -> str | None:
    """The format by content: the extension of a file is often wrong."""
    start = text[:_HEAD_BYTES].lstrip()
    if start.startswith("WEBVTT"):
        return "vtt"
    if start.startswith("{") and '"events"' in text:
        return "json3"
    if start.startswith("<") and re.search(r"<(transcript|timedtext)\b", start):
        return "xml"
    if re.search(r"^[ \t]*(\[Script Info\]|\[Events\]|Dialogue:)", start, re.MULTILINE | re.IGNORECASE):
        return "ass"
    return "srt" if any(is_timing_line(line) for line in start.split("\n")) else None


def _looks_like_subtitles(head: bytes) -> bool:
    try:
        text, _, _ = decode_text(head)
    except NotTextError:
        return False
    return _format(text) is not None


def _read(path: Path, limits: Limits, num_bytes: int) -> bytes:
    descriptor, _ = open_file(path, limits)
    with open(descriptor, "rb") as file:
        return file.read(num_bytes)


def _read_file(
    path: Path, encoding: str | None, limits: Limits, *, language: str | None = None, notes: list[Repair] | None = None
) -> Subtitles:
    data = _read(path, limits, _MAX_TEXT_BYTES + 1)
    if len(data) > _MAX_TEXT_BYTES:
        raise LimitError(path, f"more than {_MAX_TEXT_BYTES} bytes, too long for a subtitle file; check what it holds")
    try:
        text, encoding, remark = decode_text(data, encoding=encoding)
    except NotTextError as error:
        raise NoSubtitlesError(path, f"{error}; check what the file holds, or pass its `encoding`") from None
    found = parse_subtitles(text, source=os.fsdecode(path))
    remarks = [*(notes or []), *([Repair(remark, "letters may be wrong")] if remark else [])]
    return Subtitles(
        cues=found.cues,
        report=(*remarks, *found.report),
        format=found.format,
        encoding=encoding,
        language=found.language or language,
        source=found.source,
    )


def _ending(path: Path) -> str:
    return os.path.splitext(os.fsdecode(path))[1].removeprefix(".").lower()


def _side_cars(path: Path, language: str | None) -> Iterator[tuple[str, str | None]]:
    """Subtitle files named after the video with the language tag of their names, the best first."""
    folder, name = os.path.split(os.fsdecode(path))
    stem = os.path.splitext(name)[0] + "."
    found = []
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return
    for other in names:
        *tags, ending = other.removeprefix(stem).split(".")
        if not other.startswith(stem) or ending.lower() not in _SIDE_CAR_ENDINGS:
            continue
        if tags and not _LANGUAGE_TAG.fullmatch(tags[0]):
            continue  # of another video: clip.part2.srt belongs to clip.part2.mp4
        tag = tags[0] if tags else None
        if language is None or tag is None or same_language(tag, language):
            untagged = (tag is None) != (language is None)
            found.append((untagged, len(tags), _SIDE_CAR_ENDINGS.index(ending.lower()), os.path.join(folder, other), tag))
    for *_, side_car, tag in sorted(found, key=lambda entry: entry[:4]):
        yield side_car, tag


def _read_track(path: Path, language: str | None, track: int | None, limits: Limits, notes: list[Repair]) -> Subtitles:
    with open_container(path, limits) as container:
        stream = _choose_track(path, container, language, track)
        read_only(container, stream)
        report = list(notes)
        cues = finish_cues(_track_cues(container, stream, report), report)
        return Subtitles(
            cues=cues,
            report=tuple(report),
            format=stream.codec_context.codec.canonical_name,
            language=stream.language,
            source=os.fsdecode(path),
            track=stream.index,
        )


def _choose_track(path: Path, container: InputContainer, language: str | None, track: int | None) -> Stream:
    """The track asked for, else the default one. Tracks that are pictures (DVD, Blu-ray) cannot be read."""
    texts = [s for s in container.streams.subtitles if s.codec_context is not None and s.codec_context.codec.text_sub]
    listing = ", ".join(f"stream {s.index} ({s.language or 'language not stated'})" for s in texts)
    if track is not None:
        for stream in texts:
            if stream.index == track:
                return stream
        raise NoSubtitlesError(path, f"no text subtitles; those are: {listing or 'none'}", stream=track)
    stated = [s for s in texts if s.language and s.language != "und"]
    wanted = [s for s in stated if language is None or same_language(s.language or "", language)]
    choice = wanted + [s for s in texts if s not in stated]
    if not choice:
        what = "no subtitles" if language is None else f"no subtitles in language {language!r}"
        beside = ", neither inside nor beside it (a file of the same name ending in .vtt, .srt, ...)"
        raise NoSubtitlesError(path, what + (f"; there are: {listing}" if listing else beside))
    return max(choice, key=lambda s: (bool(s.disposition & Disposition.default), s in wanted, -s.index))


def _track_cues(container: InputContainer, stream: Stream, report: list[Repair]) -> Iterator[RawCue]:
    """Cues of a track. One without a duration is shown until the next one starts."""
    waiting: RawCue | None = None
    for packet in _packets(container, stream, report):
        if packet.pts is None or packet.time_base is None:
            continue
        start = float(packet.pts * packet.time_base)
        if waiting is not None:
            waiting.end = max(waiting.start, start)
            yield waiting
            waiting = None
        lines, voices = _payload(packet, start, report)
        end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
        cue = RawCue(start, end, lines, voices=voices)
        if not any(text.strip() for line in lines for _, text in line):
            continue  # what clears the screen between two cues
        if packet.duration:
            yield cue
        else:
            waiting = cue
    if waiting is not None:
        yield waiting


def _packets(container: InputContainer, stream: Stream, report: list[Repair]) -> Iterator[Packet[Any]]:
    try:
        yield from container.demux(stream)
    except av.error.FFmpegError as error:
        report.append(Repair(f"the file breaks off or is damaged ({error.strerror})", "cues up to there kept"))


def _payload(packet: Packet[Any], start: float, report: list[Repair]) -> tuple[list[list[Fragment]], tuple[str, ...]]:
    """(lines, voices) of a packet. FFmpeg's decoders turn all formats into ASS, which would lose the word times of WebVTT alone."""
    if packet.stream.codec_context.codec.canonical_name == "webvtt":
        return [vtt_line(line) for line in bytes(packet).decode("utf-8", errors="replace").splitlines()], ()
    try:
        found: list[Any] = packet.decode()
    except av.error.FFmpegError as error:
        report.append(Repair(f"damaged cue at {start:.3f} s ({error.strerror})", "cue dropped"))
        return [], ()
    events = [event.ass.decode("utf-8", errors="replace").split(",", 8) for event in found]
    events = [event for event in events if len(event) == 9]
    lines = [line for event in events for line in ass_lines(event[8], start)]
    return lines, tuple(event[3] for event in events if event[3])
