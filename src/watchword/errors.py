"""The exception tree of Watchword. Every message is one line that a person can act on.

WatchwordError
├── InputError (also ValueError)      something given by the caller cannot be used
│   ├── LabelError                    label lists: empty, too long, unreadable
│   ├── ConfigError                   recipes and model configurations
│   └── CheckpointError               weights that do not fit, or cannot be read safely
├── DownloadError                     weights that are not on this machine
├── MissingExtraError (also ImportError)   an optional dependency is not installed
└── MediaError                        see watchword.media.errors
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DownloadError",
    "InputError",
    "LabelError",
    "MissingExtraError",
    "WatchwordError",
]


class WatchwordError(Exception):
    """Base of all errors that Watchword raises on purpose."""


class InputError(WatchwordError, ValueError):
    """Something the caller gave cannot be used as it is."""


class LabelError(InputError):
    """A label list is empty, holds an empty or overlong label, or cannot be read."""


class ConfigError(InputError):
    """A recipe or a model configuration has an unknown key or a value out of range."""


class CheckpointError(InputError):
    """Weights do not fit the model, or a checkpoint file cannot be read safely."""


class DownloadError(WatchwordError):
    """Weights are not on this machine and were not, or could not be, downloaded."""


class MissingExtraError(WatchwordError, ImportError):
    """An optional dependency is needed for what was asked; the message names the extra to install."""
