"""A model and videos small enough for every test that tags something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import torch

from watchword.xclip import Preprocessing, XClip, XClipConfig


def tiny_model(**changes: Any) -> XClip:
    """A model with random weights, the same each time, in evaluation mode."""
    sizes: dict[str, Any] = dict(image_size=32, patch_size=16, vision_width=64, vision_layers=2, embed_dim=64)
    sizes |= dict(text_width=64, text_layers=1, num_frames=4, preprocessing=Preprocessing.official(32))
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = XClip(XClipConfig(**sizes | changes)).eval()
    torch.random.set_rng_state(state)
    return model


def write_video(path: Path, *, num_frames: int = 20, fps: int = 10, size: tuple[int, int] = (48, 64), sound_only: bool = False) -> Path:
    """A video whose grey grows with time, with a bar whose place depends on the frame; or, with ``sound_only``, silence."""
    height, width = size
    with path.open("wb") as file, av.open(file, "w", format="mp4") as container:  # any name, however odd
        if sound_only:
            stream = container.add_stream("aac", rate=8000, layout="mono")
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.float32), format="fltp", layout="mono")
            frame.sample_rate = 8000
            container.mux(stream.encode(frame))
        else:
            stream = container.add_stream("libx264", rate=fps, options={"g": "10"})
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for number in range(num_frames):
                picture = np.full((height, width, 3), 40 + 180 * number // num_frames, np.uint8)
                picture[:, 3 * number % width : 3 * number % width + 6] = (250, 60, 10)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path
