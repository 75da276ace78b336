from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest
import torch

from watchword.xclip import XClip, XClipConfig
from watchword.xclip.config import Preprocessing

CONFIG = XClipConfig(
    image_size=32, patch_size=16, vision_width=64, vision_layers=2, embed_dim=64, text_width=64, text_layers=1, context_length=32,
    num_frames=3, mit_layers=0, prompt_layers=0, preprocessing=Preprocessing(crop_size=32, short_side=32),
)  # fmt: skip


def frame_vectors(config: XClipConfig, clip: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    model = XClip(config).eval()
    with torch.no_grad():
        return model.encode_video(clip).frames


@pytest.mark.parametrize(("message", "heard"), [("off", False), ("on", True), ("joint", True)])
def test_what_one_frame_hears_of_another(message: Literal["on", "off", "joint"], heard: bool) -> None:
    config = replace(CONFIG, message=message)
    clip = torch.randn(1, 3, 3, 32, 32)
    changed = clip.clone()
    changed[:, 2] = torch.randn(3, 32, 32)
    before, after = frame_vectors(config, clip), frame_vectors(config, changed)
    assert torch.allclose(before[:, 0], after[:, 0], atol=1e-5) != heard
    assert not torch.allclose(before[:, 2], after[:, 2], atol=1e-3)


def test_joint_attention_over_one_frame_is_plain_attention() -> None:
    clip = torch.randn(2, 1, 3, 32, 32)
    off, joint = (frame_vectors(replace(CONFIG, message=message, num_frames=1), clip) for message in ("off", "joint"))  # type: ignore[arg-type]
    torch.testing.assert_close(off, joint)
