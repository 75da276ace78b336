"""From a record to an example: two masked views of its words and sound, the matching sequence, web text, and the spans to be found.

In the view text2audio the model reads words and must find the masked words and their sound; in audio2text it hears sound, reads some words,
and must find words. Nothing here touches frames or sound: pointers say which row of sound belongs to a position. Every choice comes from
a `Draws`, so that an example is a function of the record and (seed, epoch, key).

Source: merlot-reserve-data spec sections 11 to 14; defects D1, D9, D10, D12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, InputError
from ..text.reserve import AUDIOSPAN, MASK, MASKAUDIO, PADDING, RESETCTX, SPAN_LENGTH, ReserveTokenizer, default_tokenizer
from .draws import Draws
from .inputs import AUDIO_TOKENS, SEQUENCE_LENGTH
from .matching import POSITIONS_OF_SOUND, matching_sequence
from .rows import Flags, Ints, RecordRows, SegmentWords, donate, fill_empty, lay_out
from .segmentation import WINDOW_SEGMENTS
from .spectrogram import SUBSEGMENTS, crop_starts
from .truncation import fit_end, fit_group
from .webtext import LENGTH_WEIGHTS, mask_web_text

__all__ = ["MaskedExample", "Masking", "joined", "mask_record", "mask_rows", "near_targets"]


@dataclass(frozen=True)
class Masking:
    """How records are masked; the defaults are those of the released Base and Large models, with defects put right.

    group_segments: segments that the model sees at once.  length: tokens of a view's sequence.  joint_length: of the other two.
    text_length: tokens that metadata and web text are filled up to (1024 in resolution adaptation).
    mask_rate: share of the rows that are targets, in each of the two views.  textify: chance that a target's neighbour is words, not sound.
    web_masks: masked pieces of web text; 0 for none.  web_weights: chances of pieces of 1, 2 .. tokens.

    sound_targets: whether text2audio masks sound, too.  sound_inputs: whether audio2text and the matching sequence have sound at all;
    without, they have words (ablations, model spec section 10).
    mask_tokens: a target has a MASK for each of its tokens, not one for all (ablation).

    Released behaviour, for parity: split_rows: cutting can take a row's sound apart or drop a MASKAUDIO (D9).
    donate_across: words move to targets of another group or video (D10).
    cut_matching: the first segment's metadata alone, and long text takes the last segments their place in the matching sequence (D12).

    Raises ConfigError for numbers that cannot be.
    """

    group_segments: int = WINDOW_SEGMENTS
    length: int = SEQUENCE_LENGTH
    joint_length: int = 640
    text_length: int = 640
    mask_rate: float = 0.25
    textify: float = 0.8
    web_masks: int = 38
    web_weights: tuple[float, ...] = LENGTH_WEIGHTS
    sound_targets: bool = True
    sound_inputs: bool = True
    mask_tokens: bool = False
    split_rows: bool = False
    donate_across: bool = False
    cut_matching: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate <= 0.5 or not 0 <= self.textify <= 1:
            raise ConfigError(
                f"mask_rate {self.mask_rate}, textify {self.textify}; the first must be above 0, at most 0.5, the other from 0 to 1"
            )
        if self.group_segments < 1 or self.web_masks < 0:
            raise ConfigError(f"group_segments {self.group_segments}, web_masks {self.web_masks}; give at least 1 and 0")
        if self.length < (least := 2 * self.group_segments * SUBSEGMENTS):
            raise ConfigError(f"length {self.length}; a group of {self.group_segments} segments can have {least} mask tokens")
        if not 0 < self.text_length <= self.joint_length:
            raise ConfigError(f"text_length {self.text_length}; it must be from 1 to joint_length, {self.joint_length}")
        if not self.web_weights or min(self.web_weights) < 0 or abs(sum(self.web_weights) - 1) > 1e-3:
            raise ConfigError("web_weights must be chances that sum to 1")

    @classmethod
    def released(cls) -> Masking:
        """The released models', defects and all."""
        return cls(split_rows=True, donate_across=True, cut_matching=True)

    def num_targets(self, num_segments: int) -> int:
        """Targets of one view in a record of so many segments."""
        return int(num_segments * SUBSEGMENTS * self.mask_rate)


