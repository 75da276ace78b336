"""Each zero-shot task's own: how its files are read, its statements and options, its numbers and its leaderboard's file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.errors import ConfigError
from watchword.playground.stand_ins.zero_shot import write_lsmdc, write_star
from watchword.reserve import Reserve
from watchword.reserve.segments import Stretches
from watchword.tasks.epic_kitchens import Actions, EpicKitchens, ObservedBefore, in_words, mean_recall
from watchword.tasks.lsmdc import Lsmdc, blanked
from watchword.tasks.msrvtt_qa import MsrvttQa, in_threes
from watchword.tasks.registry import find_task
from watchword.tasks.star import Star, statement
from watchword.tasks.statements import BLANK, as_statement
from watchword.tasks.task import EvaluationOptions, TaskResult
from watchword.tasks.zero_shot import Options


def evaluate(name: str, folder: Path, weights: str, **settings: Any) -> TaskResult:
    return find_task(name).evaluate(folder, weights, EvaluationOptions(device="cpu", settings=settings))


# STAR


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which object was opened by the person?", "the person opened <mask>."),
        ("What did the person do with the bag?", "the person <mask> the bag."),
        ("What did the person do while they were holding the phone?", "while the person was holding the phone, they <mask>."),
        ("Which object did the person take after they put down the bottle?", "after the person put down the bottle, they take <mask>."),
        ("What happened before the person opened the door?", "before the person opened the door, they <mask>."),
        ("What did the person do to the laptop before holding the clothes?", "before holding the clothes, the person <mask> the laptop."),
        ("What will the person do next with the book?", "next, the person will <mask> the book."),
        ("What will the person do next?", "next, the person will <mask>."),
        ("Which object would the person open next?", "next, the person will open <mask>."),
        ("Which object would the person hold next after they sit?", "after they sit, the person will hold <mask> next."),
        ("Which other object is possible to be eaten by the person?", "<mask> can be eaten by the person, too."),
        ("What else is the person able to do with the door?", "with the door, the person is also able to <mask>."),
        ("Which object is possible to be closed when the person is near it?", "when the person is near it, <mask> can be closed."),
        ("What is the person able to do when they are on the bed?", "when the person is on the bed, they are able to <mask>."),
        ("Which object is the person able to take after opening the bag?", "after opening the bag, the person is able to take <mask>."),
        ("What is the person able to do after sitting on the sofa?", "after sitting on the sofa, the person is able to <mask>."),
        ("Is it raining?", "is it raining? <mask>."),
    ],
)  # fmt: skip
def test_star_statements(question: str, expected: str) -> None:
    assert statement(question) == expected


def test_star_means_over_kinds(stand_ins: dict[str, Path]) -> None:
    task = Star.of({})
    items = task.items(stand_ins["star"], [])
    assert {item.kind for item in items} == {"Interaction", "Sequence", "Prediction", "Feasibility"}
    right = {"Interaction": 1, "Sequence": 1, "Prediction": 2, "Feasibility": 3}
    rows = [{"place": right[item.kind], "error": ""} for item in items]
    assert task.metrics(items, rows)["mean"] == 50
    assert task.metrics(items[:1] * 3 + items[2:3], [{"place": 1}] * 3 + [{"place": 2}])["mean"] == 50  # whatever their numbers


def test_star_leaderboard_file_needs_no_answers(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    write_star(tmp_path, 4, split="test", size=32)
    result = evaluate("star", tmp_path, weights, split="test")
    assert result.metrics == {}
    chosen = json.loads(result.exports["star_submission.json"])
    assert sorted(chosen) == sorted(["Interaction", "Sequence", "Prediction", "Feasibility"])
    assert all(row["answer"] in range(4) for rows in chosen.values() for row in rows)


@pytest.mark.parametrize(
    ("change", "names"),
    [({"question": 3}, "is 3"), ({"start": "soon"}, "start and end"), ({"choices": [{}]}, "choices"), ({"answer": "A sun."}, "none of")],
)  # fmt: skip
def test_star_files_of_another_form_are_refused_by_row(
    change: dict[str, Any], names: str, stand_ins: dict[str, Path], tmp_path: Path
) -> None:
    rows = json.loads((stand_ins["star"] / "STAR_val.json").read_text())
    rows[1] |= change
    (tmp_path / "STAR_val.json").write_text(json.dumps(rows))
    with pytest.raises(ConfigError, match=f"question 2: .*{names}"):
        Star.of({}).items(tmp_path, [])


# EPIC-KITCHENS


def test_nouns_of_several_words() -> None:
    assert in_words("take wrap:plastic") == "take plastic wrap"
    assert in_words("take processor:food:small") == "take small food processor"
    assert in_words("turn-on tap") == "turn-on tap"


def test_verbs_and_nouns_are_ranked_by_their_best_action() -> None:
    pairs = [(verb, noun) for verb in range(7) for noun in range(7)]
    actions = Actions(Options(tuple(f"{v} {n}" for v, n in pairs)), *np.array(pairs).T)
    scores = np.random.default_rng(0).random(len(pairs)).astype(np.float32)
    table = scores.reshape(7, 7)
    best = actions.best(scores)
    assert best["verb"] == np.argsort(-table.max(axis=1)).tolist()[:5]
    assert best["noun"] == np.argsort(-table.max(axis=0)).tolist()[:5]
    assert best["action"] == np.argsort(-scores).tolist()[:5]


def test_recall_is_a_mean_over_classes() -> None:
    assert mean_recall([("a", True), ("a", True), ("a", True), ("b", False)]) == 50


def test_what_is_observed_ends_a_second_before() -> None:
    assert [(s.start, s.end) for s in ObservedBefore(9.0, 2, 2.0)(0, 100)] == [(5, 7), (7, 9)]
    spans = ObservedBefore(9.0, 2, 2.0, (10.0, 12.0))(0.5, 100)
    assert [(s.start, s.end) for s in spans] == [(5.5, 7.5), (7.5, 9.5), (9.5, 10.5), (10.5, 12.5)]
    assert [(s.start, s.end) for s in ObservedBefore(1.0, 2, 2.0)(0, 100)] == [(0, 0), (0, 1)]


def test_the_future_is_neither_seen_nor_heard(stand_ins: dict[str, Path]) -> None:
    item = EpicKitchens.of({"layout": "6x5"}).items(stand_ins["epic_kitchens"], [])[1]
    with Stretches(item.video, item.spans, num_hidden=2).open() as shown, Stretches(item.video, item.spans).open() as whole:
        hidden, seen = list(shown), list(whole)
    assert len(hidden) == 8
    for a, b in zip(hidden[:6], seen[:6], strict=True):
        assert (a.frame == b.frame).all() and (a.has_sound == b.has_sound).all()
    assert seen[7].frame.any() and seen[7].has_sound.any()
    for a in hidden[6:]:
        assert not a.frame.any() and not a.has_sound.any() and not a.spectrogram[..., :64].any()


def test_epic_kitchens_splits_and_submission(stand_ins: dict[str, Path], weights: str) -> None:
    folder = stand_ins["epic_kitchens"]
    metrics = evaluate("epic_kitchens", folder, weights).metrics
    assert {f"{group}{kind}_recall5" for group in ("", "unseen_", "tail_") for kind in ("verb", "noun", "action")} <= set(metrics)
    result = evaluate("epic_kitchens", folder, weights, split="test", layout="6x5", prompt="sentence")
    found = json.loads(result.exports["test.json"])
    assert (found["version"], found["challenge"]) == ("0.2", "action_anticipation")
    ids = [row["narration_id"] for row in csv.DictReader((folder / "EPIC_100_test_timestamps.csv").read_text().splitlines())]
    assert list(found["results"]) == ids
    for scores in found["results"].values():
        assert len(scores["action"]) == 100 and len(scores["verb"]) == 20 and len(scores["noun"]) == 36


# LSMDC


def test_blanks_of_sentences() -> None:
    assert blanked("SOMEONE _____ his  head .") == "SOMEONE <mask> his head ."
    for wrong in ("no blank", "_____ and _____"):
        with pytest.raises(ConfigError, match="must have one"):
            blanked(wrong)


def test_lsmdc_files_without_column_names(stand_ins: dict[str, Path], tmp_path: Path) -> None:
    source = stand_ins["lsmdc"] / "LSMDC16_annos_test_FIB.csv"
    with_names = Lsmdc.of({}).items(stand_ins["lsmdc"], [])
    (tmp_path / source.name).write_text("".join(source.read_text().splitlines(keepends=True)[1:]))
    without = Lsmdc.of({}).items(tmp_path, [])
    assert [(item.statement, item.answer) for item in without] == [(item.statement, item.answer) for item in with_names]


def test_lsmdc_prior_and_export(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    write_lsmdc(tmp_path, 4, size=32)
    write_lsmdc(tmp_path, 12, seed=1, split="training", size=32)
    result = evaluate("lsmdc", tmp_path, weights)
    assert set(result.baselines) == {"random", "prior"}
    assert result.exports["lsmdc_answers.txt"].decode().split("\n")[:-1] == [row["guess"] for row in result.rows]


# MSR-VTT


@given(st.text(max_size=60))
def test_a_statement_has_exactly_one_blank(question: str) -> None:
    assert as_statement(question).count(BLANK) == 1


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("what is a man doing?", "a man is <mask>"),
        ("what are three people sitting on?", "three people are sitting on <mask>"),
        ("what is a woman singing with others in the background?", "a woman is singing <mask> with others in the background"),
        ("what plays?", "<mask> plays"),
        ("what is playing?", "<mask> is playing"),
        ("what does the girl sing on?", "the girl sing on <mask>"),
        ("what do people do?", "people <mask>"),
        ("who is singing a song?", "<mask> is singing a song"),
        ("who sings to the camera?", "<mask> sings to the camera"),
        ("how many people are sitting on a couch?", "<mask> people are sitting on a couch"),
        ("where is a man walking?", "a man is walking in <mask>"),
        ("when does a rocker sing?", "a rocker sing when <mask>"),
        ("what?", "what <mask>"),
        ("", "<mask>"),
    ],
)
def test_statements_by_rule(question: str, expected: str) -> None:
    assert as_statement(question) == expected


@given(st.floats(0, 600), st.floats(0, 10))
def test_clips_of_any_length_are_at_most_eight_segments(seconds: float, start: float) -> None:
    spans = in_threes(start, start + seconds)
    assert 1 <= len(spans) <= 8
    assert all(start - 1e-6 <= span.start <= span.end <= start + seconds + 0.011 for span in spans)


def test_options_are_the_most_frequent_answers(stand_ins: dict[str, Path]) -> None:
    training = json.loads((stand_ins["msrvtt_qa"] / "train_qa.json").read_text())
    counts: dict[str, int] = {}
    for row in training:
        counts[row["answer"]] = counts.get(row["answer"], 0) + 1
    options = MsrvttQa.of({"num_options": 3}).items(stand_ins["msrvtt_qa"], [])[0].options.texts
    least = sorted(counts.values(), reverse=True)[2]
    assert set(options) == {answer for answer, count in counts.items() if count >= least}


def test_rewrites_from_elsewhere(stand_ins: dict[str, Path], weights: str, tmp_path: Path) -> None:
    ids = [str(row["id"]) for row in json.loads((stand_ins["msrvtt_qa"] / "test_qa.json").read_text())]
    (tmp_path / "rewrites.json").write_text(json.dumps({ids[0]: "it is a _ .", ids[1]: "it is a <mask>", ids[2]: "_ and _"}))
    result = evaluate("msrvtt_qa", stand_ins["msrvtt_qa"], weights, rewrites=str(tmp_path / "rewrites.json"))
    rows = {row["id"]: row for row in result.rows}
    assert rows[ids[0]]["statement"] == "it is a <mask> ." and not rows[ids[1]]["error"]
    assert "exactly one blank" in rows[ids[2]]["error"] and "no rewritten question" in rows[ids[3]]["error"]
    assert all(rows[identity]["error"] and rows[identity]["place"] == 0 for identity in ids[2:])
    assert len(rows) == len(ids)


def test_questions_of_a_clip_share_its_encoding(stand_ins: dict[str, Path], weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    encode = Reserve.encode_frames

    def counted(self: Reserve, patches: Any) -> Any:
        encoded.append(len(patches))
        return encode(self, patches)

    monkeypatch.setattr(Reserve, "encode_frames", counted)
    result = evaluate("msrvtt_qa", stand_ins["msrvtt_qa"], weights)
    clips = {row["id"]: int(row["id"]) // 3 for row in result.rows}
    assert len(encoded) == len(set(clips.values())) < len(result.rows)
