"""Records, what MERLOT Reserve learns from: some segments of video with frame, sound and timed words, and stretches of web text.

A record is kept as a handful of named files (members of a WebDataset sample, see `shards`), which any reader of tar archives can take out
and look at. What is read back may come from anywhere, so that every member is checked before it is used.

Source: merlot-reserve-data spec sections 9 and 20; defect D1.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from ..errors import InputError
from ..text.reserve import RESETCTX
from . import spectrogram as sp
from .rows import SegmentWords
from .segmentation import MAX_SPEED

__all__ = ["FORMAT_VERSION", "Record", "RecordSegment", "RecordVideo", "members_of", "record_from"]

FORMAT_VERSION: Literal[1] = 1

_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_MAX_SIDE, _MAX_PIXELS = 1 << 14, 1 << 24
_MAX_JSON_BYTES = 32 << 20
_MAX_SECONDS = 1e7
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning)


@dataclass(frozen=True)
class RecordSegment:
    """One segment of a record.

    video_id: of the video it is cut from.  video_src_index: number of that video within the record, from 0.
    playback_speed: 1, 2 or 3; sound is played, and words are timed, so many times faster.
    start_time, end_time: seconds of the video, as it plays.
    tokens: ids of its words.  token_starts, token_ends: of each, in seconds since the segment's start, in the sped-up clock; they may
        lie a little outside 0 to 5.
    frame: a JPEG file of `width` x `height` pixels.
    spectrogram: a PNG or JPEG file of 188 x 64 grey pixels, the lowest band first, which hold log-mel values times `magic_number`.
    has_sound: False where the video has no sound to hear; the spectrogram is of silence then.
    source: where it was read, for messages.
    """

    video_id: str
    video_src_index: int
    playback_speed: int
    start_time: float
    end_time: float
    tokens: tuple[int, ...]
    token_starts: tuple[float, ...]
    token_ends: tuple[float, ...]
    width: int
    height: int
    magic_number: float
    frame: bytes = field(repr=False)
    spectrogram: bytes = field(repr=False)
    has_sound: bool = True
    source: str = field(default="", compare=False, repr=False)

    def image(self) -> npt.NDArray[np.uint8]:
        """uint8 (height, width, 3): the frame. Raises InputError if it is damaged or of another size than stated."""
        return _decoded(self.frame, ("JPEG",), "RGB", (self.width, self.height), f"{self._named('frame')}")

    def log_mel(self) -> Tensor:
        """float32 (188, 64): the log-mel spectrogram, as `spectrogram.subsegments` takes it. Raises InputError if it is damaged."""
        levels = _decoded(self.spectrogram, ("PNG", "JPEG"), "L", (sp.SEGMENT_HOPS, sp.NUM_BANDS), f"{self._named('spectrogram')}")
        return sp.stored_values(levels, self.magic_number)

    def _named(self, what: str) -> str:
        return f"{self.source + ': ' if self.source else ''}{what} of {self.video_id!r} at {self.start_time:g} s"


@dataclass(frozen=True)
class RecordVideo:
    """What is known of a whole video: token ids of its title, description and tags, and anything else as plain JSON values."""

    title: tuple[int, ...] = ()
    description: tuple[int, ...] = ()
    tags: tuple[int, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Record:
    """Segments in order, and what belongs to them.

    key: unlike that of any other record.  videos: one for each `video_src_index`.
    web_text: int32 (n, length) stretches of token ids, or None.

    Raises InputError if the parts do not fit together: times out of order or not finite, ids below 10 (which are no words'), video
    numbers that do not count up from 0 as the video ids change.
    """

    key: str
    segments: tuple[RecordSegment, ...]
    videos: tuple[RecordVideo, ...]
    web_text: npt.NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise InputError(f"record key {self.key!r}; give at most 64 letters, digits, _ and -")
        for number, segment in enumerate(self.segments):
            if problem := _problem(segment):
                raise InputError(f"record {self.key}, segment {number}: {problem}")
        _check_videos(self)
        if self.web_text is not None and (self.web_text.dtype != np.int32 or self.web_text.ndim != 2 or (self.web_text < 0).any()):
            raise InputError(f"record {self.key}: web text must be int32 (stretches, length) token ids")

    def words(self) -> list[SegmentWords]:
        """The segments as `masking` takes them; title, description and tags stand on each video's first one."""
        found: list[SegmentWords] = []
        for segment in self.segments:
            first = not found or found[-1].video != segment.video_src_index
            video = self.videos[segment.video_src_index] if first else RecordVideo()
            found.append(
                SegmentWords(
                    tokens=segment.tokens,
                    starts=segment.token_starts,
                    ends=segment.token_ends,
                    start_time=segment.start_time,
                    end_time=segment.end_time,
                    video=segment.video_src_index,
                    has_sound=segment.has_sound,
                    title=video.title,
                    description=video.description,
                    tags=video.tags,
                )
            )
        return found


def _problem(segment: RecordSegment) -> str:
    """What cannot be in a segment, or nothing."""
    times = [segment.start_time, segment.end_time, *segment.token_starts, *segment.token_ends]
    if not (np.abs(times) < _MAX_SECONDS).all() or segment.start_time >= segment.end_time:
        return "its times are not finite, or not in order"
    if not segment.video_id.isprintable() or not segment.video_id:
        return f"video id {segment.video_id!r} is no plain text"
    if not len(segment.tokens) == len(segment.token_starts) == len(segment.token_ends):
        return f"{len(segment.tokens)} tokens, {len(segment.token_starts)} start and {len(segment.token_ends)} end times"
    if min(segment.tokens, default=RESETCTX + 1) <= RESETCTX:
        return f"token id {min(segment.tokens)} is no word's"
    if not 1 <= segment.playback_speed <= MAX_SPEED:
        return f"playback speed {segment.playback_speed}; it must be from 1 to {MAX_SPEED}"
    if not 0 < segment.magic_number < np.inf:
        return f"magic number {segment.magic_number}; it must be positive"
    sides = (segment.width, segment.height)
    if not (min(sides) > 0 and max(sides) <= _MAX_SIDE and segment.width * segment.height <= _MAX_PIXELS):
        return f"a frame of {segment.width}x{segment.height} pixels"
    if not segment.frame.startswith(_JPEG) or not segment.spectrogram.startswith((_PNG, _JPEG)):
        return "its frame must be a JPEG file, its spectrogram a PNG or JPEG file"
    return ""


def _check_videos(record: Record) -> None:
    numbers = [segment.video_src_index for segment in record.segments]
    if not numbers or numbers[0] != 0 or numbers[-1] + 1 != len(record.videos):
        raise InputError(f"record {record.key}: {len(record.videos)} videos, but its segments count {numbers[:1]} to {numbers[-1:]}")
    for one, other in pairwise(record.segments):
        if other.video_src_index - one.video_src_index != int(one.video_id != other.video_id):
            raise InputError(f"record {record.key}: video numbers must rise by one where the video id changes, and only there")


def _decoded(data: bytes, formats: tuple[str, ...], mode: str, size: tuple[int, int], what: str) -> npt.NDArray[np.uint8]:
    """A picture file as pixels; its size is checked before anything is decoded."""
    try:
        with Image.open(io.BytesIO(data), formats=formats) as picture:
            if picture.size != size or picture.mode != mode:
                raise ValueError(f"{picture.mode} of {picture.size[0]}x{picture.size[1]} pixels, not {mode} of {size[0]}x{size[1]}")
            return np.asarray(picture)
    except _PILLOW_ERRORS as error:
        raise InputError(f"{what} cannot be decoded ({error}); write the shard again") from None


class _Json(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class _SegmentJson(_Json):
    youtube_id: str = Field(min_length=1)
    video_src_index: int
    playback_speed: int
    start_time: float
    end_time: float
    tok_ids: list[int]
    tok_start_times: list[float]
    tok_end_times: list[float]
    magic_number: float
    width: int
    height: int
    has_sound: bool
    frame_sha256: str
    spectrogram_sha256: str


_Ids = list[Annotated[int, Field(gt=RESETCTX, lt=2**31)]]


class _RecordJson(_Json):
    version: Literal[1]
    segments: list[_SegmentJson] = Field(min_length=1)
    title: list[_Ids]
    description: list[_Ids]
    tags: list[_Ids]
    meta: list[dict[str, Any]]


def members_of(record: Record) -> list[tuple[str, bytes]]:
    """The record as (name, content) of the files of its sample, in the order in which they are written."""
    segments, videos = record.segments, record.videos
    content = _RecordJson.model_construct(
        version=FORMAT_VERSION,
        segments=[_segment_json(segment) for segment in segments],
        title=[video.title for video in videos],
        description=[video.description for video in videos],
        tags=[video.tags for video in videos],
        meta=[dict(video.meta) for video in videos],
    )
    text = json.dumps(content.model_dump(warnings=False), separators=(",", ":"), allow_nan=False)
    members = [(f"{record.key}.json", text.encode())]
    members += [(f"{record.key}.c{number:02}.jpg", segment.frame) for number, segment in enumerate(segments)]
    for number, segment in enumerate(segments):
        ending = "png" if segment.spectrogram.startswith(_PNG) else "jpg"
        members.append((f"{record.key}.s{number:02}.{ending}", segment.spectrogram))
    if record.web_text is not None:
        out = io.BytesIO()
        np.lib.format.write_array(out, np.ascontiguousarray(record.web_text, "<i4"), version=(1, 0))
        members.append((f"{record.key}.webtext.npy", out.getvalue()))
    return members


def _segment_json(segment: RecordSegment) -> _SegmentJson:
    return _SegmentJson.model_construct(
        youtube_id=segment.video_id,
        video_src_index=segment.video_src_index,
        playback_speed=segment.playback_speed,
        start_time=segment.start_time,
        end_time=segment.end_time,
        tok_ids=segment.tokens,
        tok_start_times=segment.token_starts,
        tok_end_times=segment.token_ends,
        magic_number=segment.magic_number,
        width=segment.width,
        height=segment.height,
        has_sound=segment.has_sound,
        frame_sha256=hashlib.sha256(segment.frame).hexdigest(),
        spectrogram_sha256=hashlib.sha256(segment.spectrogram).hexdigest(),
    )


def record_from(key: str, members: Mapping[str, bytes | memoryview], *, source: str = "") -> Record:
    """The record of this key from the files of its sample.

    source: where they were found, for messages. Raises InputError, in one line that names source and key, for a member that is missing,
    too many, damaged, of another version or not what it should be.
    """
    where = f"{source}: record {key!r}" if source else f"record {key!r}"
    try:
        return _record_from(key, members, where)
    except (ValueError, RecursionError) as error:
        problem = _first_problem(error) if isinstance(error, ValidationError) else str(error).removeprefix(f"record {key}").lstrip(":, ")
        raise InputError(f"{where}: {problem}; write the shard again") from None


def _record_from(key: str, members: Mapping[str, bytes | memoryview], where: str) -> Record:
    text = members.get(f"{key}.json", b"")
    if not 0 < len(text) <= _MAX_JSON_BYTES:
        raise ValueError(f"its .json has {len(text)} bytes")
    content = _RecordJson.model_validate_json(bytes(text))
    lists = (content.title, content.description, content.tags, content.meta)
    if len({len(part) for part in lists}) != 1:
        raise ValueError(f"{', '.join(str(len(part)) for part in lists)} titles, descriptions, tags and meta; there must be equally many")
    names = {f"{key}.json", f"{key}.webtext.npy"}
    segments = []
    for number, stated in enumerate(content.segments):
        frame, sound = f"{key}.c{number:02}.jpg", f"{key}.s{number:02}.png"
        if sound not in members:
            sound = f"{key}.s{number:02}.jpg"
        names |= {frame, sound}
        segments.append(
            RecordSegment(
                video_id=stated.youtube_id,
                video_src_index=stated.video_src_index,
                playback_speed=stated.playback_speed,
                start_time=stated.start_time,
                end_time=stated.end_time,
                tokens=tuple(stated.tok_ids),
                token_starts=tuple(stated.tok_start_times),
                token_ends=tuple(stated.tok_end_times),
                width=stated.width,
                height=stated.height,
                magic_number=stated.magic_number,
                frame=_intact(members, frame, stated.frame_sha256),
                spectrogram=_intact(members, sound, stated.spectrogram_sha256),
                has_sound=stated.has_sound,
                source=where,
            )
        )
    if unknown := set(members) - names:
        raise ValueError(f"a file {min(unknown)!r} that no record has")
    videos = tuple(RecordVideo(tuple(a), tuple(b), tuple(c), meta) for a, b, c, meta in zip(*lists, strict=True))
    return Record(key, tuple(segments), videos, _web_text(members.get(f"{key}.webtext.npy")))


def _intact(members: Mapping[str, bytes | memoryview], name: str, sha256: str) -> bytes:
    if name not in members:
        raise ValueError(f"its {name!r} is missing")
    data = bytes(members[name])
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"its {name!r} is damaged: its SHA-256 is not the one stated")
    return data


def _web_text(data: bytes | memoryview | None) -> npt.NDArray[np.int32] | None:
    """The array of a .npy file, whose header must fit its length before any memory is taken."""
    if data is None:
        return None
    file = io.BytesIO(bytes(data))
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("not version 1.0")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # numpy evaluates the header as a Python literal, and lets any error of that through
        raise ValueError(f"its web text is no .npy file ({type(error).__name__}: {' '.join(str(error).split())[:100]})") from None
    body = file.read()
    if dtype != np.dtype("<i4") or by_columns or len(shape) != 2 or shape[0] * shape[1] * 4 != len(body) or not len(body):
        raise ValueError(f"its web text is {dtype} {shape} of {len(body)} bytes; it must be int32 (stretches, length)")
    return np.frombuffer(body, "<i4").astype(np.int32).reshape(shape)


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"in its .json {place + ': ' if place else ''}{' '.join(first['msg'].split())[:200]}"
