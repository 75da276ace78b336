"""TVQA as its owners publish it: questions about clips of television series, their frames, subtitles and sound.

A folder holds, as unpacked from the owners' archives (or below ``tvqa_qa_release`` and ``tvqa_frames``, as Reserve's authors had it):

* ``tvqa_train.jsonl``, ``tvqa_val.jsonl``, ``tvqa_test_public.jsonl``;
* ``frames_hq/castle_frames/castle_s01e02_seg02_clip_09/00001.jpg`` and so on, three frames a second;
* ``tvqa_subtitles/castle_s01e02_seg02_clip_09.srt``;
* ``audio/castle_s01e02_seg02_clip_09.mp3``, or the owners' ``audios/castle/castle_audios/...``, or any media files of these names.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..errors import ConfigError, InputError
from ..files import read_text
from ..media import read_sound
from ..media.errors import NoAudioError, NoSubtitlesError
from ..media.subtitles import parse_subtitles
from ..media.text_encoding import NotTextError, decode_text
from ..reserve import spectrogram as sp
from ..reserve.images import UInt8, stored_size
from ..reserve.segmentation import Span
from .tvqa_windows import Windows, frame_number, texts_of, windows_around

__all__ = ["FILES", "NUM_CHOICES", "OWNERS", "TERMS", "Split", "TvqaExample", "TvqaFolder", "TvqaItem", "most_frequent_label", "read_items"]

Split = Literal["train", "val", "test"]
FILES: dict[Split, str] = {"train": "tvqa_train.jsonl", "val": "tvqa_val.jsonl", "test": "tvqa_test_public.jsonl"}
NUM_CHOICES = 5
OWNERS = "https://tvqa.cs.unc.edu"
TERMS = "frames and sound after signing a form, and not to be shared"
WINDOW_HOPS = sp.SUBSEGMENTS * sp.SUBSEGMENT_HOPS

_SHOWS = ("bbt", "castle", "friends", "grey", "house", "met")
_WITHOUT_PREFIX = "bbt"
_CLIP = re.compile(r"(?:([a-z]+)_)?s\d+e\d+_[A-Za-z0-9_]+", re.ASCII)
_SOUND_SUFFIXES = (".mp3", ".wav", ".m4a", ".mp4", ".mkv")
_FRAME = re.compile(r"(\d+)\.jpe?g", re.IGNORECASE | re.ASCII)
_SHORT, _LONG = 450, 800  # most pixels of a frame's sides
# Sound is resampled to this rate and then taken to be of 22050 Hz, so that a window of 14/3 seconds has 180 hops.
_SOUND_RATE = 22620
_PILLOW_ERRORS = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


@dataclass(frozen=True)
class TvqaItem:
    """A question.

    moment: (start, end) in seconds of the clip that it is about, or None.  label: the right choice; None in the test part.
    """

    qid: int
    question: str
    choices: tuple[str, ...]
    clip: str
    moment: tuple[float, float] | None
    label: int | None

    @property
    def show(self) -> str:
        """The series' short name, as folders have it. Clips of one series are named without it."""
        match = _CLIP.fullmatch(self.clip)
        return (match[1] if match else None) or _WITHOUT_PREFIX


def read_items(path: Path) -> list[TvqaItem]:
    """The questions of a file, in its order. Raises ConfigError, naming file and row, for one that is of another form."""
    text = read_text(path, "questions", error=ConfigError)
    items = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{str(path)!r}, row {number}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ConfigError(f"{where}: not JSON ({error}); TVQA has an object a line") from None
            items.append(_item(row, where))
    if not items:
        raise ConfigError(f"{str(path)!r}: no question in it")
    twice = [qid for qid, count in Counter(item.qid for item in items).items() if count > 1]
    if twice:
        raise ConfigError(f"{str(path)!r}: question {twice[0]} is there twice; take the file as its owners give it")
    return items


