"""Work done ahead of its use, on threads of its own and in bounded memory: files are decoded beside the model."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")


def read_ahead(jobs: Sequence[Callable[[], Iterator[T]]], *, num_readers: int, max_jobs: int, max_items: int) -> Generator[tuple[int, T]]:
    """(number of the job, item) for all items of all jobs, in order, while ``num_readers`` threads work ahead.

    At most ``max_jobs`` jobs are under way or waiting to be taken, each with at most ``max_items`` items. Leaving the loop early
    stops the threads.
    """
    stop = threading.Event()
    waiting: deque[tuple[int, queue.Queue[T | _Done], Future[None]]] = deque()
    numbers = iter(range(len(jobs)))

    def work(job: Callable[[], Iterator[T]], items: queue.Queue[T | _Done]) -> None:
        try:
            for item in job():
                if not _put(items, item, stop):
                    return
        finally:
            _put(items, _DONE, stop)

    with ThreadPoolExecutor(num_readers, thread_name_prefix="watchword-reader") as pool:
        try:
            while True:
                while len(waiting) < max_jobs and (number := next(numbers, None)) is not None:
                    items: queue.Queue[T | _Done] = queue.Queue(max_items)
                    waiting.append((number, items, pool.submit(work, jobs[number], items)))
                if not waiting:
                    return
                number, items, future = waiting.popleft()
                while not isinstance(item := items.get(), _Done):
                    yield number, item
                future.result()  # an error of the job that is no part of its items
        finally:
            stop.set()


class _Done:
    """Marks the end of a job's items."""


_DONE = _Done()


def _put(items: queue.Queue[T | _Done], item: T | _Done, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=0.1)
            return True
        except queue.Full:
            continue
    return False
