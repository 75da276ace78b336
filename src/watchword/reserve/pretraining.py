"""What MERLOT Reserve learns from a batch of examples: pairs of vectors, and three contrastive losses of them (spec section 4).

An example is a video in S segments, in G groups of consecutive ones, and some web text. The joint encoder reads it as four kinds of
sequences: ``text2audio`` (words and frames; blanks are to find their words and their sound) and ``audio2text`` (words or sound, and frames;
blanks are to find their words), both once a group; ``audio_text_matching`` (words or sound of the whole video, where a token LTOVPOOL
before each segment is to find its frame); ``random_text`` (blanks in web text).

A batch is a mapping by the released names. B examples, N = 3 S clips of sound, L and T the lengths of the sequences, n spans an example:

* ``images`` (B, S x patches, patch numbers) and ``audio_clips`` (B, N x audio_frames, audio_features): as of ``Reserve.encode_frames`` and
  ``encode_sounds``, a video's frames and clips one behind another.
* ``text2audio`` and ``audio2text`` (B, G, L), ``audio_text_matching`` and ``random_text`` (B, 1, T): token ids, padded with 0.
* for each of the four ``.../audio_ptr``, which clip of the example a token is of, and ``.../text_ptr``, which span a blank stands for; -1
  where none. Of ``audio_text_matching`` only the first is read, of ``random_text`` the second.
* ``text_spans`` (B, n, span_length): the words to be found, padded with 0.
* ``video_src_index`` (B, S): which video each segment is from, where several short ones are packed into an example.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import ConfigError, InputError
from ..fields import check_types
from ..layers.contrast import candidate_loss
from .joint import LTOVPOOL, MASK, MASKAUDIO, PAD, JointInput
from .model import CLIPS_PER_SEGMENT, Reserve
from .transformer import EncoderOutput
from .vectors import sum_by_pointer, unit_normalize

__all__ = [
    "VIEWS",
    "EncodedBatch",
    "Pairs",
    "PretrainingConfig",
    "PretrainingDraws",
    "PretrainingPairs",
    "pretraining_loss",
    "pretraining_pairs",
]

Batch = Mapping[str, Tensor]

VIEWS = ("audio2text", "text2audio")
SOURCES = ("text2audio", "audio2text", "random_text")  # of spans, by number
MAX_LOG_SCALE = math.log(100)


@dataclass(frozen=True, kw_only=True)
class PretrainingConfig:
    """What is learned of a batch (spec sections 1 and 4).

    Attributes:
        mask_rate: the share of an example's clips of sound that are to be found.
        spans_per_example: how many of an example's n spans are to be found; which is drawn, those of the video four times as likely.
        sounds_found: False leaves out the sounds' loss (ablation); masking is then to be told not to mask sounds.
        split_probability: how often a group of ``text2audio`` or ``audio2text`` is cut in two at random that do not see each other.
        adjacent_correct: the words of masked clips of sound directly beside one another in time are right answers for one another, too
            (ablation, section 10).
        frames_seen: False hides the frames from the joint encoder (ablation); they are still to be found.
        spans_of_whole_batch: as released, ``spans_per_example`` is a mean over the examples of this process, so that one may give more
            than another.
        rounded_scores: as released, the random scores by which spans are drawn are rounded to 1/16; of equal ones the first is taken.
        chunk_rows: see ``layers.contrast.candidate_loss``; 0 is the whole matrix at once.
    """

    mask_rate: float = 0.25
    spans_per_example: int = 48
    split_probability: float = 0.1
    sounds_found: bool = True
    adjacent_correct: bool = False
    frames_seen: bool = True
    spans_of_whole_batch: bool = False
    rounded_scores: bool = False
    chunk_rows: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("mask_rate", "split_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"pretraining: {name} is {getattr(self, name)}, must be in 0..1")
        if self.spans_per_example < 1 or self.chunk_rows < 0:
            raise ConfigError("pretraining: spans_per_example must be at least 1, chunk_rows at least 0")

    @classmethod
    def released(cls, **changes: object) -> PretrainingConfig:
        """As the authors' code does it, its quirks included."""
        return replace(cls(spans_of_whole_batch=True, rounded_scores=True), **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class PretrainingDraws:
    """What is random in a step.

    Attributes:
        spans: (B, n), uniform in 0..1, which decide what spans are to be found.
        splits: by view, (B x G,): the first segment of the second part of each group; the number of a group's segments where it is whole.
    """

    spans: Tensor
    splits: Mapping[str, Tensor]

    @classmethod
    def of(cls, batch: Batch) -> PretrainingDraws:
        """Those that came with the examples: ``draws/spans`` (B, n) and for each view ``draws/...`` (B, G). InputError if they did not."""
        if missing := [name for name in ("spans", *VIEWS) if f"draws/{name}" not in batch]:
            raise InputError(f"a batch of pretraining needs draws/{missing[0]}")
        return cls(batch["draws/spans"], {view: batch[f"draws/{view}"].flatten() for view in VIEWS})


@dataclass(frozen=True)
class Pairs:
    """Vectors that are to find each other, scaled: their products are the logits.

    Attributes:
        x, y: (rows, width); row i of x belongs to row i of y.
        extra: (any number, width), further wrong answers for x; None without.
        sources: (rows,), the kind of sequence each x is from, a place in ``SOURCES``, -1 for none; None where all are of one kind.
        also: (rows, rows), which further rows of y are right for each x, and of x for each y; None for no other than its own.
    """

    x: Tensor
    y: Tensor
    extra: Tensor | None = None
    sources: Tensor | None = None
    also: Tensor | None = None


@dataclass(frozen=True)
class PretrainingPairs:
    """What is compared. ``sounds``: None of a model without audio encoder, or where no sound is masked. ``chosen``: which spans are to be
    found, places among all B x n of the batch.
    """

    frames: Pairs
    sounds: Pairs | None
    spans: Pairs
    chosen: Tensor


@dataclass(frozen=True)
class EncodedBatch:
    """What the encoders make of a batch. ``sounds``: None of a model without audio encoder. ``read``: the joint encoder's vectors of the
    language part of each kind of sequence, (sequences, L or T, width).
    """

    frames: EncoderOutput
    sounds: EncoderOutput | None
    read: Mapping[str, Tensor]


def encode_batch(model: Reserve, batch: Batch, config: PretrainingConfig, draws: PretrainingDraws) -> EncodedBatch:
    """Run the encoders of frames and sounds and the joint one. InputError if shapes do not go together, or the weights lack ``head``."""
    model.part("head", "cannot be pretrained")
    num_examples, _, num_segments = _sizes(batch)
    own, sounds = model.config, None
    frames = model.encode_frames(batch["images"].reshape(num_examples * num_segments, -1, own.patch_features))
    if model.audio_encoder is not None:
        sounds = model.encode_sounds(batch["audio_clips"].reshape(-1, own.audio_frames, own.audio_features))
        if len(sounds.cls) != num_examples * num_segments * CLIPS_PER_SEGMENT:
            raise InputError(f"{num_examples} examples of {num_segments} segments do not have {len(sounds.cls)} clips of sound")
    return EncodedBatch(frames, sounds, _read_sequences(model, batch, config, draws, frames, sounds))


def pretraining_pairs(model: Reserve, batch: Batch, config: PretrainingConfig, draws: PretrainingDraws) -> PretrainingPairs:
    """Run all encoders over a batch. Raises InputError if its shapes do not go together, or the weights lack a part."""
    model.part("span_encoder", "cannot be pretrained")
    encoded = encode_batch(model, batch, config, draws)
    spans, chosen = _span_pairs(model, batch, config, draws, encoded.read)
    sounds = None if encoded.sounds is None else _sound_pairs(batch, config, encoded.read, encoded.sounds)
    factors = scale_factors(model)
    return PretrainingPairs(
        frames=frame_pairs(model, batch, encoded),
        sounds=None if sounds is None else _scaled(sounds, factors[1]),
        spans=_scaled(spans, factors[2]),
        chosen=chosen,
    )


def frame_pairs(model: Reserve, batch: Batch, encoded: EncodedBatch) -> Pairs:
    """The k-th LTOVPOOL of an example and its k-th frame."""
    num_examples, _, num_segments = _sizes(batch)
    is_pool = batch["audio_text_matching"] == LTOVPOOL
    read = encoded.read["audio_text_matching"]
    pooled, _ = sum_by_pointer(read, is_pool, is_pool.cumsum(dim=-1) - 1, num_examples, num_segments)
    return _scaled(Pairs(pooled.flatten(0, 1), encoded.frames.cls), scale_factors(model)[0])


def scale_factors(model: Reserve) -> Tensor:
    """(3,), for frames, sounds and spans: what multiplies either side of a product, half of a scale."""
    return (model.contrastive_scales.float().clamp(max=MAX_LOG_SCALE) / 2).exp()


def pretraining_loss(pairs: PretrainingPairs, config: PretrainingConfig) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum of the three losses, against the candidates of all processes, and numbers to log, detached.

    These are the three, ``frame_loss``, ``sound_loss`` and ``span_loss``, and the last for the spans of each kind of sequence alone.
    """
    losses, rows = {}, pairs.spans.x
    for name, own in (("frame_loss", pairs.frames), ("sound_loss", pairs.sounds), ("span_loss", pairs.spans)):
        if own is not None:
            losses[name], rows = candidate_loss(own.x, own.y, own.extra, also=own.also, chunk_rows=config.chunk_rows or None)
    numbers = {name: loss.detach() for name, loss in losses.items()}
    assert pairs.spans.sources is not None
    for number, source in enumerate(SOURCES):
        is_from = (pairs.spans.sources == number).to(rows.dtype)
        numbers[f"span_loss_{source}"] = (rows * is_from).sum() / (is_from.sum() + 1e-5)
    return torch.stack(list(losses.values())).sum(), numbers


def _sizes(batch: Batch) -> tuple[int, int, int]:
    """The numbers of examples, of groups and of segments. InputError if something is missing or misshapen."""
    sequences = (*VIEWS, "audio_text_matching", "random_text")
    needed = ["images", "audio_clips", "text_spans", "video_src_index", *sequences]
    needed += [f"{name}/{kind}_ptr" for kind, names in (("audio", sequences[:3]), ("text", (*VIEWS, "random_text"))) for name in names]
    if missing := [name for name in needed if name not in batch]:
        raise InputError(f"a batch of pretraining needs {missing[0]}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""))
    num_examples, num_segments = batch["video_src_index"].shape
    num_groups = batch["text2audio"].shape[1]
    if num_segments % num_groups or batch["audio2text"].shape != batch["text2audio"].shape:
        raise InputError(
            f"{num_segments} segments do not go into the groups of text2audio {tuple(batch['text2audio'].shape)} and audio2text "
            f"{tuple(batch['audio2text'].shape)}, which must be of one shape"
        )
    if wrong := [name for name in needed if len(batch[name]) != num_examples]:
        raise InputError(f"{wrong[0]} is of {len(batch[wrong[0]])} examples, but video_src_index of {num_examples}")
    if wrong := [name for name in needed if "/" in name and batch[name].shape != batch[name.split("/")[0]].shape]:
        raise InputError(f"{wrong[0]} is {tuple(batch[wrong[0]].shape)}, which must be the shape of its tokens")
    return num_examples, num_groups, num_segments


def joint_inputs(
    model: Reserve, batch: Batch, config: PretrainingConfig, draws: PretrainingDraws, frames: EncoderOutput, sounds: EncoderOutput | None
) -> dict[str, JointInput]:
    """The joint encoder's input of each kind of sequence, all of one length (spec section 4.2). ``frames``, ``sounds``: of all examples."""
    num_examples, num_groups, num_segments = _sizes(batch)
    per_group = num_segments // num_groups
    length = max(batch["audio_text_matching"].shape[-1], batch["text2audio"].shape[-1] + per_group * frames.pooled.shape[1])
    seen = frames.pooled if config.frames_seen else frames.pooled * 0
    seen = seen.reshape(num_examples * num_groups, per_group, *seen.shape[1:])
    heard = None if sounds is None else sounds.pooled.reshape(num_examples, -1, *sounds.pooled.shape[1:])
    inputs = {}
    for view in VIEWS:
        pointers = batch[f"{view}/audio_ptr"].flatten(0, 1)
        second = torch.arange(per_group, device=pointers.device) >= draws.splits[view][:, None]
        inputs[view] = model.joint_input(
            batch[view].flatten(0, 1),
            segments=(pointers // CLIPS_PER_SEGMENT) % per_group,
            frames=seen,
            sounds=heard.repeat_interleave(num_groups, dim=0) if heard is not None and view == "audio2text" else None,
            pointers=pointers,
            sources=2 * batch["video_src_index"].reshape(-1, per_group) + second,
            length=length,
        )
    matching = batch["audio_text_matching"].flatten(0, 1)
    inputs["audio_text_matching"] = model.joint_input(
        matching,
        segments=(matching == LTOVPOOL).cumsum(dim=1),
        sounds=heard,
        pointers=batch["audio_text_matching/audio_ptr"].flatten(0, 1),
        length=length,
    )
    inputs["random_text"] = model.joint_input(batch["random_text"].flatten(0, 1), length=length)
    return inputs


def _read_sequences(
    model: Reserve, batch: Batch, config: PretrainingConfig, draws: PretrainingDraws, frames: EncoderOutput, sounds: EncoderOutput | None
) -> dict[str, Tensor]:
    """``EncodedBatch.read``; all sequences run as one batch."""
    inputs = joint_inputs(model, batch, config, draws, frames, sounds)
    of_one = [own.sources if own.sources is not None else own.valid.new_zeros(own.valid.shape, dtype=torch.long) for own in inputs.values()]
    joint = model.join(
        JointInput(
            x=torch.cat([own.x for own in inputs.values()]),
            coordinates=torch.cat([own.coordinates for own in inputs.values()]),
            valid=torch.cat([own.valid for own in inputs.values()]),
            sources=torch.cat(of_one),
        )
    )
    assert joint.projected is not None
    parts = torch.split(joint.projected, [len(own.x) for own in inputs.values()])
    return {name: part[:, : batch[name].shape[-1]] for name, part in zip(inputs, parts, strict=True)}


def _sound_pairs(batch: Batch, config: PretrainingConfig, read: Mapping[str, Tensor], sounds: EncoderOutput) -> Pairs | None:
    """The clips of sound that have most MASKAUDIO tokens, in order, and these; the other clips are further wrong answers. None where no
    sound is to be found.

    A share ``mask_rate`` of the clips; where fewer are masked, what is to find them is zero.
    """
    num_examples, _, num_segments = _sizes(batch)
    num_clips = num_segments * CLIPS_PER_SEGMENT
    num_targets = int(num_clips * config.mask_rate)
    if not config.sounds_found:
        return None
    is_mask = batch["text2audio"] == MASKAUDIO
    pooled, counts = sum_by_pointer(read["text2audio"], is_mask, batch["text2audio/audio_ptr"], num_examples, num_clips)
    order = counts.argsort(dim=1, descending=True, stable=True)[..., None]
    heard = sounds.cls.reshape(num_examples, num_clips, -1).take_along_dim(order, dim=1)
    return Pairs(
        pooled.take_along_dim(order[:, :num_targets], dim=1).flatten(0, 1),
        heard[:, :num_targets].flatten(0, 1),
        heard[:, num_targets:].flatten(0, 1),
    )


def _span_pairs(
    model: Reserve, batch: Batch, config: PretrainingConfig, draws: PretrainingDraws, read: Mapping[str, Tensor]
) -> tuple[Pairs, Tensor]:
    """The spans that are drawn, what their blanks gave, and which they are."""
    num_examples, num_spans = batch["text_spans"].shape[:2]
    summed = [sum_by_pointer(read[name], batch[name] == MASK, batch[f"{name}/text_ptr"], num_examples, num_spans) for name in SOURCES]
    counts = torch.stack([count for _, count in summed], dim=-1)
    chosen = choose_spans(span_scores(batch["text_spans"], counts, draws.spans, rounded=config.rounded_scores), config)
    most, sources = counts.flatten(0, 1)[chosen].max(dim=-1)
    found = torch.stack([vectors for vectors, _ in summed]).sum(dim=0).flatten(0, 1)[chosen]
    spans = model.encode_spans(batch["text_spans"].flatten(0, 1)[chosen])
    also = _neighbours(batch, num_spans, chosen) if config.adjacent_correct else None
    return Pairs(found, spans, sources=torch.where(most > 0, sources, -1), also=also), chosen


def _neighbours(batch: Batch, num_spans: int, chosen: Tensor) -> Tensor:
    """(rows, rows): which of the chosen spans are of clips of sound directly beside one another, of one example."""
    clips = chosen.new_full((len(batch["text_spans"]), num_spans), -(1 << 30))  # of words that are no clip's
    for view in VIEWS:
        for example, (tokens, clip, span) in enumerate(zip(*(batch[name].flatten(1) for name in _pointers(view)), strict=True)):
            clips[example, span[tokens == MASK]] = clip[tokens == MASK]
    examples = torch.arange(len(clips), device=clips.device)[:, None] << 16
    places = (clips + examples).flatten()[chosen]
    return ((places[:, None] - places[None, :]).abs() == 1) & (places >= 0)[:, None] & (places >= 0)[None, :]


def _pointers(view: str) -> tuple[str, str, str]:
    return view, f"{view}/audio_ptr", f"{view}/text_ptr"


def span_scores(spans: Tensor, counts: Tensor, uniform: Tensor, *, rounded: bool) -> Tensor:
    """Scores (B, n), of which the highest are a draw without replacement: first spans with words and blanks, then by Gumbel noise.

    Args:
        spans: (B, n, span_length) token ids.
        counts: (B, n, 3), how many blanks each has in the kinds of sequences ``SOURCES``.
        uniform: (B, n) in 0..1.
        rounded: as released, in float32, where a million and noise is a multiple of 1/16.
    """
    wide = torch.float32 if rounded else torch.float64
    valid = (spans != PAD).any(dim=-1) & (counts > 0).any(dim=-1)
    noise = -(-uniform.to(wide).clamp(min=torch.finfo(torch.float32).tiny).log()).log()
    return valid.to(wide) * 1e6 + math.log(4) * counts[..., :2].sum(dim=-1).to(wide) + noise


def choose_spans(scores: Tensor, config: PretrainingConfig) -> Tensor:
    """The highest ``spans_per_example`` of scores (B, n) on average or of each example: places among all B x n, best first."""
    num_examples, num_spans = scores.shape
    if num_spans < config.spans_per_example:
        raise InputError(f"{config.spans_per_example} spans_per_example cannot be drawn from the {num_spans} spans of an example")
    if config.spans_of_whole_batch:
        return scores.flatten().argsort(descending=True, stable=True)[: num_examples * config.spans_per_example]
    best = scores.argsort(dim=1, descending=True, stable=True)[:, : config.spans_per_example]
    return (best + num_spans * torch.arange(num_examples, device=scores.device)[:, None]).flatten()


def _scaled(pairs: Pairs, factor: Tensor) -> Pairs:
    """Unit vectors times the root of the scale, in float32."""
    x, y = unit_normalize(pairs.x.float()) * factor, unit_normalize(pairs.y.float()) * factor
    return replace(pairs, x=x, y=y, extra=unit_normalize(pairs.extra.float()) * factor if pairs.extra is not None else None)


def masked_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of (M, vocabulary) logits at the labels (M,) that are not 0; 0 without any. Ablation (spec section 4.5)."""
    return F.cross_entropy(logits.float(), labels, ignore_index=PAD, reduction="sum") / (labels != PAD).sum().clamp(min=1)
