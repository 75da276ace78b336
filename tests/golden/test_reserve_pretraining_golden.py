"""Pretraining of MERLOT Reserve against numbers of the authors' code: every fixture of its kind. Tolerances are the README's."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from reserve_fixtures import arrays, config_of, difference, entries, index, read, seeded_input, seeded_model, seeded_state
from watchword.reserve import Reserve
from watchword.reserve.joint import MASK
from watchword.reserve.names import released_name, to_released
from watchword.reserve.pretraining import (
    SOURCES,
    Pairs,
    PretrainingConfig,
    PretrainingDraws,
    PretrainingPairs,
    joint_inputs,
    masked_token_loss,
    pretraining_loss,
    pretraining_pairs,
    span_scores,
)
from watchword.reserve.vectors import sum_by_pointer
from watchword.weights.states import fill

VECTORS, LOSSES, GRADIENTS, ASSEMBLED, ROUNDED = 5e-6, 2e-5, 1e-4, 1e-5, 0.0625
NEVER = 1e-8  # what is zero in exact arithmetic
NAMES = {"imgs_to_audio": "frame_loss", "text_to_audio": "sound_loss", "stuff_to_span": "span_loss"}
NAMES |= {f"_stuff_to_span_from_{source}": f"span_loss_{source}" for source in SOURCES}


def config_for(entry: dict[str, Any], **changes: Any) -> PretrainingConfig:
    data = entry["data"]
    return PretrainingConfig.released(mask_rate=data["mask_rate"], spans_per_example=data["num_text_spans_to_include"], **changes)


def batch_of(entry: dict[str, Any], shard: int, seeded_weights: ModuleType) -> tuple[dict[str, Tensor], PretrainingDraws]:
    """A shard's batch and its draws, in which no group is split."""
    prefix = f"dev{shard}/batch/"
    batch = {key.removeprefix(prefix): value for key, value in arrays(entry["arrays"]).items() if key.startswith(prefix)}
    batch |= {key: seeded_input(f"{entry['inputs_prefix']}/dev{shard}/{key}", seeded_weights) for key in ("images", "audio_clips")}
    per_group = entry["data"]["num_segments"] // entry["data"]["num_segment_groups"]
    whole = torch.full((batch["text2audio"].shape[:2].numel(),), per_group)
    return batch, PretrainingDraws(batch.pop("span_uniform"), {"audio2text": whole, "text2audio": whole})


def shards_of(entry: dict[str, Any]) -> int:
    return len({match[1] for key in arrays(entry["arrays"]) if (match := re.match(r"dev(\d+)/", key))})


