"""What is said over a film: each scene's phrase, words around it, and talk that fills the time between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from watchword.playground.chatter import CLOSERS, OPENERS, OPENERS_AFTER, OPENERS_BEFORE, chatter
from watchword.playground.films import Film
from watchword.playground.scene import Scene
from watchword.playground.setting import generator
from watchword.playground.speech import Floats, Word, caption_words, pronounce

_STREAM: Final = 11
_CAPTION_STREAM: Final = 12

_BARE: Final = 1 / 16
_SHIFT_SECONDS: Final = (0.2, 1.2)
_BREATH_SECONDS: Final = 0.12
_MARGIN_SECONDS: Final = 0.05
_WORDS_A_SECOND: Final = (0.8, 2.8)
"""What is aimed at between phrases."""

Moment = Literal["during", "before", "after"]


@dataclass(frozen=True)
class Narration:
    """words: all that is said, in order, with true times.  phrases: which of the words are the phrase of each scene."""

    words: tuple[Word, ...]
    phrases: tuple[range, ...]

    def phrase_seconds(self, scene: int) -> tuple[float, float]:
        """When the phrase of a scene begins and ends."""
        rows = self.phrases[scene]
        return self.words[rows[0]].start_seconds, self.words[rows[-1]].end_seconds


def film_words(film: Film) -> list[Word]:
    """The words said over a film, with true times in whole ms; see `narrate`."""
    return list(narrate(film).words)


def film_captions(film: Film) -> list[Word]:
    """The words said over a film as automatic captions time them; see `caption_words`."""
    return caption_words(film_words(film), generator(film.seed, _CAPTION_STREAM))


def narrate(film: Film) -> Narration:
    """What is said over a film; the same film gives the same words.

    Each phrase is said whole while its scene is on, but for about `Film.off_time` of them (a little less, where two would want the same
    time), which begin up to 1.2 s before it or end as long after it. Some scenes have their phrase alone. Words never overlap.
    """
    rng = generator(film.seed, _STREAM)
    bare = rng.random(len(film.scenes)) < _BARE
    moments = _moments(film, rng, bare)
    said: list[_Utterance] = []
    free = 0.0
    for number, scene in enumerate(film.scenes):
        moment = moments[number]
        follows_late = number > 0 and moments[number - 1] == "after"
        utterance = _around(scene, rng, moment, bare=bool(bare[number]) or follows_late)
        taken = _SHIFT_SECONDS[1] if "before" in moments[number + 1 : number + 2] else 0.0
        said.append(_placed(utterance, moment, (film.edges[number], film.edges[number + 1]), free, taken, rng))
        free = said[-1].end
    return _in_order(said, [talk for gap in _gaps(film, said, bare) for talk in _filled(*gap, rng)])


@dataclass(frozen=True, eq=False)
class _Utterance:
    """Words said in one breath. ends, lengths: of each, in seconds. phrase: which of the words are a phrase."""

    texts: Sequence[str]
    ends: Floats
    lengths: Floats
    phrase: range = range(0)

    @cached_property
    def start(self) -> float:
        return float(self.ends[0] - self.lengths[0])

    @property
    def end(self) -> float:
        return float(self.ends[-1])

    @property
    def phrase_start(self) -> float:
        return float(self.ends[self.phrase[0]] - self.lengths[self.phrase[0]])

    @property
    def phrase_end(self) -> float:
        return float(self.ends[self.phrase[-1]])

    def moved(self, seconds: float) -> _Utterance:
        return replace(self, ends=self.ends + seconds)

    def alone(self) -> _Utterance:
        """The phrase without the words around it."""
        rows = slice(self.phrase.start, self.phrase.stop)
        return _Utterance(self.texts[rows], self.ends[rows], self.lengths[rows], range(len(self.phrase)))

    def words(self) -> list[Word]:
        spoken = zip(self.texts, (self.ends - self.lengths).tolist(), self.ends.tolist(), strict=True)
        return [Word(text, round(start, 3), round(end, 3)) for text, start, end in spoken]


def _utterance(texts: Sequence[str], rng: np.random.Generator, phrase: range = range(0)) -> _Utterance:
    lengths, pauses = pronounce(texts, rng)
    return _Utterance(texts, np.cumsum(lengths + pauses), lengths, phrase)


def _moments(film: Film, rng: np.random.Generator, bare: np.ndarray) -> list[Moment]:
    """When each phrase is said; no late one is followed by an early one, which would want the same time."""
    moments: list[Moment] = []
    last = len(film.scenes) - 1
    for number in range(len(film.scenes)):
        off, early = rng.random() < film.off_time, rng.random() < 0.5
        can_be_early = number > 0 and moments[-1] == "during"
        can_be_late = number < last
        if not off or bare[number] or not (can_be_early or can_be_late):
            moments.append("during")
        else:
            moments.append("before" if can_be_early and (early or not can_be_late) else "after")
    return moments


def _around(scene: Scene, rng: np.random.Generator, moment: Moment, *, bare: bool) -> _Utterance:
    """The phrase of a scene with words before and after it."""
    openers, closers = {"during": (OPENERS, CLOSERS), "before": (OPENERS_BEFORE, ("",)), "after": (OPENERS_AFTER, ("",))}[moment]
    opener, closer = (choices[rng.integers(len(choices))].split() for choices in (openers, closers))
    told = scene.phrase.split()
    phrase = range(len(opener), len(opener) + len(told))
    utterance = _utterance([*opener, *told, *closer], rng, phrase)
    return utterance.alone() if bare else utterance


def _placed(
    utterance: _Utterance, moment: Moment, scene: tuple[float, float], free: float, taken: float, rng: np.random.Generator
) -> _Utterance:
    """The utterance where it is said.  free: when the last one was over.  taken: seconds before the scene's end that the next one wants."""
    start, end = scene
    shift = rng.uniform(*_SHIFT_SECONDS)
    if moment == "after":
        return utterance.moved(end + shift - utterance.phrase_end)
    earliest = free + _BREATH_SECONDS - utterance.start
    if moment == "before" and start - _SHIFT_SECONDS[0] >= earliest + utterance.phrase_start:
        return utterance.moved(max(start - shift - utterance.phrase_start, earliest))
    latest = end - _MARGIN_SECONDS - utterance.end
    earliest = max(earliest, start + _MARGIN_SECONDS - utterance.phrase_start)
    if earliest > latest and len(utterance.phrase) < len(utterance.texts):
        return _placed(utterance.alone(), "during", scene, free, taken, rng)
    if latest - taken > earliest:
        latest -= taken
    return utterance.moved(rng.uniform(earliest, max(earliest, latest)))


