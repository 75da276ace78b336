"""MERLOT Reserve Base on eight segments with sound, beside a JAX model of equal size, on two threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from watchword.layers import with_weights_in
from watchword.reserve import Reserve, ReserveConfig
from watchword.reserve.inputs import AUDIO_TOKENS, SEQUENCE_LENGTH
from watchword.reserve.segmentation import WINDOW_SEGMENTS
from watchword.reserve.spectrogram import SUBSEGMENTS
from watchword.text.reserve import AUDIOSPAN, MASK

from .results import Goal, Report, Table, has_bfloat16
from .timing import Timing, interleaved, matrix_rate, measure

__all__ = ["run"]

NUM_THREADS = 2
LEAST_SHARE, LEAST_TIMES = 0.8, 3.0


@dataclass(frozen=True)
class Window:
    """One window of a video as the model takes it, with random pictures and sounds: text in segment 0, sound in the others."""

    frames: Tensor
    sounds: Tensor
    tokens: Tensor
    subsegments: Tensor


def run(*, quick: bool) -> Report:
    report = Report(f"MERLOT Reserve, a window of {WINDOW_SEGMENTS} segments with sound")
    config = ReserveConfig(width=128, vision_layers=1, audio_layers=1, joint_layers=1) if quick else ReserveConfig.named("base")
    num_threads, rounds = (1, 1) if quick else (NUM_THREADS, 5)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    torch.manual_seed(0)
    model = Reserve(config).eval()
    window = make_window(config)
    with torch.no_grad():
        tasks = _tasks(model, window)
        flops = {name: _count_flops(task) for name, task in tasks.items()}
        runs: dict[str, Callable[[], object]] = dict(tasks)
        if has_bfloat16():
            with torch.autocast("cpu", torch.bfloat16):
                rounded = _tasks(with_weights_in(model, torch.bfloat16), window)
            runs |= {f"{name}, bfloat16": partial(_in_bfloat16, task) for name, task in rounded.items()}
        peer, why_not = _peer(config, window)
        if peer is not None:
            runs["whole, JAX"] = peer
        timings = interleaved({name: partial(measure, task) for name, task in runs.items()}, rounds=rounds)
        rates = {kind: matrix_rate(kind) for kind in (torch.float32, torch.bfloat16) if kind == torch.float32 or has_bfloat16()}
        _add_table(report, timings, flops, rates)
        _add_goals(report, model, window, timings, flops, rates)
    torch.set_num_threads(threads_before)
    report.notes += [
        f"{'Tiny sizes' if quick else 'Base'}, {config.grid[0]} x {config.grid[1]} patches a frame, {num_threads} threads, random weights, "
        f"random pictures and sounds, {SEQUENCE_LENGTH} tokens. Frames: 8; sounds: 24 clips; joint: all tokens together.",
        why_not
        or "JAX: a model of flax's own layers with as many layers, tokens and features, compiled; it has neither Reserve's positions "
        "nor its pooling, so it does a little less. Its numbers are those of other random weights; only its time counts.",
        "Matrix rate, measured here on (3200, 768) x (768, 3072): "
        + ", ".join(f"{str(kind).removeprefix('torch.')} {rate / 1e9:.0f} GFLOP/s" for kind, rate in rates.items()),
    ]
    return report


def make_window(config: ReserveConfig) -> Window:
    """Random contents: a question of 16 tokens with a blank, then sound wherever it fits into the sequence."""
    tokens = torch.zeros(1, SEQUENCE_LENGTH, dtype=torch.int64)
    subsegments = torch.full_like(tokens, -1)
    tokens[0, :16] = torch.randint(10, config.vocab_size, (16,))
    tokens[0, 8], subsegments[0, :16] = MASK, 0
    num_heard = min(SEQUENCE_LENGTH - 16, (WINDOW_SEGMENTS - 1) * SUBSEGMENTS * AUDIO_TOKENS)
    heard = slice(16, 16 + num_heard)
    tokens[0, heard] = AUDIOSPAN
    subsegments[0, heard] = SUBSEGMENTS + torch.arange(num_heard) // AUDIO_TOKENS
    frames = torch.rand(1, WINDOW_SEGMENTS, config.num_patches, config.patch_features)
    sounds = torch.rand(1, SUBSEGMENTS * WINDOW_SEGMENTS, config.audio_frames, config.audio_features)
    return Window(frames, sounds, tokens, subsegments)


def _tasks(model: Reserve, window: Window) -> dict[str, Callable[[], object]]:
    seen = model.encode_frames(window.frames[0]).pooled[None]
    heard = model.encode_sounds(window.sounds[0]).pooled[None]
    segments = window.subsegments // SUBSEGMENTS
    return {
        "frames": lambda: model.encode_frames(window.frames[0]),
        "sounds": lambda: model.encode_sounds(window.sounds[0]),
        "joint": lambda: model.embed_encoded(seen, window.tokens, segments, heard, window.subsegments),
        "whole": lambda: model(window.frames, window.tokens, window.subsegments, window.sounds),
        "whole, no sound asked for": lambda: model(window.frames, window.tokens, window.subsegments),
    }


def _in_bfloat16(task: Callable[[], object]) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        task()


def _count_flops(task: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        task()
    return int(counter.get_total_flops())


def _peer(config: ReserveConfig, window: Window) -> tuple[Callable[[], object] | None, str]:
    """A JAX model of equal size, or why there is none."""
    try:
        import flax.linen as nn
        import jax
    except ImportError as error:
        return None, f"No JAX model beside it: {error}."

    class Encoder(nn.Module):
        num_layers: int

        @nn.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(self.num_layers):
                y = nn.LayerNorm()(x)
                x = x + nn.MultiHeadDotProductAttention(config.num_heads)(y, y)
                y = nn.Dense(4 * config.width)(nn.LayerNorm()(x))
                x = x + nn.Dense(config.width)(y * nn.sigmoid(1.702 * y))
            return nn.LayerNorm()(x)

    num_seen = config.pooled_grid[0] * config.pooled_grid[1]

    class Peer(nn.Module):
        @nn.compact
        def __call__(self, frames: Any, sounds: Any, words: Any) -> Any:
            seen = Encoder(config.vision_layers)(nn.Dense(config.width)(frames))[:, :num_seen]
            Encoder(config.audio_layers)(nn.Dense(config.width)(sounds))
            whole = jax.numpy.concatenate([words, seen.reshape(1, -1, config.width)], axis=1)
            return nn.Dense(config.width)(Encoder(config.joint_layers)(whole))

    frames = torch.nn.functional.pad(window.frames[0], (0, 0, 1, 0)).numpy()  # one more row for the token of the whole
    sounds = torch.nn.functional.pad(window.sounds[0].unflatten(1, (-1, config.audio_patch)).flatten(2), (0, 0, 1, 0)).numpy()
    words = torch.rand(1, SEQUENCE_LENGTH, config.width).numpy()
    peer = Peer()
    weights = peer.init(jax.random.PRNGKey(0), frames, sounds, words)
    apply = jax.jit(peer.apply)
    return lambda: apply(weights, frames, sounds, words).block_until_ready(), ""


def _add_table(report: Report, timings: dict[str, Timing], flops: dict[str, int], rates: dict[torch.dtype, float]) -> None:
    rows = []
    for name, timing in timings.items():
        part, _, kind = name.rpartition(", ") if name.endswith(("bfloat16", "JAX")) else (name, "", "")
        rate = flops[part] / timing.wall_seconds
        share = rate / rates[torch.bfloat16 if kind == "bfloat16" else torch.float32]
        times = timings[part].wall_seconds / timing.wall_seconds
        seconds = (f"{timing.wall_seconds:.3f}", f"{timing.cpu_seconds:.3f}")
        rows.append((name, *seconds, f"{times:.2f}", f"{rate / 1e9:.0f}", f"{share:.0%}"))
    columns = ("what", "wall, s", "CPU, s", "times our float32", "GFLOP/s", "share of the machine's matrix rate")
    report.tables.append(Table("One window", columns, rows))


def _add_goals(
    report: Report, model: Reserve, window: Window, timings: dict[str, Timing], flops: dict[str, int], rates: dict[torch.dtype, float]
) -> None:
    share = flops["whole"] / timings["whole"].wall_seconds / rates[torch.float32]
    report.goals.append(Goal(f"at least {LEAST_SHARE} of the matrix rate in float32", f"{share:.2f}", share >= LEAST_SHARE))
    text = f"bfloat16 at least {LEAST_TIMES:g} times as fast as float32"
    if has_bfloat16():
        times = timings["whole"].wall_seconds / timings["whole, bfloat16"].wall_seconds
        exact = model(window.frames, window.tokens, window.subsegments, window.sounds).vectors
        with torch.autocast("cpu", torch.bfloat16):
            rounded = model(window.frames, window.tokens, window.subsegments, window.sounds).vectors
        cosine = float(torch.nn.functional.cosine_similarity(exact[0, 8], rounded[0, 8].float(), dim=0))
        report.goals.append(Goal(text, f"{times:.2f} times; the blank's vector at cosine {cosine:.5f}", times >= LEAST_TIMES))
    else:
        report.goals.append(Goal(text, "this processor has no bfloat16", None))
    if "whole, JAX" in timings:
        times = timings["whole, JAX"].wall_seconds / timings["whole"].wall_seconds
        report.goals.append(Goal("no slower than JAX in float32", f"{times:.2f} times as fast", times >= 1))