def differences(pairs: PretrainingPairs, expected: dict[str, Tensor], prefix: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, own in (("imgs_to_audio", pairs.frames), ("text_to_audio", pairs.sounds), ("stuff_to_span", pairs.spans)):
        vectors = {"x": own.x, "y": own.y, **({"y_extra": own.extra} if own.extra is not None else {})}
        for key, tensor in vectors.items():
            found[f"{name}/{key}"] = difference(tensor, expected[f"{prefix}out/{name}/{key}"])
    assert len(found) == len([key for key in expected if key.startswith(f"{prefix}out/") and "sources" not in key])
    assert pairs.spans.sources is not None
    assert torch.equal(pairs.spans.sources, expected[f"{prefix}out/stuff_to_span/sources"])
    if f"{prefix}best_idxs" in expected:
        assert torch.equal(pairs.chosen, expected[f"{prefix}best_idxs"])
    return found


def worst(found: dict[str, float]) -> float:
    print(max(found.items(), key=lambda item: item[1]))
    return max(found.values())


def off_from(loss: Tensor, numbers: dict[str, Tensor], loss_then: float, then: dict[str, float]) -> float:
    """The largest difference of any loss from what was recorded."""
    assert {NAMES[name] for name in then} == set(numbers)
    return worst({"loss": abs(float(loss.detach()) - loss_then), **{name: abs(float(numbers[NAMES[name]]) - then[name]) for name in then}})


def gradient_of(model: Reserve, name: str, parameter: Tensor) -> Tensor:
    """In the released layout; ``name`` is the released one."""
    held = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
    return to_released(name, held, model.config.head_size, model.config.audio_patch)


@pytest.mark.parametrize("chunk_rows", [0, 5])
@pytest.mark.parametrize("entry", entries("pretrain"))
def test_one_process(entry: dict[str, Any], chunk_rows: int, seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    batch, draws = batch_of(entry, 0, seeded_weights)
    config = config_for(entry, chunk_rows=chunk_rows)
    pairs = pretraining_pairs(model, batch, config, draws)
    assert worst(differences(pairs, expected, "single/")) <= VECTORS
    loss, numbers = pretraining_loss(pairs, config)
    then = read(entry["losses"])["single"]
    assert off_from(loss, numbers, then["loss"], then["loss_info"]) <= LOSSES
    loss.backward()
    assert_statistics(model, read(entry["grad_stats"])["single_device"])


def assert_statistics(model: Reserve, expected: dict[str, Any]) -> None:
    """That every parameter's gradient has the recorded norm and first numbers."""
    seen = set()
    for ours, parameter in model.named_parameters():
        name = released_name(ours)
        seen.add(name)
        found, then = gradient_of(model, name, parameter), expected[name]
        if then["absmax"] < NEVER:
            assert float(found.abs().max()) < NEVER, name
            continue
        assert abs(float(found.norm()) - then["norm"]) <= GRADIENTS * then["norm"], name
        assert difference(found.flatten()[: len(then["first"])], torch.tensor(then["first"])) <= GRADIENTS * then["absmax"], name
    assert seen == set(expected)


@pytest.mark.parametrize("entry", entries("pretrain"))
def test_split_groups(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    batch, draws = batch_of(entry, 0, seeded_weights)
    draws = PretrainingDraws(draws.spans, {view: expected[f"split/{view}_split_from"] for view in draws.splits})
    config = config_for(entry)
    with torch.no_grad():
        pairs = pretraining_pairs(model, batch, config, draws)
        assert worst(differences(pairs, expected, "split/")) <= VECTORS
        then = read(entry["losses"])["split"]
        assert off_from(*pretraining_loss(pairs, config), then["loss"], then["loss_info"]) <= LOSSES


@pytest.mark.parametrize("variant", ["no_vision", "scales_clipped", "do_rotary_false"])
@pytest.mark.parametrize("entry", entries("pretrain"))
def test_variants(entry: dict[str, Any], variant: str, seeded_weights: ModuleType) -> None:
    then = read(entry["losses"])[variant]
    config = config_for(entry, frames_seen=variant != "no_vision")
    if variant == "do_rotary_false":
        manifest, extra = read(index()["models"][entry["model"]]["manifest"]), then["extra_param"]
        model = Reserve(config_of(entry["model"], learned_positions=extra["shape"][0]))
        fill(model, seeded_state({"params": [*manifest["params"], extra]}, seeded_weights), variant)
    else:
        model = seeded_model(entry["model"], seeded_weights)
    if variant == "scales_clipped":
        model.contrastive_scales.data = torch.tensor([5.0, 4.0, -0.5])
    batch, draws = batch_of(entry, 0, seeded_weights)
    loss, numbers = pretraining_loss(pretraining_pairs(model, batch, config, draws), config)
    assert off_from(loss, numbers, then["loss"], then["loss_info"]) <= LOSSES
    if "grad_contrastive_scales" in then:
        loss.backward()
        scales = torch.tensor(then["grad_contrastive_scales"])
        assert difference(gradient_of(model, "contrastive_scales", model.contrastive_scales), scales) <= GRADIENTS * float(
            scales.abs().max()
        )
        norm = float(gradient_of(model, "vision_encoder/embedding/kernel", model.vision_encoder.embedding.weight).norm())
        assert norm == pytest.approx(then["grad_norm_vision_embedding_kernel"], rel=GRADIENTS)


@pytest.mark.parametrize("entry", entries("pretrain"))
def test_sequences_and_span_scores(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["debug"]), seeded_model(entry["model"], seeded_weights)
    batch, draws = batch_of(entry, 0, seeded_weights)
    with torch.no_grad():
        frames = model.encode_frames(batch["images"].reshape(-1, model.config.num_patches, model.config.patch_features))
        sounds = model.encode_sounds(batch["audio_clips"].reshape(-1, model.config.audio_frames, model.config.audio_features))
        inputs = joint_inputs(model, batch, config_for(entry), draws, frames, sounds)
    found: dict[str, float] = {}
    for name, own in inputs.items():
        assert torch.equal((own.mask[:, 0] == 0).long(), expected[f"{name}/attention_mask"])
        found[f"{name}/x"] = difference(own.x, expected[f"{name}/x"])
        found[f"{name}/rotary_coords"] = difference(own.coordinates, expected[f"{name}/rotary_coords"])
    assert worst(found) <= ASSEMBLED
    slots = batch["text_spans"].shape[:2]
    blanks = [sum_by_pointer(batch[name][..., None].float(), batch[name] == MASK, batch[f"{name}/text_ptr"], *slots) for name in SOURCES]
    counts = torch.stack([count for _, count in blanks], dim=-1)
    scores = span_scores(batch["text_spans"], counts, draws.spans, rounded=True)
    assert difference(scores.flatten(), expected["span_scores"]) <= ROUNDED


@pytest.mark.parametrize("entry", entries("pretrain"))
def test_mask_language_model(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    then = read(entry["losses"])["mask_lm"]
    match = re.fullmatch(r"seeded tensor (\S+) shape \((\d+),(\d+)\) mean (\S+) std (\S+)", then["logits"])
    assert match is not None
    logits = seeded_weights.tensor(match[1], (int(match[2]), int(match[3])), float(match[4]), float(match[5]))
    assert float(masked_token_loss(torch.from_numpy(logits), torch.tensor(then["labels"]))) == pytest.approx(then["loss"], abs=LOSSES)


@pytest.mark.parametrize("entry", entries("pretrain"))
def test_two_processes(entry: dict[str, Any], seeded_weights: ModuleType, tmp_path: Path) -> None:
    """Each computes a shard, against the candidates of both, and gradients are averaged, as in a training; whole or in chunks."""
    expected, then = arrays(entry["arrays"]), read(entry["losses"])["two_way"]
    statistics, num_shards = read(entry["grad_stats"]), shards_of(entry)
    model = seeded_model(entry["model"], seeded_weights)
    shards = [batch_of(entry, shard, seeded_weights) for shard in range(num_shards)]
    configs = [config_for(entry, chunk_rows=chunk_rows) for chunk_rows in (0, 5)]
    torch.multiprocessing.spawn(_shard_of_a_group, (model, shards, configs, tmp_path), nprocs=num_shards)
    by_shard = [torch.load(tmp_path / f"{shard}.pt", weights_only=False) for shard in range(num_shards)]
    for found in zip(*by_shard, strict=True):
        for shard, results in enumerate(found):
            assert worst(differences(results["pairs"], expected, f"two_way/dev{shard}/")) <= VECTORS
            info = {name: values[shard] for name, values in then["loss_info_per_device"].items()}
            assert off_from(results["loss"], results["numbers"], then["loss_per_device"][shard], info) <= LOSSES
        for name, parameter in model.named_parameters():
            parameter.grad = found[0]["gradients"][name]
        assert_statistics(model, statistics["two_way_local_device0_before_averaging"])
        for name, parameter in model.named_parameters():
            parameter.grad = torch.stack([results["gradients"][name] for results in found]).mean(dim=0)
        assert_statistics(model, statistics["two_way_mean"])
        assert_gradients(model, arrays(entry["grads"]))


def _shard_of_a_group(rank: int, model: Reserve, shards: list[Any], configs: list[PretrainingConfig], folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=len(shards))
    found = []
    for config in configs:
        pairs = pretraining_pairs(model, shards[rank][0], config, shards[rank][1])
        loss, numbers = pretraining_loss(pairs, config)
        names, parameters = zip(*model.named_parameters(), strict=True)
        gradients = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
        detached = PretrainingPairs(*(_detached(own) for own in (pairs.frames, pairs.sounds, pairs.spans)), chosen=pairs.chosen)
        found.append({"pairs": detached, "loss": loss.detach(), "numbers": numbers, "gradients": gradients})
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def _detached(pairs: Pairs) -> Pairs:
    return Pairs(pairs.x.detach(), pairs.y.detach(), pairs.extra.detach() if pairs.extra is not None else None, pairs.sources)


def assert_gradients(model: Reserve, expected: dict[str, Tensor]) -> None:
    """That every number of every gradient is the recorded one; of a table, rows that are not recorded are zero."""
    seen = set()
    for ours, parameter in model.named_parameters():
        name = released_name(ours)
        found = gradient_of(model, name, parameter)
        if name in expected:
            then = expected[name]
            seen.add(name)
        else:
            then = torch.zeros_like(found)
            then[expected[f"{name}#rows"]] = expected[f"{name}#values"]
            seen |= {f"{name}#rows", f"{name}#values"}
        assert difference(found, then) <= max(GRADIENTS * float(then.abs().max()), NEVER), name
    assert seen == set(expected)
