"""MERLOT Reserve against numbers of the authors' code: every forward fixture, whatever its size. Tolerances are the README's."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from reserve_fixtures import arrays, config_of, difference, entries, index, read, seeded_input, seeded_model
from watchword.layers import Rotary, activation_function, rotary_angles
from watchword.reserve import Reserve, ReserveOutput, unit_normalize
from watchword.reserve.names import released_name, released_shape
from watchword.reserve.positions import ROTARY_FEATURES, centred, grid_coordinates
from watchword.reserve.vectors import sum_by_pointer

ACTIVATIONS, UNIT, ELEMENTARY = 1e-5, 2e-6, 1e-6
# In bfloat16, against float32 numbers of the authors' code: cosines and the largest error of one number of a unit vector.
BFLOAT16_COSINE, BFLOAT16_NUMBER = 0.999, 0.03


def outside(found: dict[str, float], tolerance: float) -> dict[str, float]:
    """What differs by more; the worst is printed."""
    print(max(found.items(), key=lambda item: item[1]))
    return {key: value for key, value in found.items() if not value <= tolerance}


@pytest.mark.parametrize("entry", entries("forward"))
def test_positions(entry: dict[str, Any]) -> None:
    expected = arrays(entry["arrays"])
    found: dict[str, float] = {}
    for key in [key for key in expected if key.startswith("rotary/") and key.endswith("/coords")]:
        name, coordinates = key.split("/")[1], expected[key]
        if match := re.fullmatch(r"1d_center_(\d+)", name):
            count = int(match[1])
            found[key] = difference(centred(count)[:, None] / count, coordinates)
        elif match := re.fullmatch(r"1d_from1_(\d+)_over(\d+)", name):
            found[key] = difference(torch.arange(1, int(match[1]) + 1)[:, None] / int(match[2]), coordinates)
        elif match := re.fullmatch(r"2d_(\d+)x(\d+)", name):
            found[key] = difference(grid_coordinates((int(match[1]), int(match[2]))), coordinates)
        table = expected.get(f"rotary/{name}/sinusoids")
        if table is not None:
            angles = rotary_angles(coordinates, table.shape[-1])
            found[f"rotary/{name}"] = difference(torch.stack([angles.cos(), angles.sin()], dim=-3), table)
    x = expected["rotary/apply/in"].transpose(1, 2)
    rotary = Rotary.released_scaling(rotary_angles(expected["rotary/multimodal/coords"], ROTARY_FEATURES)[:, None], x.shape[-1])
    found["rotary/apply"] = difference(rotary(x).transpose(1, 2), expected["rotary/apply/out"])
    assert outside(found, ACTIVATIONS) == {}


@pytest.mark.parametrize("entry", entries("forward"))
def test_activation_norm_and_reading_of_blanks(entry: dict[str, Any]) -> None:
    expected = arrays(entry["arrays"])
    slots = expected["pool/count"].shape
    summed, counts = sum_by_pointer(expected["pool/v"], expected["pool/do_pool"], expected["pool/idx"], *slots)
    found = {
        "gelu": difference(activation_function("quick_gelu")(expected["gelu/in"]), expected["gelu/out"]),
        "unit_normalize": difference(unit_normalize(expected["unit_normalize/in"]), expected["unit_normalize/out"]),
        "pool/x": difference(summed, expected["pool/x"]),
        "pool/count": difference(counts, expected["pool/count"]),
    }
    assert outside(found, ELEMENTARY) == {}


@pytest.mark.parametrize("name", list(index()["models"]))
def test_names_and_layouts_of_all_parameters(name: str) -> None:
    config = config_of(name)
    manifest = read(index()["models"][name]["manifest"])
    with torch.device("meta"):
        state = Reserve(config).state_dict()
    ours = {}
    for key, tensor in state.items():
        path = released_name(key)
        ours[path] = list(released_shape(path, tensor.shape, config.head_size, config.audio_patch))
    assert ours == {p["name"]: p["shape"] for p in manifest["params"]}
    if "num_parameters" in manifest:
        assert sum(tensor.numel() for tensor in state.values()) == manifest["num_parameters"]


@pytest.mark.parametrize("entry", entries("forward"))
def test_the_encoders(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    inside = keep_the_inside(model)
    found: dict[str, float] = {}
    with torch.no_grad():
        for part, encode in (("vision", model.encode_frames), ("audio", model.encode_sounds)):
            encoded = encode(expected[f"{part}/in"])
            for key, tensor in (("cls", encoded.cls), ("seq", encoded.sequence), ("seq_attnpool", encoded.pooled)):
                found[f"{part}/{key}"] = difference(tensor, expected[f"{part}/{key}"])
            if part == "vision":
                compared = {key for key in expected if re.match(r"vision/(after|layer)_", key)}
                assert compared <= set(inside), "an intermediate of the fixture is not compared"
                found |= {key: difference(inside[key], expected[key]) for key in compared}
        spans = expected["span/text_spans"]
        found["span/token_embs"] = difference(model.token_encoder(spans), expected["span/token_embs"])
        found["span/cls"] = difference(model.encode_spans(spans), expected["span/cls"])
        short = [key for key in expected if re.fullmatch(r"span/text_spans_len\d+", key)]
        for key in short:
            found[key] = difference(model.encode_spans(expected[key]), expected[key.replace("text_spans", "cls")])
        assert outside(found, ACTIVATIONS) == {}
        units = {
            "spans": difference(model.embed_spans(spans), expected["embed_text_spans_only/out"]),
            "sounds": difference(model.embed_sounds(expected["audio/in"]), expected["embed_audio_only/out"]),
        }
    assert outside(units, UNIT) == {}


def keep_the_inside(model: Reserve) -> dict[str, Tensor]:
    """What parts of the vision encoder give, by the fixtures' names, once it runs."""
    kept: dict[str, Tensor] = {}

    def keep(module: torch.nn.Module, key: str) -> None:
        module.register_forward_hook(lambda _, __, out: kept.update({key: out}))

    vision = model.vision_encoder
    keep(vision.embedding, "vision/after_embedding")
    keep(vision.transformer.pre_ln, "vision/after_pre_ln")
    for number, layer in enumerate(vision.transformer.layers):
        assert isinstance(layer, torch.nn.Module)
        keep(layer, f"vision/after_layer_{number:02d}")
        keep(layer.attn, f"vision/layer_{number:02d}_attention_out")
        keep(layer.mlp, f"vision/layer_{number:02d}_mlp_out")
    return kept


