"""The paper's ablations of pretraining: what each masks, compares and learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import default_collate

from record_fixtures import record
from tiny_reserve import tiny_reserve
from watchword.datasets.records import RecordExamples
from watchword.errors import InputError
from watchword.layers.contrast import candidate_loss
from watchword.reserve import Reserve
from watchword.reserve.ablations import Objective, SpanDecoder, TokenProgram
from watchword.reserve.examples import Pictures
from watchword.reserve.joint import AUDIOSPAN, MASK, MASKAUDIO, PAD
from watchword.reserve.masking import Masking
from watchword.reserve.pretraining import PretrainingConfig, PretrainingDraws, encode_batch, pretraining_pairs
from watchword.reserve.recipe import PretrainingProgram
from watchword.training import OptimizerSettings
from watchword.training.optimizers import Optimizers

MASKING = Masking(group_segments=2, length=80, joint_length=96, text_length=96, web_masks=0)
CONFIG = PretrainingConfig(spans_per_example=6)
WITHOUT_SOUND = replace(MASKING, sound_targets=False, sound_inputs=False)


def examples(masking: Masking = MASKING) -> RecordExamples:
    records = [record(f"r{number}", seed=10 * number, web_text=False) for number in range(3)]
    return RecordExamples(records, grid=(2, 4), masking=masking, pretraining=CONFIG, pictures=Pictures.unchanged(), seed=0)


def batch_of(data: RecordExamples, epoch: int = 0) -> dict[str, Tensor]:
    batch = default_collate([data[epoch, number] for number in range(len(data))])
    return {name: values if values.is_floating_point() else values.long() for name, values in batch.items()}


def test_without_sound_there_is_none_to_read_or_to_find() -> None:
    batch = batch_of(examples(WITHOUT_SOUND))
    for name in ("text2audio", "audio2text", "audio_text_matching"):
        assert not torch.isin(batch[name], torch.tensor([AUDIOSPAN, MASKAUDIO])).any(), name
    only_targets = batch_of(examples(replace(MASKING, sound_inputs=False)))
    assert (only_targets["text2audio"] == MASKAUDIO).any() and not (only_targets["audio2text"] == AUDIOSPAN).any()
    config = replace(CONFIG, sounds_found=False)
    model = tiny_reserve(parts=("span_encoder", "head"))
    assert pretraining_pairs(model, batch, config, PretrainingDraws.of(batch)).sounds is None
    program = PretrainingProgram(model, examples(WITHOUT_SOUND), config=config, held_out=examples(WITHOUT_SOUND))
    with torch.no_grad():
        found = program.evaluate()
    assert {name for name in found if name.endswith("top1")} <= set(program.metrics) and "held_out_sound_top1" not in found


@pytest.mark.parametrize("epoch", range(5))
def test_a_mask_for_each_token_has_that_token_as_its_label(epoch: int) -> None:
    data = examples(replace(WITHOUT_SOUND, mask_tokens=True))
    model = tiny_reserve(parts=("head",))
    program = TokenProgram(model, data, config=replace(CONFIG, sounds_found=False), objective="masked_tokens")
    batch = batch_of(data, epoch)
    with torch.no_grad():
        read = encode_batch(model, batch, program.config, PretrainingDraws.of(batch)).read
        logits, labels = program._told(batch, read)
    assert logits.shape == (len(labels), model.config.vocab_size)
    wanted = sorted(batch["text_spans"][batch["text_spans"] != PAD].tolist())
    assert sorted(labels[labels != PAD].tolist()) == wanted
    for view in ("text2audio", "audio2text"):  # a span without words has one blank all the same
        for example, spans in enumerate(batch["text_spans"]):
            pointers = batch[f"{view}/text_ptr"][example][batch[view][example] == MASK]
            counts = torch.bincount(pointers, minlength=len(spans))
            own = counts > 0
            assert torch.equal(counts[own], (spans != PAD).sum(dim=1).clamp(min=1)[own])


def test_the_decoder_knows_only_the_tokens_before() -> None:
    torch.manual_seed(0)
    decoder = SpanDecoder(64, 2, 15)
    blanks, embedded = torch.randn(3, 64), torch.randn(3, 15, 64)
    changed = embedded.clone()
    changed[:, 6] += 1
    one, other = decoder(blanks, embedded), decoder(blanks, changed)
    assert torch.equal(one[:, :7], other[:, :7]) and not torch.allclose(one[:, 7], other[:, 7])
    assert not torch.allclose(one[:, 0], decoder(blanks + 1, embedded)[:, 0])


@pytest.mark.parametrize("objective", ["masked_tokens", "decoder"])
def test_words_are_learned_token_by_token(objective: Objective, tmp_path: Any) -> None:
    data = examples(replace(WITHOUT_SOUND, mask_tokens=objective == "masked_tokens"))
    model = tiny_reserve(parts=("head",))
    program = TokenProgram(model, data, config=replace(CONFIG, sounds_found=False), objective=objective, held_out=data)
    settings = OptimizerSettings(learning_rate=3e-3)
    optimizer, batch, losses = Optimizers(program.parameter_groups(settings), settings), batch_of(data), []
    for _ in range(25):
        loss, numbers = program.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(numbers["token_loss"]))
    assert losses[-1] < 0.7 * losses[0]
    with torch.no_grad():
        assert program.evaluate()["held_out_token_top1"] > 10
    program.save(tmp_path, model.state_dict())
    assert Reserve.from_pretrained(tmp_path).config.parts == ("head",)


def test_several_right_answers_share_their_probability() -> None:
    torch.manual_seed(0)
    x, y, extra = torch.randn(5, 8), torch.randn(5, 8), torch.randn(3, 8)
    also = torch.zeros(5, 5, dtype=torch.bool)
    alone, _ = candidate_loss(x, y, extra)
    assert float(candidate_loss(x, y, extra, also=also)[0]) == pytest.approx(float(alone), abs=1e-6)
    also[0, 1] = also[1, 0] = True
    shares = (x @ torch.cat([y, extra]).T).softmax(dim=1)
    back = (y @ x.T).softmax(dim=1)
    right = also.float() + torch.eye(5)
    rows = -((shares[:, :5] * right).sum(dim=1).log() + (back * right).sum(dim=1).log()) / 2
    loss, found = candidate_loss(x, y, extra, also=also)
    assert torch.allclose(found, rows, atol=1e-6) and float(loss) == pytest.approx(float(rows.mean()), abs=1e-6)


def test_adjacent_masked_words_are_right_for_one_another() -> None:
    model, config = tiny_reserve(), replace(CONFIG, adjacent_correct=True)
    seen = 0
    for epoch in range(6):
        batch = batch_of(examples(), epoch)
        pairs = pretraining_pairs(model, batch, config, PretrainingDraws.of(batch))
        assert pairs.spans.also is not None
        clips = {}
        for view in ("text2audio", "audio2text"):
            for example in range(3):
                for group in range(2):
                    masked = batch[view][example, group] == MASK
                    spans = batch[f"{view}/text_ptr"][example, group][masked].tolist()
                    clips |= {
                        (example, s): c for s, c in zip(spans, batch[f"{view}/audio_ptr"][example, group][masked].tolist(), strict=True)
                    }
        places = [(int(place) // 6, clips[int(place) // 6, int(place) % 6]) for place in pairs.chosen]
        expected = [[a[0] == b[0] and abs(a[1] - b[1]) == 1 for b in places] for a in places]
        assert pairs.spans.also.tolist() == expected
        seen += int(pairs.spans.also.sum())
    assert seen > 0


def test_a_model_without_sound_is_told_if_it_should_hear() -> None:
    with pytest.raises(InputError, match="span_encoder"):
        batch = batch_of(examples())
        pretraining_pairs(tiny_reserve(parts=("head",)), batch, CONFIG, PretrainingDraws.of(batch))
