"""The contrastive loss of MERLOT Reserve in chunks against the plain form: time where both fit, and memory at the published size."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch

from watchword.layers.contrast import candidate_loss
from watchword.training.measures import peak_memory_megabytes

from .results import Goal, Report, Table
from .timing import interleaved, measure

__all__ = ["run"]

PUBLISHED_ROWS, WIDTH, CHUNK_ROWS = 49_152, 768, 1024
MOST_SLOWER, MOST_EXTRA_MEGABYTES = 1.15, 1000


def run(*, quick: bool) -> Report:
    report = Report("Contrast over many candidates, in chunks")
    rows, published, rounds = (256, 1024, 1) if quick else (6144, PUBLISHED_ROWS, 5)
    pairs = vectors(rows)
    times = interleaved(
        {name: partial(measure, partial(_step, *pairs, chunk)) for name, chunk in (("plain", None), ("in chunks", CHUNK_ROWS))},
        rounds=rounds,
    )
    losses = {name: _step(*vectors(rows), chunk) for name, chunk in (("plain", None), ("in chunks", CHUNK_ROWS))}
    report.tables.append(
        Table(
            f"Loss and gradients, {rows} x {rows} candidates of width {WIDTH}, float32",
            ("", "wall, s", "CPU, s", "loss"),
            [(name, f"{each.wall_seconds:.2f}", f"{each.cpu_seconds:.2f}", f"{losses[name]:.6f}") for name, each in times.items()],
        )
    )
    slower = times["in chunks"].cpu_seconds / times["plain"].cpu_seconds
    command = [sys.executable, "-m", "benchmarks.contrast", str(published)]
    words = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout.split()
    extra, seconds = float(words[0]), float(words[1])
    report.tables.append(
        Table(
            f"{published} x {published} candidates, chunks of {CHUNK_ROWS} rows",
            ("extra memory, MB", "wall, s"),
            [(f"{extra:.0f}", f"{seconds:.0f}")],
        )
    )
    apart = abs(losses["plain"] - losses["in chunks"])
    report.goals += [
        Goal(f"at most {MOST_SLOWER} times the CPU time of the plain form", f"{slower:.2f}", slower <= MOST_SLOWER),
        Goal("the same loss within 1e-6", f"{apart:.1e}", apart < 1e-6),
        Goal(f"under {MOST_EXTRA_MEGABYTES} MB beyond the inputs", f"{extra:.0f} MB", extra < MOST_EXTRA_MEGABYTES),
    ]
    report.notes.append("Extra memory: the peak of a process of its own above what it holds with the inputs, gradients among it.")
    return report


def vectors(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors times 2, whose products are then of the size that a loss sees, each of which has a noisy likeness as its answer."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, WIDTH, generator=generator)
    y = torch.randn(rows, WIDTH, generator=generator).mul_(0.5).add_(x)
    pairs = tuple(torch.nn.functional.normalize(side, dim=1, out=side).mul_(2).requires_grad_() for side in (x, y))
    return pairs[0], pairs[1]


def _step(x: torch.Tensor, y: torch.Tensor, chunk_rows: int | None) -> float:
    loss, _ = candidate_loss(x, y, chunk_rows=chunk_rows)
    loss.backward()  # type: ignore[no-untyped-call]
    x.grad = y.grad = None
    return float(loss.detach())


def _main(rows: int) -> None:
    x, y = vectors(rows)
    with torch.no_grad():  # so that the libraries have what they need of memory
        candidate_loss(x[:64], y[:64], chunk_rows=32)
    before, began = peak_memory_megabytes("cpu"), time.monotonic()
    _step(x, y, CHUNK_ROWS)
    print(peak_memory_megabytes("cpu") - before, time.monotonic() - began)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
