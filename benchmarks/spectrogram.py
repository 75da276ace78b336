"""Log-mel spectrograms of Reserve's segments: ours against librosa's, the same numbers from the same sound, one thread each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from watchword.reserve import spectrogram as sp

from .results import Goal, Report, Table
from .timing import interleaved, measure

__all__ = ["run"]

SEGMENTS = 8
TOLERANCE = 1e-4
FLOOR = 0.1


def run(*, quick: bool) -> Report:
    report = Report(f"Log-mel spectrograms of {SEGMENTS} segments of 5 s")
    waves = np.random.default_rng(0).standard_normal((SEGMENTS, sp.SEGMENT_SAMPLES)).astype(np.float32) * 0.1
    tasks = {"watchword": partial(_ours, waves)}
    try:
        import librosa

        tasks["librosa"] = partial(_librosa, librosa, waves)
        tasks["librosa, all at once"] = partial(_librosa, librosa, waves, together=True)
    except ImportError as error:
        report.notes.append(f"librosa cannot be used here: {error}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        spectra = {name: task() for name, task in tasks.items()}
        times = interleaved({name: partial(measure, task) for name, task in tasks.items()}, rounds=1 if quick else 31)
    finally:
        torch.set_num_threads(threads)
    apart = {name: float(np.abs(found - spectra["watchword"]).max()) for name, found in spectra.items()}
    rows = [
        (name, *(f"{1000 * t / SEGMENTS:.2f}" for t in (time.wall_seconds, time.cpu_seconds)), f"{apart[name]:.1e}")
        for name, time in times.items()
    ]
    report.tables.append(Table("Milliseconds a segment", ("", "wall", "CPU", "largest difference from ours"), rows))
    peers = [time.cpu_seconds for name, time in times.items() if name != "watchword"]
    ratio = min(peers) / times["watchword"].cpu_seconds if peers else None
    report.goals += [
        Goal("faster than librosa (CPU time, its better way)", f"{ratio:.2f} times" if ratio else "-", ratio > 1 if ratio else None),
        Goal(f"the same numbers within {TOLERANCE:g}", f"{max(apart.values()):.1e}", max(apart.values()) < TOLERANCE if peers else None),
    ]
    return report


def _ours(waves: np.ndarray) -> np.ndarray:
    return sp.log_mel(torch.from_numpy(waves)).numpy()


def _librosa(librosa: Any, waves: np.ndarray, *, together: bool = False) -> np.ndarray:
    def log_mel(wave: np.ndarray) -> np.ndarray:
        mel = librosa.feature.melspectrogram(
            y=wave,
            sr=sp.RATE,
            n_fft=sp.WINDOW,
            hop_length=sp.HOP,
            window=np.hanning(sp.WINDOW),
            n_mels=sp.NUM_BANDS,
            fmin=20,
            fmax=11025,
            power=2.0,
            pad_mode="reflect",
        )
        return np.log(np.swapaxes(mel, -1, -2) + FLOOR) - np.log(FLOOR)

    return log_mel(waves) if together else np.stack([log_mel(wave) for wave in waves])
