from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from watchword.training.bfloat16_adam import Bfloat16Adam, decode_square, encode_square

NAN, INFINITE = float("nan"), float("inf")


def stepped(start: Tensor, gradients: list[Tensor], **settings: object) -> tuple[nn.Parameter, Bfloat16Adam]:
    parameter = nn.Parameter(start.clone())
    optimizer = Bfloat16Adam([parameter], lr=0.01, **settings)  # type: ignore[arg-type]
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter, optimizer


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(2.0**-40, 2.0**40, width=32), min_size=1))
def test_second_moments_in_two_bytes_keep_three_digits(numbers: list[float]) -> None:
    square = torch.tensor(numbers)
    coded = encode_square(square)
    assert coded.dtype == torch.bfloat16
    assert float(((decode_square(coded) - square) / square).abs().max()) <= 0.0014


def test_second_moments_that_are_too_small_are_zero() -> None:
    assert decode_square(encode_square(torch.tensor([0.0, 1e-20, 2e-13]))).tolist() == [0, 0, 0]


def test_nan_in_a_gradient_counts_as_zero_and_is_counted() -> None:
    start, gradient = torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([[0.5, NAN], [NAN, -0.1]])
    parameter, optimizer = stepped(start, [gradient, gradient])
    expected, clean = stepped(start, [gradient.nan_to_num(0.0)] * 2)
    assert torch.equal(parameter, expected)
    assert (optimizer.nan_gradients, clean.nan_gradients) == (4, 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_with_an_infinite_gradient_is_left_out(sign: int) -> None:
    start, gradient = torch.ones(2, 2), torch.full((2, 2), 0.5)
    broken = gradient.clone()
    broken[0, 1] = sign * INFINITE
    parameter, optimizer = stepped(start, [gradient, broken, gradient])
    expected, _ = stepped(start, [gradient, gradient])
    assert torch.equal(parameter, expected)
    assert optimizer.skipped_steps == 1


def test_a_saved_state_goes_on_bit_for_bit_in_two_bytes_a_moment(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    start, *gradients = (torch.randn(7, 5, generator=generator) for _ in range(7))
    whole, _ = stepped(start, gradients, pull_to_start=True, correct_bias=True)
    parameter, optimizer = stepped(start, gradients[:3], pull_to_start=True, correct_bias=True)
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    again = Bfloat16Adam([parameter], lr=0.01, pull_to_start=True, correct_bias=True)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for gradient in gradients[3:]:
        parameter.grad = gradient.clone()
        again.step()
    assert torch.equal(parameter, whole)
    assert {state.dtype for state in again.state[parameter].values() if state.ndim} == {torch.bfloat16}


def test_decay_pulls_to_zero_or_to_the_start() -> None:
    start, still = torch.full((4, 4), 2.0), [torch.zeros(4, 4)] * 20
    assert torch.allclose(stepped(start, still)[0], start * (1 - 0.01 * 0.1) ** 20)
    assert torch.equal(stepped(start, still, pull_to_start=True)[0], start)
    assert torch.equal(stepped(start, still, weight_decay=0.0)[0], start)


def test_it_fits_a_line() -> None:
    generator = torch.Generator().manual_seed(0)
    x, truth = torch.randn(200, 4, generator=generator), torch.randn(4, 1, generator=generator)
    weights = nn.Parameter(torch.zeros(4, 1))
    optimizer = Bfloat16Adam([weights], lr=0.01, weight_decay=0.0)
    for _ in range(500):
        optimizer.zero_grad()
        (x @ weights - x @ truth).square().mean().backward()
        optimizer.step()
    assert float((weights - truth).detach().abs().max()) < 0.02


def test_sharded_parameters_take_the_same_steps(tmp_path: Path) -> None:
    """FSDP2 on two processes, one gradient of which, on one shard, is infinite: both leave that step out."""
    model = nn.Linear(6, 4)
    whole = copy.deepcopy(model)
    torch.multiprocessing.spawn(_sharded_steps, (model, tmp_path), nprocs=2)
    _take_steps(whole, Bfloat16Adam(whole.parameters(), lr=0.01))
    found = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert all(torch.equal(found[name], tensor) for name, tensor in whole.state_dict().items())
    assert found.keys() == whole.state_dict().keys()


def _take_steps(model: nn.Module, optimizer: Bfloat16Adam) -> None:
    generator = torch.Generator().manual_seed(3)
    for step in range(4):
        for parameter in model.parameters():
            gradient = torch.randn(parameter.shape, generator=generator)
            if step == 2:
                gradient.view(-1)[-1] = INFINITE
            if isinstance(parameter, DTensor):
                own = gradient.chunk(2)[torch.distributed.get_rank()]
                gradient = DTensor.from_local(own, parameter.device_mesh, parameter.placements)
            parameter.grad = gradient
        optimizer.step()
    assert optimizer.skipped_steps == 1


def _sharded_steps(rank: int, model: nn.Module, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (2,)))
    _take_steps(model, Bfloat16Adam(model.parameters(), lr=0.01))
    weights = {name: parameter.full_tensor() for name, parameter in model.state_dict().items()}
    if rank == 0:
        torch.save(weights, folder / "weights.pt")
    torch.distributed.destroy_process_group()
