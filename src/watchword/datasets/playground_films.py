"""Films of the playground as MERLOT Reserve learns from videos: segments with a frame, a spectrogram and the words, rendered without files.

The numbers are those that the same film would give as an MP4, but for what the codecs change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from ..media.subtitles import Word
from ..playground import Film, film_captions, render_film_frames, render_film_sound
from ..reserve import spectrogram as sp
from ..reserve.segmentation import Section, sections
from ..reserve.segments import first_frame_from
from ..reserve.timing import TimingRegressor

__all__ = ["FilmSegment", "caption_track", "film_sections", "film_segments"]


@dataclass(frozen=True, eq=False)
class FilmSegment:
    """One segment to learn from.

    frame: uint8 (size, size, 3), the first frame at or after its middle.
    spectrogram: float32 (64, 188), log-mel of its sound played `speed` times faster, lowest band first, scaled by the film's peak.
    words: those whose middle lies in it.  starts, ends: of each, (words,), in seconds since its start, in the sped-up clock.
    start_time, end_time: of the segment in seconds of the film.  speed: 1 to 3.
    """

    frame: npt.NDArray[np.uint8]
    spectrogram: npt.NDArray[np.float32]
    words: tuple[str, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    start_time: float
    end_time: float
    speed: int


def film_segments(film: Film, *, frame_size: int, seed: int, timing: TimingRegressor | None = None) -> list[FilmSegment]:
    """All segments of a film, cut by its captions as for pretraining.

    frame_size: side of the square frames in pixels, at least 16.  seed: fixes where the cuts fall.  timing: corrects the captions' times.

    Raises InputError for a frame that is too small or a negative seed. Source: merlot-reserve-data spec sections 5 to 8.
    """
    words = caption_track(film, timing)
    cuts = film_sections(film, words, seed=seed)
    middles = first_frame_from(film.times, [cut.span.middle for cut in cuts])
    frames = render_film_frames(film, film.times[middles], size=frame_size)
    spectrograms = _spectrograms(film, cuts)
    found = []
    for cut, frame, spectrogram in zip(cuts, frames, spectrograms, strict=True):
        times = cut.relative(words)
        found.append(
            FilmSegment(
                frame=frame,
                spectrogram=spectrogram,
                words=tuple(words[row].text for row in cut.rows),
                starts=tuple(start for start, _ in times),
                ends=tuple(end for _, end in times),
                start_time=cut.span.start,
                end_time=cut.span.end,
                speed=cut.speed,
            )
        )
    return found


def caption_track(film: Film, timing: TimingRegressor | None = None) -> list[Word]:
    """The words of a film's captions as `media.read_subtitles` gives them, with corrected times if there is a `timing`."""
    words = [Word(word.text, word.start_seconds, word.end_seconds) for word in film_captions(film)]
    return words if timing is None else timing.correct(words)


def film_sections(film: Film, words: list[Word], *, seed: int) -> list[Section]:
    """Where `film_segments` cuts."""
    return sections(words, film.seconds, np.random.default_rng(seed).random)


def _spectrograms(film: Film, cuts: list[Section]) -> list[npt.NDArray[np.float32]]:
    wave = torch.from_numpy(sp.from_levels(sp.levels(render_film_sound(film, rate=sp.RATE))))
    found = []
    for cut in cuts:
        first = int(sp.RATE * cut.span.start)
        clip = wave[first : first + sp.SEGMENT_SAMPLES * cut.speed]
        found.append(np.ascontiguousarray(sp.log_mel(clip, cut.speed).numpy().T))
    return found
