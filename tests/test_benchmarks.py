"""The benchmarks' judge of frames: it knows right frames of a scene that hardly moves, and wrong ones by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

decoders = pytest.importorskip("benchmarks.decoders", reason="run from the repository's root")

NUM_FRAMES = 48


def write_nearly_still(path: Path, *, step: int, fade: float) -> Path:
    """Coloured noise, dimmed by ``fade`` grey levels a frame, and a spot in it that wanders ``step`` pixels a frame."""
    random = np.random.default_rng(0)
    still = random.integers(0, 256, (60, 80, 3), dtype=np.uint8).repeat(3, axis=0).repeat(4, axis=1)
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "12", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        for number in range(NUM_FRAMES):
            picture = (still * (1 - fade * number / 128)).astype(np.uint8)
            picture[80:100, step * number : step * number + 20] = (255, 40, 0)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(("step", "fade"), [(2, 0), (0, 0.5)])
def test_the_judge_tells_right_frames_from_their_neighbours(tmp_path: Path, step: int, fade: float) -> None:
    path = write_nearly_still(tmp_path / "clip.mp4", step=step, fade=fade)
    width, height, num_frames, signatures = decoders._decode_all(path)
    assert num_frames == NUM_FRAMES
    expected = decoders._uniform(num_frames)
    for read in (decoders._watchword(), decoders._sequential()):
        frames = read(str(path), width, height)
        assert decoders._count_wrong(frames, signatures, expected) == 0
        for shift in (-2, -1, 1, 2):
            assert decoders._count_wrong(frames, signatures, [number + shift for number in expected]) == decoders.NUM_FRAMES
        assert decoders._count_wrong(frames[:6], signatures, expected) == 2
        assert decoders._count_wrong(255 - frames, signatures, expected) == decoders.NUM_FRAMES


@pytest.mark.parametrize("name", ["xclip_speed", "folder", "training", "spectrogram", "reserve_speed"])
def test_a_benchmark_runs_small(name: str) -> None:
    if name == "spectrogram":
        pytest.importorskip("librosa", reason="needs the extra `bench`")
    command = [sys.executable, "-m", "benchmarks", name, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    assert "verdict" in done.stdout
