from __future__ import annotations

from watchword.tasks.playground import _measure


def test_a_clip_is_right_only_if_shape_colour_and_action_are() -> None:
    result = _measure(
        [
            ("a red square moves left", "a red square moves left"),
            ("a red square moves left", "a blue square moves left"),
            ("a red square grows", "a red star shrinks"),
            ("a red square grows", "a red square grows"),
        ]
    )
    assert (result.num_clips, result.top1, result.shape, result.colour, result.action) == (4, 50, 75, 75, 75)
    assert result.top1_by_action == {"moves left": 50, "grows": 50}
    assert result.action_by_action == {"moves left": 100, "grows": 50}
