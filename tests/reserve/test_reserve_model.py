"""What users of the model rely on beyond the authors' numbers: switches, separation, refusals, the beginning of training."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from torch import Tensor

from watchword.errors import ConfigError, InputError
from watchword.layers import Rotary, rotary_angles
from watchword.reserve import RESERVE_SIZES, Reserve, ReserveConfig
from watchword.reserve.joint import AUDIOSPAN, MASK

SMALL = ReserveConfig(
    width=64, head_size=32, vision_layers=2, audio_layers=1, span_layers=1, joint_layers=2, grid=(4, 6), vocab_size=100, audio_features=9
)
SEGMENTS = 2


def small_model(config: ReserveConfig = SMALL) -> Reserve:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Reserve(config).eval()
        for parameter in model.parameters():  # also the zeros and ones, so that nothing can be exchanged unnoticed
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def example(batch: int = 2, length: int = 24) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Frames, tokens, subsegments and sounds: segment 0 is heard (18 AUDIOSPAN), segment 1 is text, and two rows are padding."""
    generator = torch.Generator().manual_seed(1)
    frames = torch.rand(batch, SEGMENTS, SMALL.num_patches, SMALL.patch_features, generator=generator)
    sounds = torch.rand(batch, 3 * SEGMENTS, SMALL.audio_frames, SMALL.audio_features, generator=generator)
    tokens = torch.randint(10, 100, (batch, length), generator=generator)
    tokens[:, :18], tokens[:, 19], tokens[:, -2:] = AUDIOSPAN, MASK, 0
    subsegments = torch.tensor([*[0] * 6, *[1] * 6, *[2] * 6, *[3] * (length - 20), -1, -1]).expand(batch, -1)
    return frames, tokens, subsegments, sounds


@pytest.fixture(scope="module")
def model() -> Reserve:
    return small_model()


@pytest.mark.parametrize("changes", [{}, {"rotary": "standard"}, {"learned_positions": 60}])
def test_every_kind_of_positions_runs_and_learns(changes: dict[str, object]) -> None:
    model = small_model(dataclasses.replace(SMALL, **changes))  # type: ignore[arg-type]
    out = model(*example())
    assert out.vectors.shape == (2, 24, 64)
    assert torch.allclose(out.vectors.norm(dim=-1), torch.ones(2, 24), atol=1e-3)
    assert out.frames.cls.shape == (4, 64) and out.sounds.pooled.shape == (12, 6, 64)
    spans = model.embed_spans(torch.tensor([[11, 12, 0], [13, 0, 0]]))
    (out.vectors[:, 19] @ spans.T + out.frames.cls.sum() + out.sounds.cls.sum()).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == ["contrastive_scales"]


def test_the_rotary_schemes_differ_and_places_matter() -> None:
    outs = [small_model(dataclasses.replace(SMALL, rotary=rotary))(*example()).vectors for rotary in ("released", "standard")]  # type: ignore[arg-type]
    assert not torch.allclose(outs[0], outs[1], atol=1e-3)
    frames, tokens, subsegments, sounds = example()
    model = small_model(dataclasses.replace(SMALL, rotary="standard"))
    moved = model(frames.flip(1), tokens, subsegments, sounds).vectors
    assert not torch.allclose(moved, outs[1], atol=1e-4)


def test_a_standard_rotation_keeps_lengths_and_tells_only_distances() -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 64)

    def score(at: float, other: float) -> Tensor:
        first, second = (Rotary.rotation(rotary_angles(torch.tensor([[place]]), 32), 64) for place in (at, other))
        assert torch.allclose(first(query).norm(), query.norm(), atol=1e-5)
        return (first(query) * second(key)).sum()

    assert torch.allclose(score(0.1, 0.3), score(0.5, 0.7), atol=1e-4)
    assert not torch.allclose(score(0.1, 0.3), score(0.1, 0.4), atol=1e-2)
    assert torch.equal(Rotary.rotation(rotary_angles(torch.zeros(1, 1), 32), 64)(query), query)


