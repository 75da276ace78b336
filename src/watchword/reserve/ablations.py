"""What MERLOT Reserve is compared with in table 1 of the paper: masked words told token by token, without a span encoder.

The other rows of the table are settings of ``PretrainingConfig`` and ``Masking``. Source: model spec section 10; where the paper is silent,
its choices marked (*).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import processes
from ..layers import TransformerBlock
from ..layers.contrast import candidate_loss
from .joint import MASK, PAD
from .model import Reserve
from .pretraining import VIEWS, Batch, PretrainingConfig, PretrainingDraws, encode_batch, frame_pairs, masked_token_loss
from .recipe import EXAMPLES_AT_ONCE, PretrainingProgram
from .vectors import sum_by_pointer

__all__ = ["Objective", "SpanDecoder", "TokenProgram"]

Objective = Literal["spans", "masked_tokens", "decoder"]
DECODER_LAYERS = 4


class SpanDecoder(nn.Module):
    """Tells a span's tokens from left to right: the vector of its blank stands before them, and what comes out at each place is compared
    with the tokens' embeddings. Causal blocks over learned positions.
    """

    def __init__(self, width: int, num_heads: int, span_length: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(span_length, width) * 0.02)
        self.layers = nn.ModuleList(
            TransformerBlock(width, num_heads, activation="quick_gelu", causal=True, output_bias=False) for _ in range(DECODER_LAYERS)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, blanks: Tensor, embedded: Tensor) -> Tensor:
        """Blanks (n, width) and the embedded tokens of their spans (n, L, width) -> (n, L, width): place i knows the tokens before i."""
        x = torch.cat([blanks[:, None], embedded[:, :-1]], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        out: Tensor = self.norm(x)
        return out


class TokenProgram(PretrainingProgram):
    """Pretraining in which the words of a masked span are told one by one: each by a blank of its own (``masked_tokens``; masking is to be
    told ``mask_tokens``), or from left to right behind one blank (``decoder``). Frames are found as ever, sound not at all.
    """

    name = "pretraining by tokens"

    def __init__(self, model: Reserve, dataset: Any, *, config: PretrainingConfig, objective: Objective, held_out: Any = None) -> None:
        super().__init__(model, dataset, config=config, held_out=held_out)
        own = model.config
        if objective == "decoder":
            model.span_decoder = SpanDecoder(own.width, own.num_heads, own.span_length)  # so that it is optimised and spread with the rest
        self.objective = objective

    @property
    def metrics(self) -> list[str]:
        return [] if self.held_out is None else ["held_out_token_top1"]

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        encoded = encode_batch(self.model, batch, self.config, PretrainingDraws.of(batch))
        frames = frame_pairs(self.model, batch, encoded)
        frame_loss, _ = candidate_loss(frames.x, frames.y, chunk_rows=self.config.chunk_rows or None)
        logits, labels = self._told(batch, encoded.read)
        token_loss = masked_token_loss(logits, labels)
        return frame_loss + token_loss, {"frame_loss": frame_loss.detach(), "token_loss": token_loss.detach()}

    def _told(self, batch: Batch, read: Any) -> tuple[Tensor, Tensor]:
        """Logits (n, vocabulary) and the tokens (n,) they should be highest for, 0 where there is none."""
        table, spans = self.model.token_encoder.weight, batch["text_spans"]
        if self.objective == "decoder":
            found = [sum_by_pointer(read[view], batch[view] == MASK, batch[f"{view}/text_ptr"], *spans.shape[:2])[0] for view in VIEWS]
            decoder = self.model.span_decoder
            assert isinstance(decoder, SpanDecoder)
            decoded = decoder(torch.stack(found).sum(dim=0).flatten(0, 1), self.model.token_encoder(spans).flatten(0, 1))
            return decoded.flatten(0, 1) @ table.T, spans.flatten()
        rows, labels = [], []
        for view in VIEWS:
            is_mask, pointers = batch[view] == MASK, batch[f"{view}/text_ptr"].clamp(min=0)
            place = _number_in_run(pointers, is_mask)
            own = spans.flatten(1).gather(1, (pointers * spans.shape[2] + place.clamp(max=spans.shape[2] - 1)).flatten(1)).view_as(pointers)
            rows.append(read[view].unflatten(0, pointers.shape[:2])[is_mask])
            labels.append(own[is_mask])
        return torch.cat(rows) @ table.T, torch.cat(labels)

    def save(self, folder: Path, weights: dict[str, Tensor]) -> None:
        super().save(folder, {name: tensor for name, tensor in weights.items() if not name.startswith("span_decoder.")})

    def evaluate(self) -> dict[str, Any]:
        """Over the held-out examples, in percent, how many tokens of masked words are told right; the decoder knows those before."""
        if self.held_out is None:
            return {}
        num_right = num_told = 0
        for _, batch in self.held_out_batches(EXAMPLES_AT_ONCE):
            logits, labels = self._told(batch, encode_batch(self.model, batch, self.config, PretrainingDraws.of(batch)).read)
            num_right += int(((logits.argmax(dim=1) == labels) & (labels != PAD)).sum())
            num_told += int((labels != PAD).sum())
        right, told = (sum(numbers) for numbers in zip(*processes.gather((num_right, num_told)), strict=True))
        return {"num_held_out": len(self.held_out), "held_out_token_top1": 100 * right / max(told, 1)}


def _number_in_run(pointers: Tensor, is_mask: Tensor) -> Tensor:
    """Of each blank the how-manieth it is of those of its span, which stand one behind the other."""
    same = F.pad(pointers[..., 1:] == pointers[..., :-1], (1, 0)) & is_mask & F.pad(is_mask[..., :-1], (1, 0))
    places = torch.arange(pointers.shape[-1], device=pointers.device).expand_as(pointers)
    return places - torch.where(same, 0, places).cummax(dim=-1).values
