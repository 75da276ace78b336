"""One window of a video seen with its words, with its sound, or with neither: sequences, and the vectors at their blanks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError
from ..text.reserve import MASK, ReserveTokenizer
from .answers import Use
from .inputs import SEQUENCE_LENGTH, Content, TokenSequence, token_sequence
from .model import CLIPS_PER_SEGMENT, Reserve
from .reading import VideoWindow
from .vectors import unit_normalize

__all__ = ["VIEWS", "EncodedWindow", "blank_vectors", "encode_window", "view_sequences", "views_of"]

VIEWS: dict[Use, tuple[str, ...]] = {
    "auto": ("subtitles", "sound"),
    "both": ("subtitles", "sound"),
    "subtitles": ("subtitles",),
    "sound": ("sound",),
    "frames": (),
}
"""What is looked at apart, beside the frames, and averaged."""

SEQUENCES_PER_STEP = {"cpu": 8}  # of one joint batch, which bounds the memory; 64 elsewhere


def views_of(model: Reserve, use: Use) -> tuple[str, ...]:
    """What is looked at apart. InputError for another ``use``, or one for which the weights have no encoder."""
    if use not in VIEWS:
        raise InputError(f"use is {use!r}: choose one of {', '.join(VIEWS)}")
    if use == "auto" and model.audio_encoder is None:
        return VIEWS["subtitles"]
    if "sound" in VIEWS[use]:
        model.part("audio_encoder", "take no sound")
    return VIEWS[use]


def view_sequences(
    window: VideoWindow,
    views: Sequence[str],
    questions: Mapping[int, Sequence[int]],
    tokenizer: ReserveTokenizer,
    *,
    in_place: bool = False,
    length: int = SEQUENCE_LENGTH,
) -> dict[str, TokenSequence]:
    """The joint sequence of each view that has anything to add to the frames; of ``frames`` alone if none has.

    questions: token ids by the segment (of the window, from 0) that they stand on.
    """
    found = {}
    for view in views:
        contents: list[Content] = [None] * len(window) if view == "sound" else list(window.words)
        for segment in questions if in_place else ():
            contents[segment] = []
        if any(window.has_sound[n].any() if content is None else content for n, content in enumerate(contents)):
            has_sound = window.has_sound.tolist()
            found[view] = token_sequence(contents, tokenizer, has_sound=has_sound, before=questions, length=length)
    return found or {"frames": token_sequence([[]] * len(window), tokenizer, before=questions, length=length)}


@dataclass(frozen=True, eq=False)
class EncodedWindow:
    """What the joint encoder reads of a window of S segments, and the vectors of the whole of each frame and clip of sound.

    frames: (1, S, pooled tokens, width), zeros without the picture.  sounds: (1, 3 S, 6, width), zeros where there is none, or None.
    frame_vectors: (S, width), None without the picture.  sound_vectors: (3 S, width), zeros where there is none, or None. Both unit.
    """

    frames: Tensor
    sounds: Tensor | None
    frame_vectors: Tensor | None
    sound_vectors: Tensor | None


def encode_window(model: Reserve, window: VideoWindow, *, hear: bool) -> EncodedWindow:
    """Run the vision encoder, if the window has pictures, and with ``hear`` the audio encoder over the subsegments that have sound."""
    config, weight = model.config, model.token_encoder.weight
    if window.frames is None:
        rows, columns = config.pooled_grid
        frames, frame_vectors = weight.new_zeros(1, len(window), rows * columns, config.width), None
    else:
        seen = model.encode_frames(window.frames.to(weight.device, non_blocking=True))
        frames, frame_vectors = seen.pooled[None], unit_normalize(seen.cls.float())
    present = torch.from_numpy(window.has_sound.reshape(-1)).nonzero()[:, 0]
    if not hear or not len(present):
        return EncodedWindow(frames, None, frame_vectors, None)
    heard = model.encode_sounds(window.sounds.flatten(0, 1)[present].to(weight.device, non_blocking=True))
    num_clips, places = CLIPS_PER_SEGMENT * len(window), present.to(weight.device)
    sounds = heard.pooled.new_zeros(num_clips, *heard.pooled.shape[1:]).index_copy(0, places, heard.pooled)
    vectors = heard.cls.new_zeros(num_clips, config.width, dtype=torch.float32).index_copy(0, places, unit_normalize(heard.cls.float()))
    return EncodedWindow(frames, sounds[None], frame_vectors, vectors)


def blank_vectors(model: Reserve, window: EncodedWindow, sequences: Sequence[TokenSequence]) -> list[Tensor]:
    """For each sequence of the window unit vectors float32 (blanks, width), which compare with those of ``encode_options``."""
    found = []
    size = SEQUENCES_PER_STEP.get(window.frames.device.type, 64)
    for start in range(0, len(sequences), size):
        chunk = sequences[start : start + size]
        tokens, subsegments = (torch.stack(parts) for parts in zip(*((one.tokens, one.subsegments) for one in chunk), strict=True))
        if not model.config.learned_positions:  # no token's position depends on padding, so padding of all is left out
            used = int((tokens != 0).sum(dim=1).max())
            tokens, subsegments = tokens[:, :used], subsegments[:, :used]
        tokens, subsegments = tokens.to(window.frames.device), subsegments.to(window.frames.device)
        out = model.embed_encoded(
            window.frames.expand(len(chunk), -1, -1, -1),
            tokens,
            subsegments // CLIPS_PER_SEGMENT,
            window.sounds.expand(len(chunk), -1, -1, -1) if window.sounds is not None else None,
            subsegments,
        )
        assert out.joint.projected is not None
        rows = out.joint.projected[:, : tokens.shape[1]].float()
        found += [unit_normalize(row[is_blank]) for row, is_blank in zip(rows, tokens == MASK, strict=True)]
    return found
