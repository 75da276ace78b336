"""A run's folder says what it is a run of, and takes no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import write_text

__all__ = ["claim"]


def claim(path: Path, values: dict[str, Any], is_this: Callable[[dict[str, Any]], bool], another: str) -> None:
    """Write ``values``, or refuse the folder if the file is there and ``is_this`` does not know what it says: resumed, its state would go
    on in another training.

    A ValueError of ``is_this`` counts as no. Raises ConfigError.
    """
    if path.exists():
        try:
            known = is_this(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):  # pydantic's ValidationError and JSON's errors are ValueErrors
            known = False
        if not known:
            raise ConfigError(f"{path.parent} holds a run of {another} (see {path.name} there); name another folder or delete it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(values, indent=1))
