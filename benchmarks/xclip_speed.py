"""X-CLIP B/32 against ``transformers.XCLIPModel`` with the same weights, on two threads."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from watchword.datasets.label_lists import named_labels
from watchword.layers import with_weights_in
from watchword.text import tokenize
from watchword.xclip import VideoFeatures, XClip, XClipConfig, save_huggingface
from watchword.xclip.labels import encode_labels

from .results import Goal, Report, Table, has_bfloat16
from .timing import Timing, interleaved, matrix_rate, measure

__all__ = ["as_huggingface", "run"]

NUM_THREADS = 2
LEAST_COSINE = 0.999
Task = Callable[[], Tensor]


def run(*, quick: bool) -> Report:
    report = Report("X-CLIP B/32, 8 frames, against transformers.XCLIPModel")
    num_videos, num_labels, num_threads = (1, 16, 1) if quick else (8, 400, NUM_THREADS)
    threads_before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    torch.manual_seed(0)
    config = XClipConfig(vision_width=128, vision_layers=2, text_layers=2) if quick else XClipConfig.named("base_patch32")
    model = XClip(config).eval()
    video = torch.randn(num_videos, config.num_frames, 3, config.image_size, config.image_size)
    labels = named_labels("kinetics400").labels[:num_labels]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = as_huggingface(model).eval()
        _compare_scores(report, model, peer, video, labels, rounds=1 if quick else 3)
        _compare_video_features(report, model, peer, video, labels, rounds=1 if quick else 4)
    torch.set_num_threads(threads_before)
    report.notes += [
        f"{num_videos} videos, {num_labels} labels of Kinetics-400, {num_threads} threads; random weights, the same in both, and random "
        "pictures.",
        "Ours starts from strings (tokenising is counted), the peer from token ids made beforehand. 77: ids padded to the context length "
        "as in the released code; longest: padded to the longest label of the list, as the peer's processor does with padding=True.",
    ]
    return report


def as_huggingface(model: XClip) -> torch.nn.Module:
    """``transformers.XCLIPModel`` with the weights of ``model``."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import XCLIPModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with TemporaryDirectory() as folder:
        save_huggingface(model, Path(folder))
        peer: torch.nn.Module = XCLIPModel.from_pretrained(folder, local_files_only=True)
    return peer


def _compare_scores(report: Report, model: XClip, peer: torch.nn.Module, video: Tensor, labels: tuple[str, ...], *, rounds: int) -> None:
    ids = tokenize(labels)
    longest = ids[:, : int(ids.argmax(dim=-1).max()) + 1]
    features = model.encode_video(video)
    tasks: dict[str, Task] = {
        "labels, ours": lambda: _score_labels(model, features, labels),
        "labels, 77": lambda: _peer_scores(peer, features, ids),
        "labels, longest": lambda: _peer_scores(peer, features, longest),
        "all, ours": lambda: _score_labels(model, model.encode_video(video), labels),
        "all, 77": lambda: _peer_all(peer, video, ids),
        "all, longest": lambda: _peer_all(peer, video, longest),
        "next, ours": lambda: model.score(model.encode_video(video[:1]), encode_labels(model, labels)).softmax(dim=-1),
        "next, longest": lambda: _peer_all(peer, video[:1], longest),
    }
    error = max(
        float((tasks[ours]() - tasks[theirs]()).abs().max())
        for ours, theirs in (("all, ours", "all, longest"), ("labels, ours", "labels, longest"))
    )
    timings = interleaved({name: partial(measure, task) for name, task in tasks.items()}, rounds=rounds, warm_up=False)
    names = {
        "labels": "labels to scores (tokens, text encoder, prompts), video features given",
        "all": "videos and labels to scores, one call",
        "next": "one more video, same labels (ours keeps the text features)",
    }
    rows = []
    for key, name in names.items():
        ours = timings[f"{key}, ours"].wall_seconds
        theirs = [(timing.wall_seconds if (timing := timings.get(f"{key}, {kind}")) else None) for kind in ("77", "longest")]
        cells = [_seconds_and_ratio(seconds, ours) for seconds in theirs]
        rows.append((name, f"{ours:.3f}", *cells))
    report.tables.append(
        Table("Float32, wall seconds (times as fast)", ("what", "watchword", "transformers, 77", "transformers, longest"), rows)
    )
    for key, text in (("labels", "video features given"), ("all", "videos included")):
        ratio = timings[f"{key}, 77"].wall_seconds / timings[f"{key}, ours"].wall_seconds
        report.goals.append(
            Goal(f"labels to scores at least 5 times as fast in float32, {text}, peer padded to 77", f"{ratio:.2f} times", ratio >= 5)
        )
    report.notes.append(f"Greatest difference of a score (softmax over the labels) between the two in float32: {error:.1e}.")


def _seconds_and_ratio(seconds: float | None, ours: float) -> str:
    return "-" if seconds is None else f"{seconds:.3f} ({seconds / ours:.2f})"


