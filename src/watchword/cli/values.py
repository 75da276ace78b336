"""``--set KEY=VALUE``: what is behind the equals sign is YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ConfigError

__all__ = ["parse_settings"]


def parse_settings(changes: Sequence[str]) -> dict[str, Any]:
    """Values by key. ConfigError for what is not KEY=VALUE."""
    return dict(_parse(change) for change in changes)


def _parse(change: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = change.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {change!r}: write KEY=VALUE, such as training.seed=1")
    try:
        return key, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {change!r}: the value is not YAML") from error