@pytest.mark.parametrize("entry", entries("forward"))
def test_a_video_whole_or_encoded_before(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    images, clips = expected["embed_video/images"], expected["embed_video/audio_clips"]
    tokens, subsegments = expected["embed_video/tokens"], expected["embed_video/subseg_idxs"]
    plain = {key: expected[f"embed_preencoded_noaudio/{key}"][None] for key in ("tokens", "subseg_idxs")}
    first = entry["prompt_frames"]
    with torch.no_grad():
        frames = model.encode_frames(images[0]).pooled
        sounds = model.encode_sounds(clips[0]).pooled
        heard = model.encode_sounds(expected["audio/in"]).pooled
        single = model.encode_frames(images[0, first : first + entry["single_frames"]]).pooled
        prompted = torch.cat([frames[:first], single])[None]
        segments = subsegments[:1] // 3
        one = [
            model(images[:1], tokens[:1], subsegments[:1], clips[:1]),
            model.embed_encoded(frames[None], plain["tokens"], plain["subseg_idxs"] // 3),
            model.embed_encoded(frames[None], tokens[:1], segments, sounds[None], expected["embed_preencoded_audio/audio_pointers"][None]),
            model.embed_encoded(frames[None], tokens[:1], segments, sounds[None], subsegments[:1]),
            model.embed_encoded(prompted, plain["tokens"], plain["subseg_idxs"] // 3),
        ]
        both = model(images, tokens, subsegments, clips)
    keys = ("embed_preencoded_noaudio", "embed_preencoded_audio", "embed_preencoded_audio/out_same_ptr", "embed_singleimg")
    found = {"embed_video": difference(both.vectors, expected["embed_video/out"])}
    found["embed_video, one"] = difference(one[0].vectors[0], expected["embed_video/out"][0])
    for key, out in zip(keys, one[1:], strict=True):
        found[key] = difference(out.vectors[0], expected[key if "/" in key else f"{key}/out"])
    assert outside(found, UNIT) == {}
    pooled = {
        "frames": difference(frames, expected["get_imgseq_only/out"]),
        "sounds": difference(heard, expected["get_audioseq_only/out"]),
    }
    assert outside(pooled, ACTIVATIONS) == {}


@pytest.mark.parametrize("entry", entries("forward"))
def test_the_joint_sequence(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    tokens, subsegments = expected["embed_video/tokens"], expected["embed_video/subseg_idxs"]
    with torch.no_grad():
        frames = model.encode_frames(expected["embed_video/images"][0]).pooled
        sounds = model.encode_sounds(expected["embed_video/audio_clips"][0]).pooled
        whole = model.joint_input(
            tokens,
            segments=expected["prepare/token_segment_idx"],
            frames=torch.stack([frames, frames.flip(0)]),
            sounds=torch.stack([sounds, sounds.flip(0)]),
            pointers=subsegments,
            sources=expected["prepare/video_src_idx"],
            length=entry["prepare_padding_len"],
        )
        text = model.joint_input(tokens, length=entry["prepare_textonly_padding_len"])
        found: dict[str, float] = {}
        for key, inputs in (("prepare", whole), ("prepare_textonly", text)):
            out = model.join(inputs)
            assert torch.equal((inputs.mask[:, 0] == 0).long(), expected[f"{key}/attention_mask"])
            found[f"{key}/x"] = difference(inputs.x, expected[f"{key}/x"])
            found[f"{key}/rotary_coords"] = difference(inputs.coordinates, expected[f"{key}/rotary_coords"])
            found[f"{key}/joint_seq"] = difference(out.sequence, expected[f"{key}/joint_seq"])
            if f"{key}/joint_seq_proj" in expected:
                assert out.projected is not None
                found[f"{key}/joint_seq_proj"] = difference(out.projected, expected[f"{key}/joint_seq_proj"])
        unmasked = model.joint_transformer(expected["joint_nomask/x"], expected["joint_nomask/coords"])
        found["joint_nomask"] = difference(unmasked, expected["joint_nomask/seq"])
    assert outside(found, ACTIVATIONS) == {}


@pytest.mark.parametrize("entry", entries("forward"))
def test_bfloat16_stays_near(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights).bfloat16()
    with torch.no_grad():
        out = run_video(model, expected)
    valid = expected["embed_video/tokens"] != 0
    ours, theirs = out.vectors[valid].float(), expected["embed_video/out"][valid]
    assert out.vectors.dtype == torch.bfloat16
    cosines, off = torch.cosine_similarity(ours, theirs, dim=-1), difference(ours, theirs)
    print("bfloat16: lowest cosine", float(cosines.min()), "largest difference", off)
    assert float(cosines.min()) >= BFLOAT16_COSINE
    assert off <= BFLOAT16_NUMBER


def run_video(model: Reserve, expected: dict[str, Tensor]) -> ReserveOutput:
    out: ReserveOutput = model(*(expected[f"embed_video/{key}"] for key in ("images", "tokens", "subseg_idxs", "audio_clips")))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries("full_size"))
def test_a_full_size_model(entry: dict[str, Any], seeded_weights: ModuleType) -> None:
    expected, model = arrays(entry["arrays"]), seeded_model(entry["model"], seeded_weights)
    images = seeded_input(f"{entry['inputs_prefix']}/images", seeded_weights)
    clips = seeded_input(f"{entry['inputs_prefix']}/audio_clips", seeded_weights)
    units: dict[str, float] = {}
    activations: dict[str, float] = {}
    logits: dict[str, float] = {}
    with torch.no_grad():
        frames = model.encode_frames(images)
        activations["vision/cls"] = difference(frames.cls[:, :64], expected["vision/cls_first64"])
        activations["vision/pooled"] = difference(frames.pooled[0, :, :64], expected["vision/seq_attnpool_first64_of_segment0"])
        labels = model.embed_spans(expected["options"])
        units["label_space"] = difference(labels, expected["label_space"])
        for case in entry["cases"]:
            tokens, subsegments = expected[f"{case}/tokens"][None], expected[f"{case}/subseg_idxs"][None]
            sounds = None
            if (tokens == 5).any():  # the three clips of a segment of text are silent, playback speed included
                zeroed = clips.unflatten(0, (-1, 3)).clone()
                spoken = set(range(len(images))) - set((subsegments[tokens == 5] // 3).tolist())
                zeroed[sorted(spoken)] = 0
                zeroed = zeroed.flatten(0, 1)
                sounds = model.encode_sounds(zeroed)
                activations[f"{case}/cls"] = difference(sounds.cls[:, :64], expected[f"{case}/cls_first64"])
                first_span = expected[f"{case}/seq_attnpool_first64_of_span0"]
                activations[f"{case}/pooled"] = difference(sounds.pooled[0, :, :64], first_span)
            pooled = sounds.pooled[None] if sounds is not None else None
            out = model.embed_encoded(frames.pooled[None], tokens, subsegments // 3, pooled, subsegments).vectors[0]
            blanks = out[tokens[0] == 3]
            units[f"{case}/out"] = difference(out[:, :64], expected[f"{case}/out_first64"])
            units[f"{case}/mask_rows"] = difference(blanks, expected[f"{case}/mask_rows"])
            logits[case] = difference(100 * blanks @ labels.T, expected[f"{case}/logits"])
    assert outside(activations, 2e-5) == {}
    assert outside(units, 5e-6) == {}
    assert outside(logits, 1e-3) == {}
