from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from watchword.errors import ConfigError
from watchword.text import tokenize
from watchword.xclip import XClip, XClipConfig
from watchword.xclip.class_heads import make_head
from watchword.xclip.config import Preprocessing
from watchword.xclip.model import VideoFeatures

NAMES = ("a red square moves left", "spinning", "a very large green heart that is shaken")
CONFIG = XClipConfig(
    image_size=32, patch_size=16, vision_width=64, vision_layers=1, embed_dim=64, text_width=64, text_layers=1, context_length=32,
    num_frames=4, preprocessing=Preprocessing(crop_size=32, short_side=32),
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> XClip:
    torch.manual_seed(0)
    return XClip(CONFIG).eval()


@pytest.fixture(scope="module")
def features(model: XClip) -> VideoFeatures:
    with torch.no_grad():
        return model.encode_video(torch.randn(2, 4, 3, 32, 32))


def test_names_are_scored_as_the_model_scores_them(model: XClip, features: VideoFeatures) -> None:
    head = make_head("names", model, NAMES, text_learns=False)
    expected = model.score(features, model.encode_text(tokenize(NAMES, context_length=32)))
    torch.testing.assert_close(head(model, features), expected)


def test_text_that_learns_is_read_anew_and_frozen_text_once(features: VideoFeatures) -> None:
    model = XClip(CONFIG)
    for text_learns in (True, False):
        head = make_head("names", model, NAMES, text_learns=text_learns).train()
        before = head(model, features)
        with torch.no_grad():
            model.text_projection.mul_(-1)
        assert torch.equal(before, head(model, features)) == (not text_learns)
        if text_learns:
            learned = head.eval()(model, features)
            assert not torch.equal(before, learned) and torch.equal(learned, head(model, features))


def test_text_kept_in_low_precision_training_serves_evaluation(model: XClip, features: VideoFeatures) -> None:
    head = make_head("names", model, NAMES, text_learns=False).train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        head(model, features)
    expected = model.score(features, model.encode_text(tokenize(NAMES, context_length=32)))
    torch.testing.assert_close(head.eval()(model, features), expected)


def test_an_ensemble_is_the_mean_of_its_sentences(model: XClip, features: VideoFeatures) -> None:
    templates = ("a video of {}", "{}, seen from above")
    head = make_head("ensemble", model, NAMES, text_learns=False, templates=templates)
    parts = [F.normalize(model.encode_text(tokenize([t.format(n) for n in NAMES], context_length=32)), dim=-1) for t in templates]
    torch.testing.assert_close(head(model, features), model.score(features, F.normalize((parts[0] + parts[1]) / 2, dim=-1)))


def test_context_vectors_that_are_words_give_the_text_with_those_words(model: XClip, features: VideoFeatures) -> None:
    head = make_head("context", model, NAMES, text_learns=False, num_vectors=2)
    words = tokenize(["a video"], context_length=32)[0, 1:3]
    with torch.no_grad():
        head.context.copy_(model.token_embedding(words))  # type: ignore[union-attr, operator]
    expected = model.score(features, model.encode_text(tokenize([f"a video {name}" for name in NAMES], context_length=32)))
    torch.testing.assert_close(head(model, features), expected)


def test_heads_learn_what_is_theirs(model: XClip, features: VideoFeatures) -> None:
    def learned(kind: str) -> set[str]:
        head = make_head(kind, model, NAMES, text_learns=True, templates=("a {}",))  # type: ignore[arg-type]
        F.cross_entropy(head(model, features), torch.tensor([0, 2])).backward()
        return {name for name, parameter in head.named_parameters() if parameter.grad is not None and parameter.grad.any()}

    assert learned("context") == {"context"} and learned("linear") == {"linear.weight", "linear.bias"}
    assert learned("names") == learned("ensemble") == set()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda model: make_head("ensemble", model, NAMES, text_learns=False), "needs templates"),
        (lambda model: make_head("ensemble", model, NAMES, text_learns=False, templates=("a video",)), "'a video'"),
        (lambda model: make_head("context", model, NAMES, text_learns=False, num_vectors=30), "30 context vectors"),
    ],
)
def test_what_cannot_be_is_one_line(model: XClip, make: Callable[[XClip], object], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        make(model)
    assert "\n" not in str(raised.value)
