"""Small videos in which somebody talks: a picture, sound, and words timed one by one beside them as YouTube writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clips_with_sound import RATE, write_clip
from watchword.media.subtitles import Word

VOCABULARY = (
    "the", "cat", "sat", "on", "a", "warm", "mat", "and", "looked", "out", "at", "birds",
    "in", "trees", "while", "rain", "fell", "softly", "over", "green", "hills", "today",
)  # fmt: skip


def words_of(seconds: float, *, each: float = 0.4, start: float = 0.2, seed: int = 0) -> list[Word]:
    draw = np.random.default_rng(seed)
    count = int((seconds - start) / each)
    texts = [VOCABULARY[number] for number in draw.integers(len(VOCABULARY), size=count)]
    return [Word(text, round(start + each * i, 3), round(start + each * (i + 0.8), 3)) for i, text in enumerate(texts)]


def clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"00:{int(minutes):02}:{rest:06.3f}"


def write_vtt(path: Path, words: list[Word], *, timed: bool = True) -> None:
    cues = ["WEBVTT\nKind: captions\nLanguage: en"]
    for low in range(0, len(words), 5):
        line = words[low : low + 5]
        text = line[0].text + "".join(f"<{clock(word.start)}><c> {word.text}</c>" if timed else f" {word.text}" for word in line[1:])
        cues.append(f"{clock(line[0].start)} --> {clock(line[-1].end)} align:start position:0%\n \n{text}")
    path.write_text("\n\n".join(cues) + "\n", encoding="utf-8")


def write_talk(path: Path, *, seconds: float = 24, seed: int = 0, sound: bool = True, timed: bool = True, each: float = 0.4) -> list[Word]:
    """The words. The picture brightens with time (see `clips_with_sound.write_clip`), the sound changes its pitch every second."""
    times = np.arange(round(seconds * RATE)) / RATE
    wave = (0.3 * np.sin(2 * np.pi * (200 + 100 * seed + 50 * np.floor(times)) * times)).astype(np.float32)
    write_clip(path, seconds=seconds, sounds={0: wave} if sound else None, bars=6)
    words = words_of(seconds, each=each, seed=seed)
    write_vtt(path.with_suffix(".vtt"), words, timed=timed)
    return words


def write_talks(folder: Path, count: int, *, seconds: float = 24) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        write_talk(folder / f"talk{number}.mkv", seconds=seconds + number, seed=number)
    return folder
