"""What the tasks of finetuned weights share: settings that are checked, and items read beside the model and scored some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..devices import num_cores
from ..errors import ConfigError, WatchwordError
from ..read_ahead import read_ahead

__all__ = ["checked_settings", "scored"]

Settings = TypeVar("Settings", bound=BaseModel)
Read = TypeVar("Read")
Score = TypeVar("Score")

_MAX_READERS = 8


def checked_settings(kind: type[Settings], task: str, values: Mapping[str, Any]) -> Settings:
    """A task's settings. ConfigError that names the one that cannot be used, and those there are."""
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = ", ".join(kind.model_fields)
        raise ConfigError(f"{task}: the setting {name!r} cannot be used ({first['msg']}); known are {known}") from error


def scored(
    reads: Sequence[Callable[[], Read]],
    score: Callable[[list[Read]], Iterable[Score]],
    *,
    batch_size: int,
    on_progress: Callable[[float], None],
) -> Iterator[Score | WatchwordError]:
    """Of each item in order its score, or why it could not be read.

    reads: read an item's files; run on threads, a few batches ahead. A ConfigError, a file of another form, ends everything.
    score: of some items that could be read, one each.  on_progress: is told the share that is done.
    """
    readers = max(1, min(num_cores() // 2, _MAX_READERS))
    jobs = [partial(_caught, read) for read in reads]
    waiting: list[Read | WatchwordError] = []
    with closing(read_ahead(jobs, num_readers=readers, max_jobs=readers + batch_size, max_items=1)) as items:
        for number, item in items:
            waiting.append(item)
            readable = [one for one in waiting if not isinstance(one, WatchwordError)]
            if len(readable) == batch_size or number + 1 == len(reads):
                scores = iter(score(readable) if readable else ())
                for one in waiting:
                    yield one if isinstance(one, WatchwordError) else next(scores)
                waiting = []
                on_progress((number + 1) / len(reads))


def _caught(read: Callable[[], Read]) -> Iterator[Read | WatchwordError]:
    try:
        yield read()
    except ConfigError:
        raise
    except WatchwordError as error:
        yield error
