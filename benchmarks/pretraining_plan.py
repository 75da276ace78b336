"""What pretraining at the published size would take on 8 to 512 accelerators: arithmetic, not a measurement."""

from __future__ import annotations

from watchword.reserve.config import ReserveConfig
from watchword.reserve.cost import PretrainingCost, count_pretraining

from .results import Report, Table

__all__ = ["run"]

BATCH, STEPS = 1024, 750_000
ACCELERATORS = (8, 32, 128, 512)
# What is assumed of an accelerator: such as an H100, at the share of its peak that well-kept training code reaches.
TERAFLOPS, GIGABYTES, GIGABYTES_A_SECOND = 400, 80, 50
RECORD_MEGABYTES = 0.5
CHUNK_ROWS = 2048
# Numbers that a block keeps of each token without checkpointing, in widths: its input, two norms, queries, keys and values, attention's
# output, the hidden layer before and after the activation, and the sum between the parts.
KEPT_WIDTHS = 16


def run(*, quick: bool) -> Report:
    report = Report("A plan for pretraining at the published size")
    for size in ("base",) if quick else ("base", "large"):
        config = ReserveConfig.named(size)
        cost = count_pretraining(config)
        rows = [_row(cost, config.width, number) for number in ACCELERATORS]
        title = f"{size.capitalize()}: {cost.parameters / 1e6:.0f} million parameters, {cost.total:.0f} GMAC a record forwards"
        columns = ("accelerators", "records each", "step, s", "all steps, days", "weights and moments, GB", "activations, GB",
                   "contrast, GB", "sent in a step, GB", "sending, s", "read, MB/s")  # fmt: skip
        report.tables.append(Table(title, columns, rows))
    report.notes += [
        f"This is a plan, by arithmetic (`benchmarks/pretraining_plan.py`): nothing was run. {BATCH} records a step, {STEPS:,} steps.",
        f"Assumed of an accelerator: {TERAFLOPS} Tflop/s reached in bfloat16, {GIGABYTES} GB, {GIGABYTES_A_SECOND} GB/s to the others.",
        "A step is three times the forward pass, once more with activations computed anew, as here. Sending overlaps with it.",
        "FSDP2: weights and gradients in float32 and two bfloat16 moments, all sharded; weights are gathered twice and gradients scattered "
        "once a step. Activations: one input a block, and one block whole.",
        f"Contrast: the vectors of all records, float32, and chunks of {CHUNK_ROWS} rows; what is sent has them both ways.",
        f"A record is about {RECORD_MEGABYTES} MB on disk. The paper: 512 TPU v3 cores, 5 days for Base and 16 for Large.",
    ]
    return report


def _row(cost: PretrainingCost, width: int, number: int) -> tuple[str, ...]:
    records = BATCH / number
    seconds = cost.total * 1e9 * 2 * 4 * records / (TERAFLOPS * 1e12)
    weights = cost.parameters * (4 + 4 + 2 + 2) / number
    kept = records * cost.layer_tokens * width * 2
    block = records * cost.layer_tokens / 40 * width * 2 * KEPT_WIDTHS  # of some forty blocks one at a time
    vectors = BATCH * cost.candidates * width * 4
    contrast = 2 * vectors + 2 * CHUNK_ROWS * BATCH * 48 * 4
    sent = cost.parameters * 4 * 3 + 2 * vectors
    return (
        str(number),
        f"{records:g}",
        f"{seconds:.2f}",
        f"{seconds * STEPS / 86400:.1f}",
        f"{weights / 1e9:.2f}",
        f"{(kept + block) / 1e9:.1f}",
        f"{contrast / 1e9:.1f}",
        f"{sent / 1e9:.1f}",
        f"{sent / 1e9 / GIGABYTES_A_SECOND:.2f}",
        f"{records * RECORD_MEGABYTES / seconds:.0f}",
    )