@dataclass(frozen=True, eq=False)
class MaskedExample:
    """What the model reads and must find in one record. Columns of sequences: token id, audio pointer (row), text pointer (span).

    text2audio, audio2text: int32 (groups, length, 3).  audio_text_matching: int32 (joint_length, 3).
    random_text: int32 (1, joint_length, 3), or (0, ..) without web text.
    text_spans: int32 (spans, 15), those of text2audio, of audio2text, of web text; padded with 0.
    crop_starts: int32 (segments, 3) first hop of each subsegment.  video_src_index: int32 (segments,).
    """

    text2audio: npt.NDArray[np.int32]
    audio2text: npt.NDArray[np.int32]
    audio_text_matching: npt.NDArray[np.int32]
    random_text: npt.NDArray[np.int32]
    text_spans: npt.NDArray[np.int32]
    crop_starts: npt.NDArray[np.int32]
    video_src_index: npt.NDArray[np.int32]


def mask_record(
    segments: Sequence[SegmentWords],
    web_text: Sequence[int],
    draws: Draws,
    masking: Masking | None = None,
    tokenizer: ReserveTokenizer | None = None,
) -> MaskedExample:
    """One example of a record.  web_text: token ids of running text, more than `text_length` if there is enough; may be empty.

    Raises InputError for a number of segments that is not whole groups, token ids that are no words', or times that are not finite.
    """
    masking, tokenizer = masking or Masking(), tokenizer or default_tokenizer()
    _check(segments, masking, len(tokenizer))
    crops = [crop_starts(pads) for pads in draws.uniform("audio_pad_uniform", (len(segments), SUBSEGMENTS + 1))]
    rows = lay_out(segments, crops)
    count = masking.num_targets(len(segments))
    choice = draws.distinct("subsegment_choice", 2 * count, len(segments) * SUBSEGMENTS)
    heard, read = np.sort(choice[:count]), np.sort(choice[count:])
    has_sound = np.repeat([segment.has_sound for segment in segments], SUBSEGMENTS)
    adjusted = _adjusted(rows, heard, segments, draws, masking)
    textified = near_targets(read, len(has_sound)) & draws.coins("textify", len(has_sound), masking.textify)
    audio_masks, as_audio = has_sound & masking.sound_targets, has_sound & ~textified & masking.sound_inputs
    pieces = mask_rows(adjusted, heard, first_pointer=0, audio_masks=audio_masks, each_token=masking.mask_tokens)
    text2audio = _groups(pieces, draws, masking)
    pieces = mask_rows(rows, read, first_pointer=count, as_audio=as_audio, each_token=masking.mask_tokens)
    audio2text = _groups(pieces, draws, masking)
    spans = [adjusted.row(row) for row in heard] + [rows.row(row) for row in read]
    matching = matching_sequence(
        segments,
        draws.coin("matching_uses_audio") and masking.sound_inputs,
        tokenizer,
        length=masking.joint_length,
        text_length=masking.text_length,
        released=masking.cut_matching,
    )
    random_text, web_spans = _web(web_text, draws, masking, tokenizer, 2 * count)
    return MaskedExample(
        text2audio,
        audio2text,
        matching.astype(np.int32),
        random_text,
        _padded(spans + web_spans, 2 * count + masking.web_masks),
        np.array(crops, np.int32),
        np.array([segment.video for segment in segments], np.int32),
    )


def _check(segments: Sequence[SegmentWords], masking: Masking, num_ids: int) -> None:
    if not segments or len(segments) % masking.group_segments:
        raise InputError(f"a record of {len(segments)} segments; it must be whole groups of {masking.group_segments}")
    for number, segment in enumerate(segments):
        for ids in (segment.tokens, segment.title, segment.description, segment.tags):
            if len(ids) and not RESETCTX < min(ids) <= max(ids) < num_ids:
                raise InputError(f"segment {number}: token ids from {min(ids)} to {max(ids)}; words have {RESETCTX + 1} to {num_ids - 1}")
    if not masking.cut_matching and (least := len(segments) * POSITIONS_OF_SOUND) > masking.joint_length:
        raise InputError(f"joint_length {masking.joint_length}, but the sound of {len(segments)} segments takes {least} positions")