def _gaps(film: Film, said: Sequence[_Utterance], bare: np.ndarray) -> list[tuple[float, float]]:
    """(start, end) in seconds of the times between the phrases, but for those of scenes without talk."""
    starts = [0.0, *(max(one.end, film.edges[number + 1] if bare[number] else 0.0) for number, one in enumerate(said))]
    ends = [*(min(one.start, film.edges[number] if bare[number] else np.inf) for number, one in enumerate(said)), film.seconds]
    return list(zip(starts, ends, strict=True))


def _filled(start: float, end: float, rng: np.random.Generator) -> list[_Utterance]:
    """Sentences that have nothing to do with what is seen, as many as aimed at and as fit, with pauses between them."""
    wanted = rng.uniform(*_WORDS_A_SECOND) * (end - start)
    room = end - start - _BREATH_SECONDS
    talk: list[_Utterance] = []
    for _ in range(round(wanted)):
        sentence = _utterance(chatter(rng), rng)
        if sum(len(one.texts) for one in talk) >= wanted:
            break
        if sentence.end + _BREATH_SECONDS <= room:
            talk.append(sentence)
            room -= sentence.end + _BREATH_SECONDS
    if not talk:
        return []
    slack = room * rng.dirichlet(np.ones(len(talk) + 1))
    found = []
    for sentence, pause in zip(talk, slack.tolist(), strict=False):
        found.append(sentence.moved(start + pause + _BREATH_SECONDS))
        start = found[-1].end
    return found


def _in_order(said: Sequence[_Utterance], talk: Sequence[_Utterance]) -> Narration:
    words: list[Word] = []
    phrases: dict[int, range] = {}
    for number, utterance in sorted([*enumerate(said), *((-1, one) for one in talk)], key=lambda one: one[1].start):
        phrases[number] = range(len(words) + utterance.phrase.start, len(words) + utterance.phrase.stop)
        words += utterance.words()
    return Narration(tuple(words), tuple(phrases[number] for number in range(len(said))))
