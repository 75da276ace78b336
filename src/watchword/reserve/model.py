"""MERLOT Reserve: frames, words and sound of a video in one transformer, which fills in blanks (arXiv 2201.02639).

* Frames, clips of sound and text spans are first encoded each by itself, by ``vision_encoder``, ``audio_encoder`` and ``span_encoder``.
* The joint encoder reads, of up to 8 segments of 5 seconds, the words *or* the sound of each segment and then all frames.
* Its vector at a blank (a MASK token), through ``head``, is compared with those of the spans that may fill it.

Against a textbook transformer: rotary positions over several coordinates, in the released weights not even a rotation
(``layers.rotary``); no bias behind attention and feed-forward; attention pooling between the encoders.

Shapes: B examples, S segments, L language tokens, A clips of sound, N of anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import PyTorchModelHubMixin
from torch import Tensor, nn

from ..errors import InputError
from .audio import AudioEncoder
from .config import ReserveConfig
from .initialisation import initialise
from .joint import MASK, JointInput, assemble, with_sound
from .span import SpanEncoder
from .transformer import EncoderOutput, Transformer
from .vectors import unit_normalize
from .vision import VisionEncoder

if TYPE_CHECKING:
    from .answers import FillResult
    from .embedding import VideoVectors

__all__ = ["JointOutput", "Reserve", "ReserveOutput"]

CLIPS_PER_SEGMENT = 3


@dataclass(frozen=True)
class JointOutput:
    """What the joint encoder gives for its whole sequence of T tokens.

    Attributes:
        sequence: (B, T, width), after the last norm.
        projected: (B, T, width), through ``head`` into the space of spans, sounds and frames, not of unit length; None without ``head``.
    """

    sequence: Tensor
    projected: Tensor | None


@dataclass(frozen=True)
class ReserveOutput:
    """What the model gives for a video.

    Attributes:
        vectors: (B, L, width), unit vectors of the language part; those at MASK compare with ``embed_spans``.
        joint: of the whole sequence.
        frames: of the frames, N = B x S in order; None if they were given encoded.
        sounds: of the clips of sound, N = B x A in order; None if there were none or they were given encoded.
    """

    vectors: Tensor
    joint: JointOutput
    frames: EncoderOutput | None = None
    sounds: EncoderOutput | None = None


class Reserve(
    nn.Module,
    PyTorchModelHubMixin,
    library_name="watchword",
    paper_url="https://arxiv.org/abs/2201.02639",
    pipeline_tag="video-text-to-text",
):
    """MERLOT Reserve, whole. See the module's docstring; sizes and switches are in ``ReserveConfig``.

    A new model has random weights drawn as the spec's section 2.6 says, from torch's global generator.
    """

    def __init__(self, config: ReserveConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.token_encoder = nn.Embedding(config.vocab_size, width)
        self.vision_encoder = VisionEncoder(config)
        self.audio_encoder = AudioEncoder(config) if "audio_encoder" in config.parts else None
        self.span_encoder = SpanEncoder(config) if "span_encoder" in config.parts else None
        self.joint_transformer = Transformer(config, config.joint_layers, with_cls=False, learned_positions=config.learned_positions)
        self.head = nn.Linear(width, width) if "head" in config.parts else None
        self.proj = nn.Linear(width, 1, bias=False) if "proj" in config.parts else None
        self.classes = nn.Linear(width, len(config.class_names), bias=False) if config.class_names else None
        # Log-scales of the losses over frames, sounds and spans. They begin at 1, as released, where the paper card says 0.
        self.contrastive_scales = nn.Parameter(torch.ones(3))
        initialise(self)

    @property
    def is_trained(self) -> bool:
        """False for random weights. The authors' files do not say so: of pretrained ones it is those whose scales are where they begin."""
        untouched = "span_encoder" in self.config.parts and bool((self.contrastive_scales == 1).all())
        return self.config.weights != "random" and not untouched

    def checkpoint_activations(self, on: bool = True) -> None:
        """In training, keep one activation a block instead of all, for about a third more time. The gradients are the same."""
        for module in self.modules():
            if isinstance(module, Transformer):
                module.checkpointing = on

    def encode_frames(self, patches: Tensor) -> EncoderOutput:
        """Encode frames (N, rows x columns, patch numbers), pixels in 0..1, not normalised further.

        Patches run row by row, and so do the pixels of a patch, red-green-blue innermost. Raises InputError for another shape.
        """
        config = self.config
        _require(patches, (None, config.num_patches, config.patch_features), f"frames of {config.grid[0]} x {config.grid[1]} patches")
        encoded: EncoderOutput = self.vision_encoder(patches.to(self.token_encoder.weight.dtype))
        return encoded

    def encode_sounds(self, clips: Tensor) -> EncoderOutput:
        """Encode clips of sound (N, audio_frames, audio_features): log-mel values, and the playback speed last.

        Raises InputError for another shape, or if the weights have no audio encoder.
        """
        encoder = self.part("audio_encoder", "take no sound")
        _require(clips, (None, self.config.audio_frames, self.config.audio_features), "clips of sound")
        encoded: EncoderOutput = encoder(clips.to(self.token_encoder.weight.dtype))
        return encoded

    def encode_spans(self, tokens: Tensor) -> Tensor:
        """Encode text spans, token ids (N, L) with L at most ``span_length``, padded with 0 -> (N, width), not of unit length.

        Raises InputError for longer spans, or if the weights have no span encoder.
        """
        encoder = self.part("span_encoder", "cannot encode text spans")
        if tokens.ndim != 2 or not 1 <= tokens.shape[1] <= self.config.span_length:
            raise InputError(f"text spans must be (N, 1..{self.config.span_length}) token ids, but are {tuple(tokens.shape)}")
        encoded: Tensor = encoder(self.token_encoder(tokens), tokens != 0)
        return encoded

    def embed_frames(self, patches: Tensor) -> Tensor:
        """Unit vectors (N, width) of frames, as of ``encode_frames``."""
        return unit_normalize(self.encode_frames(patches).cls)

    def embed_sounds(self, clips: Tensor) -> Tensor:
        """Unit vectors (N, width) of clips of sound, as of ``encode_sounds``."""
        return unit_normalize(self.encode_sounds(clips).cls)

    def embed_spans(self, tokens: Tensor) -> Tensor:
        """Unit vectors (N, width) of text spans, as of ``encode_spans``. Columns that pad every span are not computed, which is exact."""
        used = (tokens != 0).any(dim=0).nonzero()
        length = int(used[-1]) + 1 if len(used) else 1
        return unit_normalize(self.encode_spans(tokens[:, :length]))

    def join(self, inputs: JointInput) -> JointOutput:
        """Run the joint encoder over what ``joint_input`` put together."""
        sequence = self.joint_transformer(inputs.x, inputs.coordinates, inputs.mask)
        return JointOutput(sequence=sequence, projected=self.head(sequence) if self.head is not None else None)

    def joint_input(
        self,
        tokens: Tensor,
        *,
        segments: Tensor | None = None,
        frames: Tensor | None = None,
        sounds: Tensor | None = None,
        pointers: Tensor | None = None,
        sources: Tensor | None = None,
        first_frame_segment: int = 0,
        length: int | None = None,
    ) -> JointInput:
        """Put words, sound and frames into one sequence (spec section 3.1).

        Args:
            tokens: (B, L) token ids, 0 where padded.
            segments: (B, L), the segment of each token.
            frames: (B, S, pooled tokens of a frame, width).
            sounds: (B, A, tokens of a clip, width), pooled; they stand in for AUDIOSPAN tokens, which else keep their own embedding.
            pointers: (B, L), which clip of sound an AUDIOSPAN token is of.
            sources, first_frame_segment, length: see ``joint.assemble``.
        """
        embedded = self.token_encoder(tokens)
        if sounds is not None and pointers is not None:
            embedded = with_sound(embedded, tokens, sounds, pointers)
        return assemble(
            self.config,
            embedded,
            tokens,
            segments=segments,
            frames=frames,
            sources=sources,
            first_frame_segment=first_frame_segment,
            length=length,
        )

    def forward(self, frames: Tensor, tokens: Tensor, subsegments: Tensor, sounds: Tensor | None = None) -> ReserveOutput:
        """A video of S segments: ``embed_video`` of the released code, for a batch (spec section 3.2).

        Args:
            frames: (B, S, rows x columns, patch numbers), as of ``encode_frames``.
            tokens: (B, L) token ids, 0 where padded.
            subsegments: (B, L), which third of which segment a token belongs to: 3 x segment + third; -1 where padded.
            sounds: (B, 3 S, audio_frames, audio_features), as of ``encode_sounds``: clip n is of subsegment n. None: the audio encoder
                does not run, and AUDIOSPAN tokens keep their own embedding.
        """
        if frames.ndim != 4:
            raise InputError(f"a batch of videos must be (B, S, patches, numbers), but the frames are {tuple(frames.shape)}")
        num_clips = CLIPS_PER_SEGMENT * frames.shape[1]
        if sounds is not None and sounds.shape[:2] != (len(frames), num_clips):
            raise InputError(f"{frames.shape[1]} segments have {num_clips} clips of sound, but the sounds are {tuple(sounds.shape)}")
        seen = self.encode_frames(frames.flatten(0, 1))
        heard = self.encode_sounds(sounds.flatten(0, 1)) if sounds is not None else None
        out = self.embed_encoded(
            seen.pooled.reshape(*frames.shape[:2], *seen.pooled.shape[1:]),
            tokens,
            subsegments // CLIPS_PER_SEGMENT,
            heard.pooled.reshape(*sounds.shape[:2], *heard.pooled.shape[1:]) if sounds is not None and heard is not None else None,
            subsegments,
        )
        return ReserveOutput(vectors=out.vectors, joint=out.joint, frames=seen, sounds=heard)

    def embed_encoded(
        self, frames: Tensor, tokens: Tensor, segments: Tensor, sounds: Tensor | None = None, pointers: Tensor | None = None
    ) -> ReserveOutput:
        """The same from frames and sounds that were encoded before; arguments as of ``joint_input``, pointers free of segments.

        Raises InputError if shapes do not go together, a pointer points beyond the sounds, or the weights have no ``head``.
        """
        self.part("head", "give no vectors to compare with spans")
        if tokens.shape != segments.shape or tokens.ndim != 2 or len(tokens) != len(frames):
            raise InputError(
                f"tokens and their segments must both be (batch, length), but are {tuple(tokens.shape)} and {tuple(segments.shape)} for "
                f"{len(frames)} videos"
            )
        if sounds is not None and (pointers is None or pointers.shape != tokens.shape or int(pointers.max()) >= sounds.shape[1]):
            raise InputError(f"with sounds, every token needs a pointer to one of {sounds.shape[1]} clips (-1 where there is none)")
        joint = self.join(self.joint_input(tokens, segments=segments, frames=frames, sounds=sounds, pointers=pointers))
        assert joint.projected is not None
        return ReserveOutput(vectors=unit_normalize(joint.projected[:, : tokens.shape[1]]), joint=joint)

    def score_choices(self, inputs: JointInput, tokens: Tensor) -> Tensor:
        """What finetuned weights think of each sequence, a candidate with its question: (B,), to be compared by softmax (spec section 8).

        ``proj`` of the joint encoder's row at the first MASK, not through ``head``. ``tokens`` (B, L) are those of ``inputs``.

        Raises InputError if the weights were not finetuned, or a sequence has no MASK.
        """
        proj = self.part("proj", "score no choices")
        is_mask = tokens == MASK
        if not bool(is_mask.any(dim=1).all()):
            raise InputError("every choice needs a MASK token behind it, where it is scored")
        first = is_mask.int().argmax(dim=1)
        rows = self.joint_transformer(inputs.x, inputs.coordinates, inputs.mask)[torch.arange(len(tokens), device=tokens.device), first]
        scores: Tensor = proj(rows).squeeze(-1)
        return scores

    def part(self, name: str, lack: str) -> nn.Module:
        """An optional part. InputError that says what the weights cannot do without it."""
        part: nn.Module | None = getattr(self, name)
        if part is None:
            raise InputError(f"the weights {self.config.weights!r} have no {name}, so they {lack}")
        return part

    def fill(self, video: Any, question: str, options: Any, **settings: Any) -> FillResult:
        """Which options go into the blanks, written ``<mask>``, of a statement about a video: ``Filler(model).fill``, see there."""
        from .filling import Filler

        return Filler(self).fill(video, question, options, **settings)

    def embed_video(self, video: Any, **settings: Any) -> VideoVectors:
        """A video file as vectors, a set for each segment of five seconds: see ``watchword.reserve.embedding``."""
        from .embedding import embed_video

        return embed_video(self, video, **settings)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Reserve:  # type: ignore[override]
        """Load weights in evaluation mode; sources and options are those of ``watchword.reserve.checkpoints.load``."""
        from .checkpoints import load

        return load(pretrained_model_name_or_path, **options)

    def _save_pretrained(self, save_directory: Path) -> None:
        from .checkpoints import save

        save(self, save_directory)


def _require(x: Tensor, shape: tuple[int | None, ...], what: str) -> None:
    fits = x.ndim == len(shape) and all(size in (None, actual) for size, actual in zip(shape, x.shape, strict=True))
    if not fits or not x.is_floating_point():
        expected = ", ".join("N" if size is None else str(size) for size in shape)
        raise InputError(f"{what} must be floats of shape ({expected}), but are {x.dtype} of {tuple(x.shape)}")
