"""Masking of MERLOT Reserve's records against what the authors' code made of the same draws."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reserve_data_files import arrays_with, each, objects_with, read_arrays, read_json

from watchword.reserve.masking import Masking, mask_record, mask_rows
from watchword.reserve.rows import RecordRows, SegmentWords, assign, donate, edges_of, fill_empty, lay_out
from watchword.reserve.truncation import fit_end, fit_group

RECORDS = arrays_with("draw_subsegment_choice", "draw_textify", "in_tok_ids", "out_text2audio")
STEPS = objects_with("assign", "reassign", "increase", "mask", "truncate")


class RecordedDraws:
    """Hands out recorded choices by name, each once."""

    def __init__(self, recorded: dict[str, list[Any]]) -> None:
        self.left = {name: list(values) for name, values in recorded.items()}

    def _next(self, name: str, shape: tuple[int, ...] | None) -> Any:
        value = self.left[name].pop(0)
        assert shape is None or np.shape(value) == shape, name
        return value

    def uniform(self, name: str, shape: int | tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Any:
        return np.asarray(self._next(name, (shape,) if isinstance(shape, int) else shape), np.float32)

    def coin(self, name: str) -> bool:
        return bool(self._next(name, ()))

    def coins(self, name: str, count: int, chance: float) -> Any:
        return self._next(name, (count,))

    def distinct(self, name: str, count: int, limit: int) -> Any:
        return self._next(name, (count,))

    def below(self, name: str, limit: int) -> int:
        return int(self._next(name, ()))

    def weighted(self, name: str, count: int, weights: Sequence[float]) -> Any:
        return self._next(name, (count,))


def draws_of(arrays: dict[str, np.ndarray]) -> RecordedDraws:
    recorded: dict[str, list[Any]] = {name.removeprefix("draw_"): [value] for name, value in arrays.items() if name.startswith("draw_")}
    for name in ("segment_score", "gumbel_u"):
        recorded[name] = [arrays[f"trunc{i}_{name}"] for i in range(int(arrays["num_truncations"]))]
    return RecordedDraws(recorded)


def ragged(arrays: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    return np.split(arrays[f"in_{name}"], np.cumsum(arrays[f"in_{name}_len"])[:-1])


def segments_of(arrays: dict[str, np.ndarray]) -> list[SegmentWords]:
    lengths = np.cumsum(arrays["in_tok_ids_len"])[:-1]
    starts, ends = (np.split(arrays[f"in_tok_{side}_times"], lengths) for side in ("start", "end"))
    columns = zip(
        ragged(arrays, "tok_ids"),
        starts,
        ends,
        arrays["in_start_time"],
        arrays["in_end_time"],
        arrays["in_video_src_index"],
        ragged(arrays, "title"),
        ragged(arrays, "description"),
        ragged(arrays, "tags"),
        strict=True,
    )
    return [
        SegmentWords(ids, start, end, begin, until, int(video), True, title, description, tags)
        for ids, start, end, begin, until, video, title, description, tags in columns
    ]


@each(RECORDS, "masked records")
def test_a_record_with_the_recorded_draws_gives_the_released_example(path: Path) -> None:
    arrays = read_arrays(path)
    draws = draws_of(arrays)
    example = mask_record(segments_of(arrays), ragged(arrays, "random_text")[0], draws, Masking.released())
    assert not any(draws.left.values()), "some recorded draws were not asked for"
    assert np.array_equal(example.crop_starts, arrays["subsegment_start_hop"])
    for name in (output.removeprefix("out_") for output in arrays if output.startswith("out_")):
        assert np.array_equal(getattr(example, name), arrays[f"out_{name}"]), name


@each(RECORDS, "masked records")
def test_rows_and_times_on_the_way(path: Path) -> None:
    arrays = read_arrays(path)
    rows = lay_out(segments_of(arrays), [tuple(int(hop) for hop in hops) for hops in arrays["subsegment_start_hop"]])
    assert np.allclose(rows.centres, arrays["tok_centres_global"], rtol=0, atol=1e-4)
    assert np.allclose(rows.spans, arrays["audio_start_end_global"], rtol=0, atol=1e-4)
    assert np.array_equal(np.diff(rows.edges), arrays["rows_initial"])
    targets = arrays["draw_subsegment_choice"][: len(arrays["draw_subsegment_choice"]) // 2]
    everywhere = np.ones(len(rows.edges) - 2, bool)
    edges = fill_empty(rows.edges, targets, everywhere, right_first=bool(arrays["draw_reassign_right_first"]))
    assert np.array_equal(np.diff(edges), arrays["rows_after_reassign"])
    edges = donate(rows, edges, targets, everywhere, right_first=bool(arrays["draw_increase_right_first"]))
    assert np.array_equal(np.diff(edges), arrays["rows_after_increase"])


@each(RECORDS, "masked records")
def test_overlong_groups_alone(path: Path) -> None:
    arrays = read_arrays(path)
    draws = draws_of(arrays)
    for number in range(int(arrays["num_truncations"])):
        expected = arrays[f"trunc{number}_out"]
        found = fit_group(arrays[f"trunc{number}_inp"], len(expected), len(arrays["draw_textify"]), draws, split_rows=True)
        assert np.array_equal(found, expected)


def rows_of(ids: list[list[int]], centres: list[list[float]] | None = None, spans: Any = None) -> RecordRows:
    flat = np.array([token for row in ids for token in row], np.int64)
    times = np.array([time for row in centres or [] for time in row], np.float32)
    return RecordRows(flat, times, edges_of([len(row) for row in ids]), np.asarray([] if spans is None else spans, np.float32))


def split(rows: RecordRows, edges: np.ndarray) -> list[list[int]]:
    return [rows.row(i, edges).tolist() for i in range(len(edges) - 1)]


def steps(name: str) -> Iterator[dict[str, Any]]:
    for path in STEPS:
        yield from read_json(path)[name]


@each(STEPS, "single steps")
def test_words_are_assigned_in_order(path: Path) -> None:
    for case in read_json(path)["assign"]:
        found = assign(np.array(case["token_centres"], np.float32), np.array(case["subsegment_centres"], np.float32))
        assert found.tolist() == case["assigned"]


@each(STEPS, "single steps")
@pytest.mark.parametrize("side", ["right_first", "left_first"])
def test_targets_take_words_from_their_neighbours(path: Path, side: str) -> None:
    for case in read_json(path)["reassign"]:
        rows = rows_of(case["rows"])
        edges = fill_empty(rows.edges, case["targets"], np.ones(len(case["rows"]) - 1, bool), right_first=side == "right_first")
        assert split(rows, edges) == case[side]
    for case in read_json(path)["increase"]:
        rows = rows_of(case["rows"], case["centres"], case["audio_start_end"])
        edges = donate(rows, rows.edges, case["targets"], np.ones(len(case["rows"]) - 1, bool), right_first=side == "right_first")
        assert split(rows, edges) == case[side]


@each(STEPS, "single steps")
def test_masked_rows_and_their_spans(path: Path) -> None:
    for case in read_json(path)["mask"]:
        rows, targets = rows_of(case["rows"]), np.sort(case["targets"])
        pieces = mask_rows(
            rows,
            targets,
            first_pointer=case["span_counter_start"],
            as_audio=None if case["use_audio"] is None else np.array(case["use_audio"]),
            audio_masks=np.full(len(case["rows"]), case["add_maskaudio"]),
        )
        assert [rows.row(target).tolist() for target in targets] == case["spans"]
        size = len(pieces) // case["num_groups"]
        groups = [np.concatenate(pieces[first : first + size]) for first in range(0, len(pieces), size)]
        if case["padded_len"]:
            groups = [fit_end(group, case["padded_len"]) for group in groups]
        found = [group.tolist() for group in groups]
        assert found == (case["sequences"] if case["padded_len"] or len(found) > 1 else case["sequences"][:1])


@each(STEPS, "single steps")
def test_truncation_by_rows_with_the_recorded_draws(path: Path) -> None:
    for case in read_json(path)["truncate"]:
        recorded = defaultdict(list, segment_score=[case["row_scores"]], gumbel_u=[case["gumbel_uniform"]])
        draws = RecordedDraws(recorded)
        found = fit_group(np.array(case["tokens"]), case["padded_len"], case["num_rows"], draws, split_rows=True)
        assert found.tolist() == case["out"]
