"""Checks that every configuration makes of the values it is given, as a file that was edited by hand may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from .errors import ConfigError

__all__ = ["check_types", "checked_fields"]


def checked_fields(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as arguments of a dataclass, lists as tuples; ConfigError for a key that it has not."""
    unknown = set(values) - {f.name for f in fields(cls)}
    if unknown:
        raise ConfigError(f"unknown key {sorted(unknown)[0]!r} in {cls.__name__}; known are {', '.join(f.name for f in fields(cls))}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def check_types(config: Any) -> None:
    """ConfigError for a value of another type than its field's default. Elements of a tuple must be as the default's are; of an empty
    one, text. None as a default stands for an optional whole number.
    """
    for f in fields(config):
        value, default = getattr(config, f.name), f.default if f.default_factory is MISSING else f.default_factory()
        kinds: tuple[type, ...] = {float: (int, float), type(None): (int, type(None))}.get(type(default), (type(default),))
        parts = value if isinstance(value, tuple) else ()
        inside = _kinds_inside(default)
        flag = isinstance(value, bool) != isinstance(default, bool)  # to Python a truth is a whole number
        if not isinstance(value, kinds) or flag or not all(_is(part, inside) for part in parts):
            raise ConfigError(f"{type(config).__name__}: {f.name} is {value!r}, but must be of the same type as {default!r}")


def _kinds_inside(default: Any) -> tuple[type, ...]:
    if not isinstance(default, tuple) or not default:
        return (str,)
    return (int, float) if isinstance(default[0], float) else (type(default[0]),)


def _is(part: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(part, kinds) and not isinstance(part, bool)
