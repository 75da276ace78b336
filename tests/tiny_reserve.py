"""A MERLOT Reserve model small enough for every test that answers something, with the vocabulary of the real ones."""

from __future__ import annotations

from dataclasses import replace

import torch

from watchword.reserve import Reserve, ReserveConfig

TINY = ReserveConfig(width=64, head_size=32, vision_layers=1, audio_layers=1, span_layers=1, joint_layers=2, grid=(2, 4))


def tiny_reserve(**changes: object) -> Reserve:
    """Random weights, the same each time, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Reserve(replace(TINY, **changes)).eval()  # type: ignore[arg-type]
        for parameter in model.parameters():  # larger than a beginning's, so that frames, words and sound all tell in the answer
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model
