"""Which segments make records, and how web text is cleaned and packed, against what the authors' code made of the same draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from reserve_data_files import each, lists_with, objects_with, read_json

from watchword.reserve.draws import RandomDraws
from watchword.reserve.grouping import group_segments
from watchword.reserve.packing import pack_documents
from watchword.text.web import clean_document

# The Pile comes in so many pieces, of which these sets are read (spec section 10).
NUM_PIECES = 16410
ACCEPTED = {
    "Pile-CC", "FreeLaw", "StackExchange", "PubMed Abstracts", "OpenWebText2", "Wikipedia (en)", "HackerNews", "NIH ExPorter",
    "USPTO Backgrounds", "OpenSubtitles", "Books3", "Gutenberg (PG-19)", "BookCorpus2",
}  # fmt: skip


class Recorded(RandomDraws):
    def __init__(self, draws: list[list[Any]]) -> None:
        self.left = list(draws)

    def uniform(self, name: str, shape: Any, low: float = 0.0, high: float = 1.0) -> Any:
        kind, value = self.left.pop(0)
        assert kind == "uniform"
        return np.float32(value)

    def below(self, name: str, limit: int) -> int:
        kind, value, expected_limit = self.left.pop(0)
        assert kind == "choice_index" and limit == expected_limit
        return int(value)


@each(objects_with("record_grouping", "web_text_packing"), "record grouping")
def test_segments_are_grouped_into_records(path: Path) -> None:
    for case in read_json(path)["record_grouping"]:
        draws = Recorded(case["draws"])
        found = list(group_segments(case["video_segment_counts"], draws, size=case["group_size"], most_waiting=case["max_items"]))
        assert [[list(place) for place in group] for group in found] == case["groups"]
        assert not draws.left


@each(lists_with("text", "plain", "aggressive"), "cleaned texts")
def test_web_text_is_cleaned(path: Path) -> None:
    for case in read_json(path):
        assert clean_document(case["text"]) == case["plain"]
        assert clean_document(case["text"], spell_numbers=True) == case["aggressive"]


@each(objects_with("record_grouping", "web_text_packing"), "packed web text")
def test_web_text_is_packed(path: Path) -> None:
    for case in read_json(path)["web_text_packing"]:
        share, own = case["num_folds"] // NUM_PIECES + 1, case["fold"] // NUM_PIECES
        read = [document for line, document in enumerate(case["documents"]) if line % share == own % share]
        texts = [document["text"] for document in read if document["meta"]["pile_set_name"] in ACCEPTED]
        coins = case["aggressive_coin_uniform"]
        cleaned = [clean_document(text, spell_numbers=coin >= 0.5) for text, coin in zip(texts, coins, strict=False)]
        found = [stretch.tolist() for stretch in pack_documents(cleaned, length=case["text_len"], released=True)]
        size = case["num_seqs"]
        assert [found[i : i + size] for i in range(0, len(found) - size + 1, size)] == case["output"]