def _score_labels(model: XClip, features: VideoFeatures, labels: tuple[str, ...]) -> Tensor:
    model.ln_final.bias.add_(0)  # counts as a change of the weights, so that no text feature is kept from the round before
    return model.score(features, encode_labels(model, labels)).softmax(dim=-1)


def _peer_all(peer: torch.nn.Module, video: Tensor, ids: Tensor) -> Tensor:
    scores: Tensor = peer(input_ids=ids, attention_mask=_mask(ids), pixel_values=video).logits_per_video.softmax(dim=-1)
    return scores


def _peer_scores(peer: torch.nn.Module, features: VideoFeatures, ids: Tensor) -> Tensor:
    """The part of the peer's forward pass that comes after its vision model."""
    text = peer.text_projection(peer.text_model(input_ids=ids, attention_mask=_mask(ids)).pooler_output)
    text = text.expand(len(features.video), -1, -1)
    text = text + peer.prompts_generator(text, features.content)
    logits = torch.einsum("bd,bkd->bk", F.normalize(features.video, dim=-1), peer.logit_scale.exp() * F.normalize(text, dim=-1))
    return logits.softmax(dim=-1)


def _mask(ids: Tensor) -> Tensor:
    return (torch.arange(ids.shape[1]) <= ids.argmax(dim=-1, keepdim=True)).long()


def _compare_video_features(
    report: Report, model: XClip, peer: torch.nn.Module, video: Tensor, labels: tuple[str, ...], *, rounds: int
) -> None:
    model_bfloat16 = with_weights_in(model, torch.bfloat16)

    def ours_bfloat16() -> VideoFeatures:
        with torch.autocast("cpu", torch.bfloat16):
            return model_bfloat16.encode_video(video)

    peer_bfloat16 = copy.deepcopy(peer).bfloat16()
    runs: dict[str, Callable[[], object]] = {
        "watchword float32": lambda: model.encode_video(video),
        "transformers float32": lambda: peer.get_video_features(pixel_values=video),
    }
    if has_bfloat16():
        runs["watchword bfloat16"] = ours_bfloat16
        runs["transformers bfloat16"] = lambda: peer_bfloat16.get_video_features(pixel_values=video.bfloat16())
    timings = interleaved({name: partial(measure, task) for name, task in runs.items()}, rounds=rounds)
    with FlopCounterMode(display=False) as counter:
        model.encode_video(video)
    flops = counter.get_total_flops()
    rates = {"float32": matrix_rate(torch.float32), "bfloat16": matrix_rate(torch.bfloat16) if has_bfloat16() else 0.0}
    base = timings["transformers float32"].wall_seconds
    rows = []
    for name, timing in timings.items():
        rate = flops / timing.wall_seconds
        share = rate / rates[name.rpartition(" ")[2]]
        seconds = (f"{timing.wall_seconds:.3f}", f"{timing.cpu_seconds:.3f}")
        rows.append((name, *seconds, f"{base / timing.wall_seconds:.2f}", f"{rate / 1e9:.0f}", f"{share:.0%}"))
    columns = ("what", "wall, s", "CPU, s", "times transformers float32", "GFLOP/s", "share of the machine's matrix rate")
    report.tables.append(Table("Video features alone", columns, rows))
    measured = ", ".join(f"{name} {rate / 1e9:.0f} GFLOP/s" for name, rate in rates.items() if rate)
    report.notes.append(f"Matrix rate, measured here with {torch.get_num_threads()} threads on (3200, 768) x (768, 3072): {measured}.")
    ratio = base / timings["watchword float32"].wall_seconds
    report.goals.append(Goal("video features no slower in float32", f"{ratio:.2f} times as fast", ratio >= 1))
    _add_bfloat16_goal(report, model, timings, video, labels, ours_bfloat16)


def _add_bfloat16_goal(
    report: Report,
    model: XClip,
    timings: dict[str, Timing],
    video: Tensor,
    labels: tuple[str, ...],
    encode: Callable[[], VideoFeatures],
) -> None:
    text = "video features at least 3 times as fast in bfloat16, same top-1, cosine above 0.999"
    if not has_bfloat16():
        report.goals.append(Goal(text, "this processor has no bfloat16", None))
        return
    exact, rounded = model.encode_video(video), encode()
    cosine = float(F.cosine_similarity(exact.video, rounded.video.float()).min())
    labels_text = encode_labels(model, labels)
    expected, found = (
        model.score(VideoFeatures(*(part.float() for part in (f.video, f.frames, f.content))), labels_text).argmax(dim=-1)
        for f in (exact, rounded)
    )
    same = int((expected == found).sum())
    ours = timings["watchword bfloat16"].wall_seconds
    for kind in ("float32", "bfloat16"):
        ratio = timings[f"transformers {kind}"].wall_seconds / ours
        measured = f"{ratio:.2f} times, top-1 the same for {same} of {len(video)}, cosine {cosine:.5f}"
        met = ratio >= 3 and same == len(video) and cosine > LEAST_COSINE
        report.goals.append(Goal(f"{text}, against transformers in {kind}", measured, met))
