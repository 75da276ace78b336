"""Watchword names what happens in videos, in the user's own words."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from .errors import WatchwordError

if TYPE_CHECKING:
    from .reserve import Reserve as Reserve
    from .reserve import ReserveConfig as ReserveConfig
    from .reserve.answers import Question as Question
    from .reserve.filling import Filler as Filler
    from .xclip import XClip as XClip
    from .xclip import XClipConfig as XClipConfig
    from .xclip.tagging import Tag as Tag
    from .xclip.tagging import Tagger as Tagger

__version__ = version("watchword")
__all__ = ["Filler", "Question", "Reserve", "ReserveConfig", "Tag", "Tagger", "WatchwordError", "XClip", "XClipConfig", "__version__"]

_HOMES = {
    "Filler": "reserve.filling",
    "Question": "reserve.answers",
    "Reserve": "reserve",
    "ReserveConfig": "reserve",
    "Tag": "xclip.tagging",
    "Tagger": "xclip.tagging",
    "XClip": "xclip",
    "XClipConfig": "xclip",
}


def __getattr__(name: str) -> Any:
    # Names are looked up on first use, so that `watchword --help` does not wait for torch.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
