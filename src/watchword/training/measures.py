"""What a run measures of itself: the time it waits for data, and the most memory it has held."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import torch

__all__ = ["Waiting", "peak_memory_megabytes"]

Item = TypeVar("Item")


class Waiting(Generic[Item]):
    """Hands on what ``items`` gives, and tells what share of the time was spent waiting for it."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = items
        self.restart()

    def restart(self) -> None:
        self.began, self.waited = time.monotonic(), 0.0

    def share(self) -> float:
        """The share of the time since the start, or since this was last asked."""
        share = self.waited / max(time.monotonic() - self.began, 1e-9)
        self.restart()
        return share

    def __iter__(self) -> Iterator[Item]:
        items = iter(self.items)
        while True:
            asked = time.monotonic()
            try:
                item = next(items)
            except StopIteration:
                return
            self.waited += time.monotonic() - asked
            yield item


def peak_memory_megabytes(device: str | torch.device) -> float:
    """The most memory held so far, in 10**6 bytes: on a CUDA device by its tensors, otherwise by this whole process."""
    if torch.device(device).type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    status = Path("/proc/self/status")
    if status.exists():  # not getrusage: on Linux its peak starts at that of the process which started this one
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found is not None:
            return int(found[1]) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6  # macOS counts bytes, other systems kilobytes
