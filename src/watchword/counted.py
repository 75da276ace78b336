"""Numbers of things, in words."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 frame``, ``2 frames``; ``many`` where an s does not make the plural."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
