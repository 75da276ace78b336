from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.datasets.label_lists import named_labels
from watchword.text import tokenize
from watchword.xclip import XClip, XClipConfig
from watchword.xclip.config import Preprocessing
from watchword.xclip.prefix_tree import encode_tree, prefix_tree

WORDS = st.lists(st.sampled_from(["a", "red", "square", "moves", "left", "playing", "drums", "é"]), min_size=1, max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def model() -> XClip:
    torch.manual_seed(0)
    config = XClipConfig(
        image_size=32, patch_size=16, vision_width=64, vision_layers=1, embed_dim=64, text_width=128, text_layers=2, context_length=32,
        num_frames=2, preprocessing=Preprocessing(crop_size=32, short_side=32),
    )  # fmt: skip
    return XClip(config).eval()


@settings(deadline=None, max_examples=50)
@given(st.lists(WORDS, min_size=1, max_size=12))
def test_texts_encoded_by_their_beginnings_are_those_encoded_one_by_one(model: XClip, labels: list[str]) -> None:
    ids = tokenize(labels, context_length=32)
    with torch.inference_mode():
        torch.testing.assert_close(encode_tree(model, prefix_tree(ids)), model.encode_text(ids), atol=1e-5, rtol=1e-5)


def test_every_beginning_is_a_node_once() -> None:
    labels = named_labels("kinetics400").labels
    ids = tokenize(labels, context_length=77)
    tree = prefix_tree(ids)
    beginnings = {
        tuple(row[: place + 1]) for row, end in zip(ids.tolist(), ids.argmax(1).tolist(), strict=True) for place in range(end + 1)
    }
    assert len(tree.tokens) == len(beginnings) < 0.7 * int((ids.argmax(1) + 1).sum())
    assert tree.tokens[tree.ends].unique().tolist() == [int(ids.max())]


def test_autocast_reaches_the_same_texts(model: XClip) -> None:
    ids = tokenize(["a red square", "a red heart", "drums"], context_length=32)
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(encode_tree(model, prefix_tree(ids)), model.encode_text(ids), atol=0.05, rtol=0.05)
