from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from watchword.layers import candidate_loss


def vectors(seed: int, num_rows: int, num_extra: int) -> list[Tensor]:
    """Unit vectors times the root of a scale of 1 to 20. At 100, the most there is, float32 itself rounds logits to 1e-5."""
    generator = torch.Generator().manual_seed(seed)
    root = 20 ** (torch.rand(1, generator=generator) / 2)
    drawn = [torch.randn(rows, 6, generator=generator) for rows in (num_rows, num_rows, num_extra)]
    return [(root * torch.nn.functional.normalize(tensor, dim=-1)).requires_grad_() for tensor in drawn]


def test_each_side_finds_its_own_among_all_of_the_other_side() -> None:
    x, y, extra = (tensor.detach() for tensor in vectors(0, 3, 2))
    expected = torch.zeros(3)
    for row in range(3):
        to_y = torch.stack([x[row] @ candidate for candidate in (*y, *extra)])
        to_x = torch.stack([y[row] @ candidate for candidate in x])
        expected[row] = -(to_y.log_softmax(dim=0)[row] + to_x.log_softmax(dim=0)[row]) / 2
    for chunk_rows in (None, 2):
        loss, rows = candidate_loss(x, y, extra, chunk_rows=chunk_rows)
        assert rows.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
        assert loss.item() == pytest.approx(expected.mean().item(), rel=1e-5)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**31), num_rows=st.integers(1, 12), num_extra=st.integers(0, 9), chunk_rows=st.integers(1, 14))
def test_in_chunks_the_loss_and_its_gradients_are_the_same(seed: int, num_rows: int, num_extra: int, chunk_rows: int) -> None:
    whole, chunked = vectors(seed, num_rows, num_extra), vectors(seed, num_rows, num_extra)
    loss, rows = candidate_loss(*whole)
    again, rows_again = candidate_loss(*chunked, chunk_rows=chunk_rows)
    (loss / 2).backward()
    (again / 2).backward()
    assert again.item() == pytest.approx(loss.item(), rel=1e-6, abs=1e-6)
    assert torch.allclose(rows, rows_again, rtol=1e-6, atol=1e-5)
    assert not rows_again.requires_grad
    for one, other in zip(whole, chunked, strict=True):
        assert one.grad is not None and other.grad is not None
        assert one.grad.numel() == 0 or float((one.grad - other.grad).abs().max()) <= 1e-6 * max(1.0, float(one.grad.abs().max()))


def test_in_chunks_without_gradients_or_with_those_of_one_side() -> None:
    x, y, extra = vectors(1, 5, 3)
    loss, _ = candidate_loss(x, y, extra)
    with torch.no_grad():
        assert candidate_loss(x, y, extra, chunk_rows=2)[0].item() == pytest.approx(loss.item(), rel=1e-6)
    (expected,) = torch.autograd.grad(loss, [y])
    again, _ = candidate_loss(x.detach(), y, extra.detach(), chunk_rows=2)
    (found,) = torch.autograd.grad(again, [y])
    assert torch.allclose(found, expected, atol=1e-6)


def test_under_autocast_products_stay_float32() -> None:
    x, y, extra = vectors(2, 6, 2)
    loss, _ = candidate_loss(x, y, extra)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for chunk_rows in (None, 4):
            assert candidate_loss(x, y, extra, chunk_rows=chunk_rows)[0].item() == pytest.approx(loss.item(), rel=1e-6)


def test_the_matrix_of_all_with_all_is_never_held_in_chunks() -> None:
    """No tensor that is made on the way, forward or backward, is larger than the candidates or a chunk's logits."""
    num_rows, chunk_rows = 300, 8
    x, y = (torch.randn(num_rows, 4, requires_grad=True) for _ in range(2))
    with Largest() as largest:
        candidate_loss(x, y, chunk_rows=chunk_rows)[0].backward()
    assert largest.numel <= num_rows * max(4, chunk_rows)
    with Largest() as largest:
        candidate_loss(x, y)[0].backward()
    assert largest.numel >= num_rows**2


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The number of elements of the largest tensor that any operation gives."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor):
                self.numel = max(self.numel, tensor.numel())
        return out
