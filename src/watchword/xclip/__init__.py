"""X-CLIP (arXiv 2208.02816): an image-text model expanded to video."""

from __future__ import annotations

from .checkpoints import save_huggingface
from .config import XCLIP_SIZES, Preprocessing, XClipConfig
from .inputs import frame_transform, load_clip, to_tensor
from .model import VideoFeatures, XClip, XClipOutput
from .registry import RELEASED, ReleasedWeights, find

__all__ = [
    "Preprocessing",
    "RELEASED",
    "ReleasedWeights",
    "VideoFeatures",
    "XCLIP_SIZES",
    "XClip",
    "XClipConfig",
    "XClipOutput",
    "find",
    "frame_transform",
    "load_clip",
    "save_huggingface",
    "to_tensor",
]
