"""Records of pretraining as examples, masked anew in each epoch."""

from __future__ import annotations

from typing import Any, Protocol

from torch.utils.data import Dataset

from ..reserve.draws import record_draws
from ..reserve.examples import Pictures, make_example
from ..reserve.images import Grid
from ..reserve.masking import Masking
from ..reserve.pretraining import PretrainingConfig
from ..reserve.records import Record
from ..text.reserve import ReserveTokenizer, default_tokenizer
from .order import Position

__all__ = ["RecordExamples", "Records"]


class Records(Protocol):
    """Any sequence of records, such as ``reserve.shards.RecordShards``."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Record: ...


class RecordExamples(Dataset[dict[str, Any]]):
    """Examples as of ``make_example``, each a function of (seed, epoch, the record's key)."""

    def __init__(
        self,
        records: Records,
        *,
        grid: Grid,
        masking: Masking,
        pretraining: PretrainingConfig,
        pictures: Pictures,
        seed: int,
        tokenizer: ReserveTokenizer | None = None,
    ) -> None:
        self.records, self.seed = records, seed
        self.settings = {"grid": grid, "masking": masking, "pretraining": pretraining, "pictures": pictures}
        self.tokenizer = tokenizer or default_tokenizer()

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, position: Position) -> dict[str, Any]:
        epoch, index = position
        record = self.records[index]
        settings: dict[str, Any] = self.settings
        return make_example(record, record_draws(self.seed, epoch, record.key), tokenizer=self.tokenizer, **settings)
