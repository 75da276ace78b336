from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tiny_reserve import tiny_reserve
from watchword.errors import ConfigError, InputError
from watchword.reserve import Reserve
from watchword.reserve.joint import AUDIOSPAN, LTOVPOOL, MASK, MASKAUDIO
from watchword.reserve.pretraining import (
    PretrainingConfig,
    PretrainingDraws,
    choose_spans,
    masked_token_loss,
    pretraining_loss,
    pretraining_pairs,
    span_scores,
)
from watchword.reserve.program import parameter_groups
from watchword.training.bfloat16_adam import Bfloat16Adam

SEGMENTS, GROUPS, CLIPS, SPANS, LENGTH = 4, 2, 12, 8, 24
CONFIG = PretrainingConfig(spans_per_example=4)
WHOLE = {view: torch.full((2 * GROUPS,), SEGMENTS // GROUPS) for view in ("audio2text", "text2audio")}


def a_batch(model: Reserve, seed: int = 0) -> dict[str, Tensor]:
    """Two examples of four segments. Of each group, the third clip of its second segment is masked, in the spans 2 (group) and, in the
    other view, 2 (group) + 1; four more spans are of web text."""
    generator = torch.Generator().manual_seed(seed)

    def words(*shape: int) -> Tensor:
        return torch.randint(100, 30000, shape, generator=generator)

    batch = {
        "images": torch.rand(2, SEGMENTS * model.config.num_patches, model.config.patch_features, generator=generator),
        "audio_clips": torch.randn(2, CLIPS * model.config.audio_frames, model.config.audio_features, generator=generator),
        "text_spans": torch.cat([words(2, SPANS, 3), torch.zeros(2, SPANS, 12, dtype=torch.long)], dim=-1),
        "video_src_index": torch.zeros(2, SEGMENTS, dtype=torch.long),
    }
    for name, rows, length in (
        ("text2audio", GROUPS, LENGTH),
        ("audio2text", GROUPS, LENGTH),
        ("audio_text_matching", 1, 40),
        ("random_text", 1, 40),
    ):
        batch[name] = words(2, rows, length)
        for kind in ("audio_ptr", "text_ptr"):
            batch[f"{name}/{kind}"] = torch.full((2, rows, length), -1)
    for group in range(GROUPS):
        first = 6 * group
        for view in ("text2audio", "audio2text"):
            batch[f"{view}/audio_ptr"][:, group] = torch.arange(LENGTH) // 4 + first
            batch[view][:, group, 20] = MASK
            batch[f"{view}/text_ptr"][:, group, 20] = 2 * group + (view == "audio2text")
        batch["text2audio"][:, group, 21] = MASKAUDIO
        batch["audio2text"][:, group, :6] = AUDIOSPAN
        batch["audio2text/audio_ptr"][:, group, :6] = first
    batch["audio_text_matching"][:, 0, ::10] = LTOVPOOL
    for number in range(4):
        batch["random_text"][:, 0, 9 * number] = MASK
        batch["random_text/text_ptr"][:, 0, 9 * number] = 4 + number
    return batch


def draws_of(seed: int = 0) -> PretrainingDraws:
    return PretrainingDraws(torch.rand(2, SPANS, generator=torch.Generator().manual_seed(seed)), WHOLE)


def test_a_few_steps_on_one_batch_learn_it_and_reach_every_parameter() -> None:
    model = tiny_reserve()
    batch, draws, config = a_batch(model), draws_of(), PretrainingConfig(spans_per_example=4, mask_rate=0.17)
    optimizer = Bfloat16Adam(parameter_groups(model, learning_rate=3e-3), lr=3e-3)
    losses = []
    for step in range(12):
        optimizer.zero_grad()
        loss, numbers = pretraining_loss(pretraining_pairs(model, batch, config, draws), config)
        loss.backward()
        if step == 0:
            unreached = [name for name, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())]
            assert unreached == []
        optimizer.step()
        losses.append(loss.item())
        assert loss.item() == pytest.approx(float(numbers["frame_loss"] + numbers["sound_loss"] + numbers["span_loss"]))
    assert losses[-1] < 0.7 * losses[0]
    assert optimizer.nan_gradients == optimizer.skipped_steps == 0


def test_videos_packed_into_one_example_do_not_see_each_other() -> None:
    """Nor do the parts of a group that is split. What of the frames is read elsewhere is the span loss's blanks of the same group."""
    model, config = tiny_reserve(), PretrainingConfig(spans_per_example=SPANS)
    batch = a_batch(model)
    other = {**batch, "images": batch["images"].clone()}
    other["images"][:, : model.config.num_patches] = 0.1  # the first segment's; the blanks are in the second one
    apart = {"video_src_index": torch.tensor([[5, 6, 6, 6]] * 2)}
    split = PretrainingDraws(draws_of().spans, {view: torch.ones(2 * GROUPS, dtype=torch.long) for view in WHOLE})

    def blanks(batch: dict[str, Tensor], draws: PretrainingDraws) -> Tensor:
        with torch.no_grad():
            return pretraining_pairs(model, batch, config, draws).spans.x

    assert not torch.allclose(blanks(batch, draws_of()), blanks(other, draws_of()), atol=1e-4)
    assert torch.allclose(blanks({**batch, **apart}, draws_of()), blanks({**other, **apart}, draws_of()), atol=1e-6)
    assert torch.allclose(blanks(batch, split), blanks(other, split), atol=1e-6)


def test_hidden_frames_change_no_blank_and_are_still_to_be_found() -> None:
    model, config = tiny_reserve(), PretrainingConfig(spans_per_example=SPANS, frames_seen=False)
    batch = a_batch(model)
    other = {**batch, "images": 1 - batch["images"]}
    with torch.no_grad():
        one, two = (pretraining_pairs(model, own, config, draws_of()) for own in (batch, other))
    assert torch.allclose(one.spans.x, two.spans.x, atol=1e-6)
    assert not torch.allclose(one.frames.y, two.frames.y, atol=1e-4)


def test_each_example_gives_as_many_spans_and_those_with_words_and_blanks_first() -> None:
    spans = torch.ones(3, SPANS, 15, dtype=torch.long)
    spans[0, :3] = 0
    counts = torch.zeros(3, SPANS, 3, dtype=torch.long)
    counts[..., 2] = 1
    counts[1, 5:, 2] = 0
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        uniform = torch.rand(3, SPANS, generator=generator)
        chosen = choose_spans(span_scores(spans, counts, uniform, rounded=False), PretrainingConfig(spans_per_example=5)).reshape(3, 5)
        assert torch.equal(chosen // SPANS, torch.arange(3)[:, None].expand(3, 5))
        assert sorted((chosen[0] % SPANS).tolist()) == [3, 4, 5, 6, 7]
        assert sorted((chosen[1] % SPANS).tolist()) == [0, 1, 2, 3, 4]
        released = PretrainingConfig.released(spans_per_example=4)
        of_all = choose_spans(span_scores(spans, counts, uniform, rounded=True), released)
        assert len(of_all) == 12
        assert not {0, 1, 2, 13, 14, 15} & set(of_all.tolist())


def test_spans_of_the_video_are_drawn_four_times_as_often() -> None:
    """Of one span of the video and four of web text, the first is drawn first half of the time."""
    num_draws = 4000
    counts = torch.zeros(num_draws, 5, 3, dtype=torch.long)
    counts[:, 0, 1] = 1
    counts[:, 1:, 2] = 1
    uniform = torch.rand(num_draws, 5, generator=torch.Generator().manual_seed(0))
    scores = span_scores(torch.ones(num_draws, 5, 15), counts, uniform, rounded=False)
    share = float((choose_spans(scores, PretrainingConfig(spans_per_example=1)) % 5 == 0).float().mean())
    assert share == pytest.approx(0.5, abs=0.03)


def test_draws_come_with_the_batch_and_are_missed_by_name() -> None:
    drawn = {
        "draws/spans": torch.rand(2, SPANS),
        "draws/audio2text": torch.tensor([[1, 2], [2, 2]]),
        "draws/text2audio": torch.full((2, 2), 2),
    }
    draws = PretrainingDraws.of(drawn)
    assert torch.equal(draws.spans, drawn["draws/spans"])
    assert draws.splits["audio2text"].tolist() == [1, 2, 2, 2] and draws.splits["text2audio"].tolist() == [2] * 4
    for name in drawn:
        with pytest.raises(InputError, match=f"needs {name}"):
            PretrainingDraws.of({key: value for key, value in drawn.items() if key != name})


def test_a_batch_that_does_not_fit_is_named() -> None:
    model = tiny_reserve()
    batch = a_batch(model)

    def run(config: PretrainingConfig = CONFIG, **changes: Tensor) -> None:
        pretraining_pairs(model, {**batch, **changes}, config, draws_of())

    with pytest.raises(InputError, match=r"needs audio2text/audio_ptr"):
        pretraining_pairs(model, {name: value for name, value in batch.items() if name != "audio2text/audio_ptr"}, CONFIG, draws_of())
    with pytest.raises(InputError, match="3 segments do not go into"):
        run(video_src_index=batch["video_src_index"][:, :3])
    with pytest.raises(InputError, match="text_spans is of 1 examples"):
        run(text_spans=batch["text_spans"][:1])
    with pytest.raises(InputError, match="random_text/text_ptr is"):
        run(**{"random_text/text_ptr": batch["random_text/text_ptr"][..., 1:]})
    with pytest.raises(InputError, match="do not have 22 clips"):
        run(audio_clips=batch["audio_clips"][:, 60:])
    with pytest.raises(InputError, match="9 spans_per_example cannot be drawn from the 8"):
        run(PretrainingConfig(spans_per_example=9))
    with pytest.raises(InputError, match="no span_encoder"):
        pretraining_pairs(tiny_reserve(parts=("audio_encoder", "head")), batch, CONFIG, draws_of())
    with pytest.raises(ConfigError, match="mask_rate is 2"):
        PretrainingConfig(mask_rate=2.0)


def test_without_labels_the_masked_token_loss_is_zero() -> None:
    assert masked_token_loss(torch.randn(3, 7), torch.zeros(3, dtype=torch.long)).item() == 0
