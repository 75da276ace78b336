"""A whole video, or segments stored in records, as vectors, one set a segment: for search, and for models on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..devices import Precision, autocast, usable_precision, with_precision
from ..media import DEFAULT_LIMITS, Limits, Subtitles
from ..results import PathLike
from ..text.reserve import MASK, default_tokenizer
from ..weights.evaluating import evaluating
from .answers import Use
from .images import fit, patches
from .model import CLIPS_PER_SEGMENT, Reserve
from .reading import EndOfVideo, VideoWindow, read_windows
from .records import RecordSegment
from .segments import VideoSegments
from .spectrogram import subsegments
from .vectors import unit_normalize
from .views import blank_vectors, encode_window, view_sequences, views_of

__all__ = ["VideoVectors", "embed_segments", "embed_video"]

_SEGMENTS_AT_ONCE = 16
LENGTH = 640  # tokens, as many as the released weights have met; every segment's words must find room


@dataclass(frozen=True, eq=False)
class VideoVectors:
    """A video of S segments as unit vectors, float32 on the CPU.

    spans: (S, 2) in seconds on the file's clock.
    frames: (S, width), of each segment's frame alone.
    sounds: (S, 3, width), of each third of a segment's sound alone; zeros where ``has_sound`` (S, 3) is false, or if none was read.
    blanks: (S, width), what the model would say in the segment, knowing its window (frames, words, sound): its vector at a blank that
        stands before what is spoken or heard there. The nearest of ``Reserve.embed_spans`` are its best guesses. (Frames and sounds were
        trained to match such vectors of the joint encoder too, not to match spans.)
    notes: what a user should know of the file, a line each.
    """

    spans: npt.NDArray[np.float64]
    frames: Tensor
    sounds: Tensor
    has_sound: npt.NDArray[np.bool_]
    blanks: Tensor
    notes: tuple[str, ...] = ()


def embed_video(
    model: Reserve,
    video: PathLike | VideoSegments,
    *,
    use: Use = "auto",
    subtitles: Subtitles | PathLike | bool = True,
    precision: Precision = "float32",
    limits: Limits = DEFAULT_LIMITS,
) -> VideoVectors:
    """Vectors of a video's segments. Arguments are those of ``Filler`` and its ``run``.

    The encoders run once a window of at most eight segments; one joint sequence a view has a blank on every segment. With words and
    sound, the blanks' vectors are the mean of both views, of unit length again.

    Raises MediaError if the video cannot be read.
    """
    views = views_of(model, use)
    precision = usable_precision(precision, model.token_encoder.weight.device)
    model = with_precision(model, precision)
    open_video = partial(VideoSegments, subtitles=subtitles if "subtitles" in views else False, sound="sound" in views, limits=limits)
    tokenizer, device = default_tokenizer(), model.token_encoder.weight.device
    windows: list[VideoWindow] = []
    frames: list[Tensor] = []
    sounds: list[Tensor] = []
    blanks: list[Tensor] = []
    notes: tuple[str, ...] = ()
    for item in read_windows(video, model.config, tokenizer, open_video, place=lambda _: (None,), picture=True):
        if isinstance(item, EndOfVideo):
            if item.error:
                raise item.error
            notes = item.notes
            continue
        room = LENGTH // len(item) - 1
        shortened = replace(item, words=[words[:room] for words in item.words])
        sequences = view_sequences(shortened, views, dict.fromkeys(range(len(item)), (MASK,)), tokenizer, length=LENGTH)
        with torch.no_grad(), evaluating(model), autocast(device, precision):
            encoded = encode_window(model, item, hear="sound" in sequences)
            found = blank_vectors(model, encoded, list(sequences.values()))
        nothing = torch.zeros(CLIPS_PER_SEGMENT * len(item), model.config.width)
        assert encoded.frame_vectors is not None
        frames.append(encoded.frame_vectors.cpu())
        sounds.append(nothing if encoded.sound_vectors is None else encoded.sound_vectors.cpu())
        blanks.append(unit_normalize(torch.stack(found).mean(dim=0)).cpu())
        windows.append(replace(item, frames=None, sounds=nothing[:0]))
    return VideoVectors(
        spans=np.array([(span.start, span.end) for window in windows for span in window.spans]),
        frames=torch.cat(frames),
        sounds=torch.cat(sounds).reshape(-1, CLIPS_PER_SEGMENT, model.config.width),
        has_sound=np.concatenate([window.has_sound for window in windows]),
        blanks=torch.cat(blanks),
        notes=notes,
    )


def embed_segments(model: Reserve, segments: Sequence[RecordSegment]) -> tuple[Tensor, Tensor]:
    """Stored segments as unit vectors, float32 on the CPU: of their frames (S, width), and of each third of their sounds (S, 3, width).

    Raises InputError if a picture in a segment is damaged, or the weights have no audio encoder.
    """
    device, grid = model.token_encoder.weight.device, model.config.grid
    frames, sounds = [], []
    for first in range(0, len(segments), _SEGMENTS_AT_ONCE):
        some = segments[first : first + _SEGMENTS_AT_ONCE]
        images = torch.stack([patches(fit(segment.image(), grid).pixels) for segment in some])
        clips = torch.stack([subsegments(segment.log_mel(), speed=segment.playback_speed) for segment in some]).flatten(0, 1)
        with torch.no_grad(), evaluating(model):
            frames.append(model.embed_frames(images.to(device)).float().cpu())
            sounds.append(model.embed_sounds(clips.to(device)).float().cpu())
    return torch.cat(frames), torch.cat(sounds).reshape(len(segments), CLIPS_PER_SEGMENT, -1)
