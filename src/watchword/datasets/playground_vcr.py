"""The playground's stand-in for VCR, written once into files and read from there as the data set itself is."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from ..playground.stand_ins.vcr import write_vcr
from .playground import world_hash

__all__ = ["playground_vcr"]


def playground_vcr(num_questions: int, *, num_held_out: int, seed: int, cache_folder: Path) -> Path:
    """The folder of a stand-in of so many training and validation questions. What another version of the world has left in
    ``cache_folder`` is not taken for this one's.
    """
    folder = cache_folder / f"vcr-{num_questions}-{num_held_out}-seed{seed}-{world_hash('stand_ins/vcr.py')}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):  # runs side by side want the same questions: one renders, the others wait
        if not (folder / "test.jsonl").exists():
            write_vcr(folder, num_questions, num_val=num_held_out, num_test=1, seed=seed)
    return folder
