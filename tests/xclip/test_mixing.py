from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from watchword.xclip.mixing import Mixing, cutmix, smoothed_targets


@given(st.floats(0, 1), st.integers(1, 40), st.integers(1, 40), st.data())
def test_the_share_of_cutmix_is_what_the_box_leaves(share: float, height: int, width: int, data: st.DataObject) -> None:
    centre_x, centre_y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    mixture = cutmix(torch.tensor([1, 0]), share, centre_x, centre_y, height, width)
    video = torch.stack([torch.zeros(2, 3, height, width), torch.ones(2, 3, height, width)])
    mixed, targets = mixture(video, torch.eye(2))
    assert mixed[0].mean().item() == pytest.approx(1 - mixture.share, abs=1e-5)
    assert torch.equal(mixed[0], 1 - mixed[1])
    assert torch.equal(mixed[0, 0], mixed[0, 1])  # the same box in every frame
    assert targets[0].tolist() == pytest.approx([mixture.share, 1 - mixture.share])


def test_draws_follow_the_seed_and_use_both_kinds() -> None:
    def draw(seed: int) -> tuple[list[int], float, bool]:
        torch.manual_seed(seed)
        mixture = Mixing().draw(4, 8, 8)
        return mixture.permutation.tolist(), mixture.share, mixture.box is None

    assert draw(3) == draw(3)
    draws = [draw(seed) for seed in range(200)]
    assert 60 < sum(blended for _, _, blended in draws) < 140
    assert all(sorted(permutation) == [0, 1, 2, 3] and 0 <= share <= 1 for permutation, share, _ in draws)


def test_smoothed_targets_equal_torchs_label_smoothing() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(5, 7), torch.tensor([0, 6, 3, 3, 1])
    ours = F.cross_entropy(logits, smoothed_targets(labels, 7, 0.1))
    assert ours.item() == pytest.approx(F.cross_entropy(logits, labels, label_smoothing=0.1).item(), rel=1e-6)
