"""A video as windows of at most eight segments for the model: what of it is needed, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import InputError, WatchwordError
from ..media.subtitles import Word
from ..results import PathLike
from ..text.reserve import ReserveTokenizer
from .config import ReserveConfig
from .images import fit, patches
from .inputs import text_of
from .segmentation import Span, windows
from .segments import Stretches, VideoSegments

__all__ = ["EndOfVideo", "VideoLike", "VideoWindow", "read_windows"]

VideoLike = PathLike | Stretches | VideoSegments

Places = Sequence[int | InputError | None]
"""For each question the segment that it stands on, None for the first one of each window, or why it can stand nowhere."""


@dataclass(frozen=True, eq=False)
class VideoWindow:
    """A run of S segments as the model takes it.

    first: number of its first segment.  spans: of the segments.  share: of the video that is read with it.
    frames: float32 (S, patches, 768), or None if the picture was not read.
    sounds: float32 (S, 3, 60, 65).  has_sound: bool (S, 3).
    words: token ids of each segment's words.
    places: where each question stands, see ``read_windows``.
    """

    first: int
    spans: list[Span]
    frames: Tensor | None
    sounds: Tensor
    has_sound: npt.NDArray[np.bool_]
    words: list[list[int]]
    places: Places
    share: float

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True, eq=False)
class EndOfVideo:
    """What is known when a video is done: notes, words and where the questions stood, or the error that ended it and at which stage."""

    notes: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    places: Places = ()
    error: WatchwordError | None = None
    stage: str = ""


def read_windows(
    video: VideoLike,
    config: ReserveConfig,
    tokenizer: ReserveTokenizer,
    open_video: Callable[[PathLike | Stretches], VideoSegments],
    *,
    place: Callable[[Sequence[Span]], Places],
    picture: bool,
) -> Iterator[VideoWindow | EndOfVideo]:
    """The windows of a video in order, as few as possible, then an EndOfVideo. Errors are part of it.

    open_video: makes segments of what is none yet; segments that are given stay open.
    place: tells of the spans of all segments on which of them each question stands; windows on which none stands are not read.
    """
    stage = "open"
    try:
        with nullcontext(video) if isinstance(video, VideoSegments) else open_video(video) as segments:
            places = place(segments.spans)
            runs = [
                run for run in windows(len(segments)) if any(at is None or at in run for at in places if not isinstance(at, InputError))
            ]
            stage = "decode"
            for number, run in enumerate(runs, start=1):
                yield _window(segments, run, config, tokenizer, picture, places, number / len(runs))
            notes, words = tuple(dict.fromkeys(segments.notes)), segments.words
    except WatchwordError as error:
        yield EndOfVideo(error=error, stage=stage)
    else:
        yield EndOfVideo(notes, words, places)


def _window(
    segments: VideoSegments, run: range, config: ReserveConfig, tokenizer: ReserveTokenizer, picture: bool, places: Places, share: float
) -> VideoWindow:
    read = segments.read(run)
    return VideoWindow(
        first=run.start,
        spans=[segment.span for segment in read],
        frames=torch.stack([patches(fit(segment.frame, config.grid).pixels) for segment in read]) if picture else None,
        sounds=torch.stack([segment.spectrogram for segment in read]),
        has_sound=np.stack([segment.has_sound for segment in read]),
        words=[text_of(segment, tokenizer) for segment in read],
        places=places,
        share=share,
    )