def test_packed_videos_do_not_see_one_another(model: Reserve) -> None:
    torch.manual_seed(0)
    frames = torch.randn(1, SEGMENTS, 6, 64)
    tokens, segments = torch.randint(10, 100, (1, 12)), torch.tensor([[0] * 6 + [1] * 6])

    def first_half(frames: Tensor, tokens: Tensor, sources: Tensor | None) -> Tensor:
        return model.join(model.joint_input(tokens, segments=segments, frames=frames, sources=sources)).sequence[:, :6]

    other_frames, other_tokens = frames.clone(), tokens.clone()
    other_frames[:, 1], other_tokens[:, 6:] = 0, 99
    apart, together = torch.tensor([[7, 8]]), torch.tensor([[7, 7]])
    assert torch.equal(first_half(frames, tokens, apart), first_half(other_frames, other_tokens, apart))
    for sources in (together, None):
        assert not torch.allclose(first_half(frames, tokens, sources), first_half(other_frames, other_tokens, sources), atol=1e-3)


def test_padding_changes_nothing(model: Reserve) -> None:
    frames, tokens, subsegments, sounds = example()
    whole = model(frames, tokens, subsegments, sounds).vectors[:, :22]
    cut = model(frames, tokens[:, :22], subsegments[:, :22], sounds).vectors
    assert torch.allclose(whole, cut, atol=1e-6)
    spans = torch.tensor([[11, 12, 0, 0, 0], [13, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    assert torch.allclose(model.embed_spans(spans), model.embed_spans(spans[:, :2]), atol=1e-6)
    assert torch.isfinite(model.embed_spans(torch.zeros(1, 3, dtype=torch.int64))).all()


def test_sound_is_heard_where_its_pointer_says(model: Reserve) -> None:
    frames, tokens, subsegments, sounds = example(batch=1)
    heard = model(frames, tokens, subsegments, sounds).vectors
    silent_elsewhere = sounds.clone()
    silent_elsewhere[:, 3:] = 0
    assert torch.equal(model(frames, tokens, subsegments, silent_elsewhere).vectors, heard)
    silent_here = sounds.clone()
    silent_here[:, 1] = 0
    assert not torch.allclose(model(frames, tokens, subsegments, silent_here).vectors, heard, atol=1e-4)
    without = model(frames, tokens, subsegments)
    assert without.sounds is None and not torch.allclose(without.vectors, heard, atol=1e-4)


def test_choices_are_scored_at_their_first_mask() -> None:
    model = small_model(dataclasses.replace(SMALL, parts=("proj",)))
    tokens = torch.tensor([[11, MASK, 12, MASK, 0], [11, 12, 13, MASK, MASK]])
    inputs = model.joint_input(tokens, segments=torch.zeros_like(tokens))
    scores = model.score_choices(inputs, tokens)
    rows = model.join(inputs).sequence[[0, 1], [1, 3]]
    assert model.proj is not None and torch.allclose(scores, model.proj(rows)[:, 0], atol=1e-6)
    assert not torch.allclose(scores[1:], model.proj(rows[:1])[:, 0], atol=1e-3)


def test_videos_of_a_batch_do_not_influence_one_another(model: Reserve) -> None:
    frames, tokens, subsegments, sounds = example()
    both = model(frames, tokens, subsegments, sounds).vectors
    alone = model(frames[1:], tokens[1:], subsegments[1:], sounds[1:]).vectors
    assert torch.allclose(both[1:], alone, atol=1e-6)


def test_bfloat16_and_autocast_stay_near_float32(model: Reserve) -> None:
    inputs = example()
    with torch.no_grad():
        exact = model(*inputs).vectors
        half = small_model().bfloat16()(*inputs).vectors
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = model(*inputs).vectors
    assert half.dtype == torch.bfloat16
    for near in (half, cast):
        assert torch.cosine_similarity(near.float(), exact, dim=-1).min() > 0.999


def test_what_does_not_fit_is_refused(model: Reserve) -> None:
    frames, tokens, subsegments, sounds = example()
    with pytest.raises(InputError, match="4 x 6 patches"):
        model(frames[:, :, :-1], tokens, subsegments, sounds)
    with pytest.raises(InputError, match="6 clips of sound"):
        model(frames, tokens, subsegments, sounds[:, :5])
    with pytest.raises(InputError, match="uint8"):
        model.encode_frames((frames[0] * 255).to(torch.uint8))
    with pytest.raises(InputError, match="one of 6 clips"):
        model(frames, tokens, subsegments.clamp(min=7), sounds)
    with pytest.raises(InputError, match=r"1\.\.15"):
        model.embed_spans(torch.ones(1, 16, dtype=torch.int64))
    with pytest.raises(InputError, match="learned positions for 20"):
        small_model(dataclasses.replace(SMALL, learned_positions=20))(frames, tokens, subsegments)
    with pytest.raises(InputError, match="no proj"):
        model.score_choices(model.joint_input(tokens), tokens)
    finetuned = small_model(dataclasses.replace(SMALL, parts=("proj",)))
    with pytest.raises(InputError, match="no span_encoder"):
        finetuned.embed_spans(tokens[:, :3])
    with pytest.raises(InputError, match="no audio_encoder"):
        finetuned.encode_sounds(sounds[0])
    with pytest.raises(InputError, match="no head"):
        finetuned(frames, tokens, subsegments)
    with pytest.raises(InputError, match="MASK"):
        finetuned.score_choices(finetuned.joint_input(tokens[:, 20:]), tokens[:, 20:])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"width": 100}, "width"),
        ({"grid": (3, 6)}, "grid"),
        ({"grid": (12, 20, 2)}, "grid"),
        ({"grid": (12, 20.0)}, "grid"),
        ({"vision_layers": 0}, "vision_layers"),
        ({"audio_tokens": 7}, "audio_tokens"),
        ({"rotary": "fast"}, "rotary"),
        ({"parts": ("heads",)}, "parts"),
        ({"head_size": 4}, "head_size"),
        ({"learned_positions": -1}, "learned_positions"),
        ({"width": "wide"}, "width"),
        ({"colour": 1}, "colour"),
    ],
)
def test_configurations_that_cannot_be_are_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ReserveConfig.from_dict({**ReserveConfig().as_dict(), **changes})