def _adjusted(rows: RecordRows, targets: Ints, segments: Sequence[SegmentWords], draws: Draws, masking: Masking) -> RecordRows:
    """The rows that text2audio masks: words that may be heard in a target's sound are moved to it."""
    place = np.repeat([(i // masking.group_segments, segment.video) for i, segment in enumerate(segments)], SUBSEGMENTS, axis=0)
    passable = (place[1:] == place[:-1]).all(axis=1) | masking.donate_across
    edges = fill_empty(rows.edges, targets, passable, right_first=draws.coin("reassign_right_first"))
    return replace(rows, edges=donate(rows, edges, targets, passable, right_first=draws.coin("increase_right_first")))


def near_targets(targets: Ints, num_rows: int) -> Flags:
    """(num_rows,) which rows stand directly beside a target and are none."""
    chosen = np.zeros(num_rows + 2, bool)
    chosen[targets + 1] = True
    near: Flags = (chosen[:-2] | chosen[2:]) & ~chosen[1:-1]
    return near


def mask_rows(
    rows: RecordRows,
    targets: Ints,
    *,
    first_pointer: int,
    as_audio: Flags | None = None,
    audio_masks: Flags | None = None,
    each_token: bool = False,
) -> list[Ints]:
    """For each row its tokens (n, 3): a target's MASK, the six positions of sound, or words.

    targets: rows in order; the mask of the n-th has the text pointer first_pointer + n.
    as_audio: (rows,) which of the others are sound; default none.  audio_masks: (rows,) whose mask is followed by MASKAUDIO; default none.
    each_token: see `Masking.mask_tokens`; of a target's tokens the first 15 count, and one without any has one mask all the same.
    """
    pointers = {int(row): first_pointer + rank for rank, row in enumerate(targets)}
    pieces = []
    for row in range(len(rows.edges) - 1):
        if row in pointers:
            both = audio_masks is not None and audio_masks[row]
            masks = [MASK] * (min(max(len(rows.row(row)), 1), SPAN_LENGTH) if each_token else 1)
            ids = [*masks, MASKAUDIO] if both else masks
        elif as_audio is not None and as_audio[row]:
            ids = [AUDIOSPAN] * AUDIO_TOKENS
        else:
            ids = rows.row(row).tolist()
        piece = np.empty((len(ids), 3), np.int64)
        piece[:, 0], piece[:, 1], piece[:, 2] = ids, row, pointers.get(row, -1)
        pieces.append(piece)
    return pieces


def _groups(pieces: list[Ints], draws: Draws, masking: Masking) -> npt.NDArray[np.int32]:
    size = masking.group_segments * SUBSEGMENTS
    groups = (np.concatenate(pieces[first : first + size]) for first in range(0, len(pieces), size))
    fitted = [fit_group(group, masking.length, len(pieces), draws, split_rows=masking.split_rows) for group in groups]
    return np.stack(fitted).astype(np.int32)


def _web(
    text: Sequence[int], draws: Draws, masking: Masking, tokenizer: ReserveTokenizer, first_pointer: int
) -> tuple[npt.NDArray[np.int32], list[Ints]]:
    if not masking.web_masks:
        return np.empty((0, masking.joint_length, 3), np.int32), []
    tokens, spans = mask_web_text(
        text,
        tokenizer.span_valid,
        draws,
        length=masking.text_length,
        num_masks=masking.web_masks,
        first_pointer=first_pointer,
        weights=masking.web_weights,
    )
    return fit_end(tokens, masking.joint_length)[None].astype(np.int32), spans


def _padded(spans: Sequence[Ints], count: int) -> npt.NDArray[np.int32]:
    found = np.full((count, SPAN_LENGTH), PADDING, np.int32)
    for row, span in zip(found, spans, strict=False):
        row[: min(len(span), SPAN_LENGTH)] = span[:SPAN_LENGTH]
    return found


def joined(examples: Sequence[MaskedExample]) -> dict[str, npt.NDArray[np.int32]]:
    """Examples as one batch (spec section 14), but for frames and sound: each sequence as `name`, `name/audio_ptr` and `name/text_ptr`.

    Shapes: (batch, groups, length) for the views, (batch, 1, joint_length) for matching and web text; text_spans (batch, spans, 15),
    crop_starts (batch, segments, 3), video_src_index (batch, segments).

    Raises InputError for no examples, or examples of different shapes.
    """
    if not examples or len({example.text2audio.shape + example.random_text.shape + example.text_spans.shape for example in examples}) > 1:
        raise InputError(f"{len(examples)} examples: give at least one, all of the same masking and number of segments")
    batch: dict[str, npt.NDArray[np.int32]] = {}
    for name in ("text2audio", "audio2text", "audio_text_matching", "random_text"):
        tokens = np.stack([getattr(example, name) for example in examples])
        tokens = tokens[:, None] if tokens.ndim == 3 else tokens
        batch |= {name: tokens[..., 0], f"{name}/audio_ptr": tokens[..., 1], f"{name}/text_ptr": tokens[..., 2]}
    for name in ("text_spans", "crop_starts", "video_src_index"):
        batch[name] = np.stack([getattr(example, name) for example in examples])
    return batch
