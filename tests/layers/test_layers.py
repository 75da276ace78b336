from __future__ import annotations

import pytest
import torch
from torch import nn

from watchword.layers import (
    Attention,
    AttentionPool,
    DropPath,
    FeedForward,
    TransformerBlock,
    activation_function,
    attend,
    contrastive_loss,
    with_weights_in,
)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_attention_equals_the_plain_formula(causal: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 9, 64).to(dtype).unbind(0)
    fused = attend(query, key, value, causal=causal, fused=True)
    plain = attend(query, key, value, causal=causal, fused=False)
    assert torch.allclose(fused.float(), plain.float(), atol=1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masked_attention_is_the_same_fused_or_not_and_an_empty_row_sees_all_alike(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 9, 64).to(dtype).unbind(0)
    seen = torch.rand(2, 1, 9, 9) > 0.4
    seen[0, 0, 3] = False
    mask = torch.zeros(seen.shape).masked_fill(~seen, -1e10)
    fused, plain = (attend(query, key, value, mask=mask, fused=choice).float() for choice in (True, False))
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert torch.allclose(fused, plain, atol=tolerance)
    assert torch.allclose(plain[0, :, 3], value[0].float().mean(dim=1), atol=tolerance)
    changed = torch.where(seen[1, 0, 5][:, None], value, value + 7)  # of what row 5 does not see
    assert torch.equal(attend(query, key, changed, mask=mask, fused=False)[1, :, 5].float(), plain[1, :, 5])


def test_attention_pooling_equals_torchs_attention_from_the_mean() -> None:
    torch.manual_seed(0)
    pool, theirs = AttentionPool(128, 2), torch.nn.MultiheadAttention(128, 2, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([pool.query.weight, pool.key.weight, pool.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([pool.query.bias, pool.key.bias, pool.value.bias]))
        theirs.out_proj.load_state_dict(pool.out.state_dict())
    groups = torch.randn(3, 5, 4, 128)
    flat = groups.flatten(0, 1)
    expected = theirs(flat.mean(1, keepdim=True), flat, flat, need_weights=False)[0].view(3, 5, 128)
    assert torch.allclose(pool(groups), expected, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_equals_torchs_module_of_the_same_parameters(causal: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = Attention(128, 2, causal=causal), torch.nn.MultiheadAttention(128, 2, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 7, 128)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(7) if causal else None
    assert torch.allclose(ours(x), theirs(x, x, x, attn_mask=mask, need_weights=False)[0], atol=1e-5)


def test_drop_path_drops_whole_samples_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    drop, x = DropPath(0.25), torch.ones(4000, 3, 2)
    dropped = drop(x)
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert all(len(sample.unique()) == 1 for sample in dropped)
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(drop.eval()(x), x)


def test_unknown_activation_is_named() -> None:
    with pytest.raises(ValueError, match="swish"):
        activation_function("swish")


def test_contrastive_loss_equals_the_slow_sum_and_shares_the_target_of_a_repeated_caption() -> None:
    torch.manual_seed(0)
    left, right, groups, scale = torch.randn(5, 8), torch.randn(5, 8), [0, 1, 1, 2, 1], 7.0

    def cross_entropy(a: torch.Tensor, b: torch.Tensor) -> float:
        total = 0.0
        for i in range(5):
            cosines = torch.stack([torch.cosine_similarity(a[i], b[j], dim=0) for j in range(5)])
            right_answers = [j for j in range(5) if groups[j] == groups[i]]
            total -= (scale * cosines).log_softmax(0)[right_answers].mean().item()
        return total / 5

    expected = (cross_entropy(left, right) + cross_entropy(right, left)) / 2
    assert contrastive_loss(left, right, torch.tensor(scale), groups=torch.tensor(groups)).item() == pytest.approx(expected, rel=1e-5)
    assert contrastive_loss(left, right, torch.tensor(scale)).item() != pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("activation", ["quick_gelu", "gelu"])
def test_feed_forward_is_the_same_with_and_without_gradients_and_leaves_its_input(activation: str) -> None:
    """Without them it computes in place."""
    feed_forward, x = FeedForward(64, activation=activation), torch.randn(3, 7, 64)
    kept = x.clone()
    with torch.no_grad():
        without = feed_forward(x)
    torch.testing.assert_close(without, feed_forward(x), rtol=0, atol=1e-6)
    assert torch.equal(x, kept)


def test_quick_gelu_leaves_its_input_unless_told_to_work_in_place() -> None:
    x = torch.randn(50)
    kept, function = x.clone(), activation_function("quick_gelu")
    torch.testing.assert_close(function(x), x * (1.702 * x).sigmoid())
    assert torch.equal(x, kept)
    assert function(x, inplace=True).data_ptr() == x.data_ptr()
    torch.testing.assert_close(x, function(kept))


def test_weights_in_bfloat16_give_what_autocast_gives_and_leave_the_model_alone() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.embedding, self.norm = nn.Conv2d(3, 64, 4, stride=4), nn.Embedding(9, 64), nn.LayerNorm(64)
            self.block = TransformerBlock(64, 2, activation="quick_gelu")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.conv(x).flatten(2).transpose(1, 2) + self.embedding.weight[:4]
            return self.block(self.norm(tokens))

    model = Model().eval()
    rounded = with_weights_in(model, torch.bfloat16)
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rounded(x), model(x))
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert {rounded.conv.weight.dtype, rounded.block.attn.in_proj_weight.dtype, rounded.block.mlp.c_fc.bias.dtype} == {torch.bfloat16}
    assert {weight.dtype for part in (rounded.norm, rounded.embedding) for weight in part.parameters()} == {torch.float32}
