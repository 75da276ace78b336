"""Examples of pretraining: what the model reads of a record, the same for the same draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from record_fixtures import record
from watchword.datasets.records import RecordExamples
from watchword.errors import ConfigError, InputError
from watchword.reserve import ReserveConfig
from watchword.reserve.cost import count_pretraining
from watchword.reserve.draws import record_draws
from watchword.reserve.examples import Pictures, make_example
from watchword.reserve.images import fit, patches
from watchword.reserve.masking import Masking, mask_record
from watchword.reserve.pretraining import PretrainingConfig
from watchword.reserve.spectrogram import subsegments
from watchword.text.reserve import default_tokenizer

GRID = (2, 4)
MASKING = Masking(group_segments=2, length=40, joint_length=96, text_length=96, web_masks=0)
SETTINGS = {"grid": GRID, "masking": MASKING, "pretraining": PretrainingConfig(spans_per_example=6), "pictures": Pictures.unchanged()}


def example(seed: int = 0, epoch: int = 0, **changes: object) -> dict[str, np.ndarray]:
    settings = {**SETTINGS, **changes}
    own = record()
    return make_example(own, record_draws(seed, epoch, own.key), tokenizer=default_tokenizer(), **settings)  # type: ignore[arg-type]


def test_an_example_has_the_frames_the_sound_at_its_crops_and_the_masked_words() -> None:
    own, found = record(), example()
    masked = mask_record(own.words(), (), record_draws(0, 0, own.key), MASKING)
    frames = torch.cat([patches(fit(segment.image(), GRID, random=True).pixels) for segment in own.segments])
    assert torch.equal(torch.from_numpy(found["images"]), frames)
    for number, segment in enumerate(own.segments):
        heard = subsegments(segment.log_mel(), tuple(masked.crop_starts[number].tolist()), speed=segment.playback_speed)
        assert np.array_equal(found["audio_clips"][180 * number : 180 * (number + 1)], heard.flatten(0, 1).numpy())
    assert np.array_equal(found["text2audio"], masked.text2audio[..., 0])
    assert np.array_equal(found["audio2text/text_ptr"], masked.audio2text[..., 2])
    assert np.array_equal(found["video_src_index"], [0, 0, 1, 1])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 1000))
def test_an_example_is_a_function_of_seed_epoch_and_key(seed: int, epoch: int) -> None:
    pictures = Pictures()
    one, again, other = (example(seed, when, pictures=pictures) for when in (epoch, epoch, epoch + 1))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one["draws/spans"], other["draws/spans"])
    assert ((one["draws/spans"] >= 0) & (one["draws/spans"] < 1)).all()
    for view in ("audio2text", "text2audio"):
        assert set(one[f"draws/{view}"].tolist()) <= {1, 2}


def test_groups_are_split_at_the_rate_told() -> None:
    def share(rate: float) -> float:
        config = PretrainingConfig(spans_per_example=6, split_probability=rate)
        data = RecordExamples([record()], **{**SETTINGS, "pretraining": config}, seed=0)  # type: ignore[arg-type]
        return float(np.mean([data[epoch, 0]["draws/audio2text"] == 1 for epoch in range(150)]))

    assert share(0.0) == 0
    assert share(0.3) == pytest.approx(0.3, abs=0.08)


def test_web_text_is_masked_where_there_is_some_and_missed_where_there_is_none() -> None:
    masking = Masking(group_segments=2, length=40, joint_length=96, text_length=15, web_masks=2)
    own = record()
    found = make_example(own, record_draws(0, 0, own.key), tokenizer=default_tokenizer(), **{**SETTINGS, "masking": masking})  # type: ignore[arg-type]
    assert found["random_text"].shape == (1, 96) and found["text_spans"].shape == (8, 15)
    bare = record(web_text=False)
    with pytest.raises(InputError, match=r"train00000_000 has no web text.*web_masks"):
        make_example(bare, record_draws(0, 0, bare.key), tokenizer=default_tokenizer(), **{**SETTINGS, "masking": masking})  # type: ignore[arg-type]


def test_pictures_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match="zoom"):
        Pictures(zoom=(1.1, 1.05))
    with pytest.raises(ConfigError, match="kernels"):
        Pictures(kernels=("sharp",))
    assert Pictures.of_adaptation((24, 24)).zoom == pytest.approx((1.0, 1.8777777))


def test_tall_frames_are_turned_in_pretraining_and_not_in_adaptation() -> None:
    tall = np.zeros((60, 20, 3), np.uint8)
    tall[:20] = 255
    draws = record_draws(0, 0, "tall")
    turned, upright = (pictures.draw(tall, (4, 4), draws) for pictures in (Pictures(), Pictures.of_adaptation((4, 4))))
    assert upright[:, :16].max() > 0.9 and upright[-1].max() < 0.1  # white at the top
    assert turned[:, 0].max() > 0.4  # white or the grey columns at the left


@pytest.mark.parametrize(("size", "expected"), [("base", (353, 129, 374, 22)), ("large", (1223, 230, 1284, 39))])
def test_the_cost_of_a_record_is_the_specifications(size: str, expected: tuple[int, ...]) -> None:
    cost = count_pretraining(ReserveConfig.named(size))
    assert tuple(round(part) for part in (cost.vision, cost.audio, cost.joint, cost.span)) == expected
    assert round(cost.total) == {"base": 878, "large": 2776}[size]
