"""What a run reports: a progress bar, a JSONL file and TensorBoard curves."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..files import write_text

__all__ = ["NoLog", "RunLog"]


class RunLog:
    """Numbers by step into ``folder/metrics.jsonl`` and TensorBoard, and a bar on standard error.

    Opened at ``start_step``, it drops the lines of steps that a killed run had logged and will now repeat.
    """

    def __init__(self, folder: Path, *, start_step: int, num_steps: int, description: str, progress: bool) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        kept = [line for line in self._lines() if json.loads(line)["step"] <= start_step]
        write_text(self.path, "".join(kept))
        self.file = self.path.open("a")
        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start_step + 1)  # type: ignore[no-untyped-call]
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            disable=not progress,
            transient=False,
        )
        self.task = self.bar.add_task(description, total=num_steps, completed=start_step, note="")

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        # A kill may have cut the last line short.
        return [line for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def __enter__(self) -> RunLog:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()
        self.file.close()
        self.writer.close()  # type: ignore[no-untyped-call]

    def advance(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def record(self, step: int, numbers: dict[str, Any]) -> None:
        """Log after ``step`` steps; numbers that are not floats (tables, say) go to the JSONL file alone."""
        self.file.write(json.dumps({"step": step, **numbers}) + "\n")
        self.file.flush()
        scalars = {name: value for name, value in numbers.items() if isinstance(value, (int, float))}
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, step)  # type: ignore[no-untyped-call]
        self.bar.update(self.task, note="  ".join(f"{name} {value:.4g}" for name, value in list(scalars.items())[:3]))


class NoLog:
    """The log of a process that is not the one to speak."""

    def __enter__(self) -> NoLog:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self, step: int) -> None:
        pass

    def record(self, step: int, numbers: dict[str, Any]) -> None:
        pass
