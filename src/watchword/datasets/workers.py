"""Work on many files in processes of its own, of which one may die without the rest being lost: a video that exhausts the memory, or a
decoder that crashes, takes its process with it.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from typing import TypeVar

from ..errors import InputError

__all__ = ["CRASHED", "Crashed", "Workers"]

Given = TypeVar("Given")
Found = TypeVar("Found")


class Crashed:
    """In place of a result: the process died that worked on it, alone."""


CRASHED = Crashed()


class Workers:
    """``num_processes`` processes, started when there is work; with 0 the work is done here. Use it as a context."""

    def __init__(self, num_processes: int) -> None:
        self.num_processes = num_processes
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; what they were at is finished first, and the rest left."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def each(self, function: Callable[[Given], Found], given: Sequence[Given]) -> Iterator[Found | Crashed]:
        """``function`` of everything given, in that order; function, what is given and what is found must be picklable.

        When a process dies, those that were under way are done again, one at a time, so that only what kills its process is lost.
        Raises InputError if no process can start, as in a script that does not guard its own start.
        """
        if self.num_processes == 0:
            yield from map(function, given)
            return
        waiting = deque(range(len(given)))
        running: dict[Future[Found], int] = {}
        found: dict[int, Found | Crashed] = {}
        for place in range(len(given)):
            while place not in found:
                intact = self._fill(function, given, waiting, running)
                if intact:
                    wait(running, return_when=FIRST_COMPLETED)
                for future in [future for future in running if future.done() and not _is_broken(future)]:
                    found[running.pop(future)] = future.result()
                if not intact or any(map(_is_broken, running)):
                    self.close()
                    suspects = sorted(running.values())
                    running.clear()
                    found.update(zip(suspects, _one_by_one(function, [given[suspect] for suspect in suspects]), strict=True))
            yield found.pop(place)

    def _fill(
        self, function: Callable[[Given], Found], given: Sequence[Given], waiting: deque[int], running: dict[Future[Found], int]
    ) -> bool:
        """Hand out work until every process has some and some to come; False if a process was found dead instead."""
        if self._pool is None:
            self._pool = _pool(self.num_processes)
        while waiting and len(running) < 4 * self.num_processes:
            try:
                running[self._pool.submit(function, given[waiting[0]])] = waiting[0]
            except BrokenProcessPool:
                return False
            waiting.popleft()
        return True


def _is_broken(future: Future[Found]) -> bool:
    return future.done() and isinstance(future.exception(), BrokenProcessPool)


def _one_by_one(function: Callable[[Given], Found], given: Sequence[Given]) -> Iterator[Found | Crashed]:
    with ExitStack() as stack:
        pool: ProcessPoolExecutor | None = None
        process: BaseProcess | None = None
        for one in given:
            others = set(multiprocessing.active_children())
            pool = pool or stack.enter_context(_pool(1))
            future = pool.submit(function, one)
            process = next(iter(set(multiprocessing.active_children()) - others), process)
            try:
                yield future.result()
            except BrokenProcessPool as error:
                pool.shutdown()  # waits until it is known how the process ended
                if process is not None and process.exitcode == 1:  # Python ended it, no signal: it never came to work
                    raise InputError(
                        "processes that read files cannot start; a script calls this under `if __name__ == '__main__':`"
                    ) from error
                pool = None
                yield CRASHED


def _pool(num_processes: int) -> ProcessPoolExecutor:
    # spawn: a forked child would inherit this process's threads in an unknown state.
    return ProcessPoolExecutor(num_processes, mp_context=multiprocessing.get_context("spawn"))
