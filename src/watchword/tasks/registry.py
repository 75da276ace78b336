"""All benchmark tasks by their names; one is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module

from ..errors import ConfigError
from .task import Task

__all__ = ["TASKS", "find_task"]

TASKS = {
    "vcr": "vcr:Vcr",
    "tvqa": "tvqa:Tvqa",
    "kinetics600_sound": "kinetics_sound:KineticsSound",
    "star": "star:Star",
    "epic_kitchens": "epic_kitchens:EpicKitchens",
    "lsmdc": "lsmdc:Lsmdc",
    "msrvtt_qa": "msrvtt_qa:MsrvttQa",
    "playground_films": "playground_films:PlaygroundFilms",
}
"""Module and class of each."""


def find_task(name: str) -> Task:
    """Raises ConfigError, listing all, for a name that is none."""
    if name not in TASKS:
        raise ConfigError(f"no task is called {name!r}: choose one of {', '.join(TASKS)}")
    module, _, kind = TASKS[name].partition(":")
    task: Task = getattr(import_module(f".{module}", __package__), kind)()
    return task
