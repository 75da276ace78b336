"""Records rendered from films: what pretraining on the playground reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from watchword.datasets.film_records import film_records
from watchword.datasets.playground_films import film_segments
from watchword.playground import parse_phrase, sample_film
from watchword.playground.documents import documents
from watchword.playground.world import held_out
from watchword.reserve.shards import RecordShards
from watchword.text.reserve import default_tokenizer


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def records(cache: Path, **changes: Any) -> RecordShards:
    return film_records(2, **{"split": "train", "num_segments": 4, "frame_size": 32, "seed": 0, "cache_folder": cache, **changes})


def test_records_hold_the_films_segments_in_order(cache: Path) -> None:
    found = records(cache)
    assert found.manifest.num_segments == 4 and len(found) > 10
    film = film_segments(sample_film(1, split="train"), frame_size=32, seed=1)
    by_start = {segment.start_time: segment for segment in film}
    seen = 0
    for record in found:
        for segment in record.segments:
            if segment.video_id != "film1":
                continue
            start = segment.start_time
            own = min(film, key=lambda other: abs(other.start_time - start))
            assert default_tokenizer().decode(segment.tokens).replace(" ", "") == "".join(own.words)
            assert np.abs(segment.image().astype(int) - own.frame).mean() < 8  # JPEG of a noisy picture
            kept = own.spectrogram.T * segment.magic_number < 254  # what is louder is cut off
            off = np.abs(segment.log_mel().numpy() - own.spectrogram.T)
            assert off[kept].max() < 1.01 / segment.magic_number
            seen += 1
        starts = [segment.start_time for segment in record.segments if segment.video_src_index == 0]
        assert starts == sorted(starts)
    assert seen > len(by_start) - 4


def test_the_same_films_are_rendered_once_and_have_text_if_asked(cache: Path) -> None:
    before = records(cache)._path(records(cache).manifest.train[0]).stat().st_mtime_ns
    assert records(cache)._path(records(cache).manifest.train[0]).stat().st_mtime_ns == before
    assert records(cache)[0].web_text is None
    with_text = records(cache, text_length=64)[0]
    assert with_text.web_text is not None and with_text.web_text.shape == (2, 64)
    assert records(cache, split="unseen")[0].key == records(cache)[0].key  # another folder, not another's records


def test_documents_tell_of_their_split_alone_and_are_the_same_for_a_seed() -> None:
    told, again = documents(3, split="train"), documents(3, split="train")
    phrases = 0
    for _ in range(30):
        document = next(told)
        assert document == next(again)
        for sentence in document.rstrip(".").split(". "):
            try:
                shape, colour, action = parse_phrase(sentence)
            except ValueError:
                continue
            phrases += 1
            assert not held_out(shape, colour, action)
    assert phrases > 50
