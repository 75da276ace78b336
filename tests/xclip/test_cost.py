from __future__ import annotations

from typing import Any

import pytest

from watchword.xclip import XClipConfig
from watchword.xclip.config import Preprocessing
from watchword.xclip.cost import count_cost

LARGE: dict[str, Any] = {"patch_size": 14, "vision_width": 1024, "vision_layers": 24, "embed_dim": 768, "text_width": 768}


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (XClipConfig(patch_size=32), 39),
        (XClipConfig(patch_size=16), 145),
        (XClipConfig(patch_size=16, message="joint"), 184),
        (XClipConfig(patch_size=16, num_frames=32), 571),
        (XClipConfig(**LARGE), 658),
        (XClipConfig(**LARGE, num_frames=16, image_size=336, preprocessing=Preprocessing.official(336)), 3086),
    ],
    ids=str,
)
def test_the_paper_s_gflops(config: XClipConfig, published: float) -> None:
    assert count_cost(config).total == pytest.approx(published, rel=0.01)


def test_heads_cost_what_they_compute() -> None:
    config = XClipConfig(patch_size=32, prompt_layers=0, class_names=tuple(map(str, range(400))))
    names, linear, ensemble = (count_cost(config, head=head, num_templates=3) for head in ("names", "linear", "ensemble"))
    assert linear.video == names.video == ensemble.video
    assert linear.text == 0 and ensemble.text == pytest.approx(3 * names.text)
    assert linear.score == pytest.approx(400 * 512 / 1e9)
    assert names.parameters - linear.parameters == pytest.approx(63.43 - 400 * 513 / 1e6, abs=0.01)  # CLIP's text encoder for the layer


def test_labels_cost_text_once_and_prompts_each() -> None:
    one, many = (count_cost(XClipConfig(patch_size=16), num_labels=count) for count in (1, 400))
    assert many.video == one.video and many.parameters == one.parameters
    assert many.text == pytest.approx(1192, rel=0.01) and many.score == pytest.approx(2.46, rel=0.02)  # spec section 17