def _item(row: Any, where: str) -> TvqaItem:
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: not an object with qid, q, a0 to a4, ts and vid_name")
    texts = {key: row.get(key) for key in ("q", *(f"a{i}" for i in range(NUM_CHOICES)), "vid_name", "ts")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {key} is {value!r}, but must be a text")
    qid, label = row.get("qid"), row.get("answer_idx")
    if not _is_number(qid) or qid < 0:
        raise ConfigError(f"{where}: qid is {qid!r}, but must be a whole number")
    if label is not None and not (_is_number(label) and 0 <= label < NUM_CHOICES):
        raise ConfigError(f"{where}: answer_idx is {label!r}, but must be from 0 to {NUM_CHOICES - 1}")
    clip = str(row["vid_name"])
    match = _CLIP.fullmatch(clip)
    if match is None or (match[1] or _WITHOUT_PREFIX) not in _SHOWS:
        raise ConfigError(f"{where}: vid_name is {clip!r}, but must be like castle_s01e02_seg02_clip_09, of one of {', '.join(_SHOWS)}")
    choices = tuple(str(row[f"a{i}"]) for i in range(NUM_CHOICES))
    return TvqaItem(qid, str(row["q"]), choices, clip, _moment(str(row["ts"]), where), label)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _moment(text: str, where: str) -> tuple[float, float] | None:
    """``12.3-45.6`` in seconds; ``nan-nan``, where nobody marked a moment, is None."""
    try:
        start, end = (float(part) for part in text.split("-"))
    except ValueError:
        raise ConfigError(f"{where}: ts is {text!r}, but must be two times in seconds such as 12.3-45.6, or nan-nan") from None
    if math.isinf(start) or math.isinf(end):
        raise ConfigError(f"{where}: ts is {text!r}, but must be two times in seconds")
    return None if math.isnan(start) or math.isnan(end) else (start, end)


def most_frequent_label(items: Sequence[TvqaItem]) -> int | None:
    """The smallest of them, if several are; None if no item has a label."""
    counts = Counter(item.label for item in items if item.label is not None)
    return min(counts, key=lambda label: (-counts[label], label)) if counts else None


@dataclass(frozen=True, eq=False)
class TvqaExample:
    """What there is to see, hear and read around a question's moment, of at most seven windows.

    frames: one each, uint8 (height, width, 3).  log_mels: float32 (windows, 180, 64); 0 where there is no sound.  texts: the subtitles.
    notes: what is missing, a line each.
    """

    windows: Windows
    frames: tuple[UInt8, ...]
    log_mels: Tensor
    texts: tuple[str, ...]
    notes: tuple[str, ...] = ()


class TvqaFolder:
    """Where the files of a data set are."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def items(self, split: Split) -> list[TvqaItem]:
        """The questions of a part. Raises ConfigError if its file is missing or of another form."""
        path = self.questions(split)
        if path is None:
            raise ConfigError(f"{str(self.folder)!r} has no {FILES[split]}; TVQA is given at {OWNERS}: {TERMS}")
        return read_items(path)

    def questions(self, split: Split) -> Path | None:
        """The file of a part, if it is there."""
        return self._first(FILES[split], f"tvqa_qa_release/{FILES[split]}", is_folder=False)

    @property
    def frames(self) -> Path | None:
        return self._first("frames_hq", "tvqa_frames/frames_hq", is_folder=True)

    @property
    def subtitles(self) -> Path | None:
        return self._first("tvqa_subtitles", is_folder=True)

    @property
    def sounds(self) -> Path | None:
        return self._first("audio", "audios", "tvqa_frames/audios", is_folder=True)

    def _first(self, *names: str, is_folder: bool) -> Path | None:
        paths = [self.folder / name for name in names]
        return next((path for path in paths if (path.is_dir() if is_folder else path.is_file())), None)

    def frames_of(self, item: TvqaItem) -> Path | None:
        """The folder of the clip's frames, if it is there."""
        path = None if self.frames is None else self.frames / f"{item.show}_frames" / item.clip
        return path if path is not None and path.is_dir() else None

    def subtitles_of(self, item: TvqaItem) -> Path | None:
        path = None if self.subtitles is None else self.subtitles / f"{item.clip}.srt"
        return path if path is not None and path.is_file() else None

    def sound_of(self, item: TvqaItem) -> Path | None:
        """The clip's sound, if it is there, in the owners' folders or beside one another."""
        places = ("", f"{item.show}/{item.show}_audios", f"{item.show}_new/{item.show}_audios", f"{item.show}_audios")
        if self.sounds is None:
            return None
        paths = (self.sounds / place / f"{item.clip}{suffix}" for place in places for suffix in _SOUND_SUFFIXES)
        return next((path for path in paths if path.is_file()), None)

    def read(self, item: TvqaItem) -> TvqaExample:
        """All that belongs to a question. A clip without sound or subtitles has a note.

        Raises InputError if it has no frames or one cannot be read, and MediaError if sound or subtitles are there but cannot be read.
        """
        folder = self.frames_of(item)
        numbers = {} if folder is None else _numbered_frames(folder)
        if folder is None or not numbers:
            raise InputError(f"clip {item.clip}: no frames; they belong into frames_hq/{item.show}_frames/{item.clip}")
        num_frames = max(numbers)
        windows = windows_around(item.moment, num_frames)
        paths = [numbers.get(frame_number(span, num_frames)) for span in windows.spans]
        seen = [(span, path) for span, path in zip(windows.spans, paths, strict=True) if path is not None]
        if not seen:
            raise InputError(f"clip {item.clip}: none of the frames that are needed is among the {len(numbers)} in {str(folder)!r}")
        notes = [f"clip {item.clip}: {len(paths) - len(seen)} frames are missing"] if len(seen) < len(paths) else []
        spans = [span for span, _ in seen]
        subtitles, sound = self.subtitles_of(item), self.sound_of(item)
        notes += [f"clip {item.clip}: no {what}" for what, path in (("subtitles", subtitles), ("sound", sound)) if path is None]
        return TvqaExample(
            Windows(tuple(spans), windows.located),
            tuple(_read_frame(path) for _, path in seen),
            _silence(len(spans)) if sound is None else window_sounds(sound, spans),
            tuple([""] * len(spans) if subtitles is None else _read_texts(subtitles, spans)),
            tuple(notes),
        )


def _numbered_frames(folder: Path) -> Mapping[int, Path]:
    found = ((_FRAME.fullmatch(entry.name), entry.path) for entry in os.scandir(folder))
    return {int(match[1]): Path(path) for match, path in found if match}


def _read_frame(path: Path) -> UInt8:
    try:
        with Image.open(path, formats=("JPEG",)) as picture:
            size = stored_size(*picture.size, short=_SHORT, long=_LONG)
            frame = picture.convert("RGB")
            return np.asarray(frame if size == picture.size else frame.resize(size, Image.Resampling.BICUBIC))
    except _PILLOW_ERRORS as error:
        raise InputError(f"the frame {str(path)!r} cannot be read ({error})") from None


def _read_texts(path: Path, spans: Sequence[Span]) -> list[str]:
    try:
        text, _, _ = decode_text(path.read_bytes())
    except (NotTextError, OSError) as error:
        raise NoSubtitlesError(path, f"cannot be read ({error})") from None
    cues = parse_subtitles(text, source=str(path), keep_tags=True).cues if text.strip() else ()
    return texts_of(spans, cues)


def _silence(count: int) -> Tensor:
    return torch.zeros(count, WINDOW_HOPS, sp.NUM_BANDS)


def window_sounds(path: Path, spans: Sequence[Span]) -> Tensor:
    """float32 (windows, 180, 64): log-mel spectrograms of stretches of a sound file, whose first sample is at 0 seconds.

    Where there is none, before and behind it, are zeros. Raises MediaError if the file cannot be read.
    """
    try:
        sound = read_sound(path, rate=_SOUND_RATE, required=True)
    except NoAudioError:
        return _silence(len(spans))
    wave = sp.from_levels(sp.levels(sound.samples))
    return torch.stack([sp.log_mel(torch.from_numpy(clip)) for clip in _clips(wave, spans)])


def _clips(wave: np.ndarray[Any, np.dtype[np.float32]], spans: Sequence[Span]) -> Iterator[np.ndarray[Any, np.dtype[np.float32]]]:
    for span in spans:
        first, end = int(_SOUND_RATE * span.start), int(_SOUND_RATE * span.end)
        before = 1 - first if first < 0 else 0  # one more, as released: to cut a negative number is to round it up
        there = wave[max(first, 0) : max(end, 0)]
        yield np.pad(there, (before, max(end, 0) - max(first, 0) - len(there)))
