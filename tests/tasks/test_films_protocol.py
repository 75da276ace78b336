"""The playground protocol of fill, by a model that knows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny_reserve import tiny_reserve
from watchword.errors import ConfigError
from watchword.playground import parse_phrase
from watchword.tasks.playground_films import OPTIONS, _measure, evaluate
from watchword.tasks.registry import find_task
from watchword.tasks.task import EvaluationOptions


def test_every_scene_is_asked_about_and_the_percentages_are_of_the_guesses(tmp_path: Path) -> None:
    found = {use: evaluate(tiny_reserve(), tmp_path, use=use, num_films=1, seed=5) for use in ("frames", "sound")}
    for use, result in found.items():
        assert result.use == use and result.num_options == len(OPTIONS) == 720
        assert result.num_questions == len(result.guesses) > 20
        right = [true == guess for true, guess in result.guesses]
        assert result.top1 == pytest.approx(100 * sum(right) / len(right)) and result.top5 >= result.top1
        assert {"protocol", "weights_sha256", "classes_sha256"} <= result.as_dict().keys() and "guesses" not in result.as_dict()
    assert [true for true, _ in found["frames"].guesses] == [true for true, _ in found["sound"].guesses]


def test_what_is_right_is_counted_by_part() -> None:
    pairs = [
        ("a red square rings", ["a red square rings"]),
        ("a red square buzzes", ["a red star rings", "a red square buzzes"]),
        ("a blue star moves up", ["a blue star moves down"]),
        ("a blue star moves up", ["a red moon moves up"]),
    ]
    result = _measure("sound", pairs, {})
    assert (result.top1, result.top5, result.colour, result.shape) == (25.0, 50.0, 75.0, 50.0)
    assert result.action == 50.0 and result.action_heard_only == 50.0
    assert result.action_by_action == {"rings": 100.0, "buzzes": 0.0, "moves up": 50.0}
    assert parse_phrase(result.guesses[0][0]) == parse_phrase(result.guesses[0][1])


def test_it_is_a_task_that_renders_what_it_needs(tmp_path: Path) -> None:
    tiny_reserve().save_pretrained(tmp_path / "weights")
    settings = {"films": 1, "scenes": 3}
    options = EvaluationOptions(device="cpu", use="frames", settings=settings)
    result = find_task("playground_films").evaluate(tmp_path / "films", str(tmp_path / "weights"), options)
    assert len(result.rows) >= 2 and set(result.baselines["random"]) == set(result.metrics)
    assert all(row["right"] in OPTIONS and row["guess"] in OPTIONS and 1 <= row["place"] <= len(OPTIONS) for row in result.rows)
    options = EvaluationOptions(device="cpu", use="frames", settings={**settings, "objects": True})
    objects = find_task("playground_films").evaluate(tmp_path / "films", str(tmp_path / "weights"), options)
    assert [row["right"] in whole["right"] for row, whole in zip(objects.rows, result.rows, strict=True)] == [True] * len(result.rows)
    assert objects.baselines["random"]["top1"] == pytest.approx(100 / 36)
    with pytest.raises(ConfigError, match="films"):
        find_task("playground_films").check(tmp_path, {"films": 0})