def test_configurations_survive_json() -> None:
    for config in (*RESERVE_SIZES.values(), SMALL):
        assert ReserveConfig.from_dict(json.loads(json.dumps(config.as_dict()))) == config
    with pytest.raises(ConfigError, match="base, large"):
        ReserveConfig.named("huge")
    assert ReserveConfig.named("large", grid=(24, 24)).num_heads == 16


@pytest.mark.parametrize(("name", "count"), [("base", 316_412_163), ("large", 853_117_955)])
def test_the_papers_sizes_have_the_papers_numbers_of_parameters(name: str, count: int) -> None:
    with torch.device("meta"):
        model = Reserve(ReserveConfig.named(name))
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_a_new_model_begins_as_the_released_training_did() -> None:
    torch.manual_seed(0)
    model = Reserve(dataclasses.replace(SMALL, width=128, vocab_size=3000))
    block = model.joint_transformer.layers[0]
    std = 0.02 / math.sqrt(2)
    for weight in (block.attn.in_proj_weight, block.mlp.c_proj.weight, model.head.weight):  # type: ignore[union-attr]
        assert weight.std().item() == pytest.approx(0.8796 * std, rel=0.05)
        assert weight.abs().max().item() <= 2 * std * 1.0001
    assert model.vision_encoder.seq_attnpool.query.weight.std().item() == pytest.approx(128**-0.5, rel=0.05)
    assert model.token_encoder.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.vision_encoder.transformer.cls.std().item() == pytest.approx(0.02, rel=0.3)
    assert model.contrastive_scales.tolist() == [1, 1, 1]
    assert not any(parameter.any() for name, parameter in model.named_parameters() if name.endswith("bias"))
