"""The playground protocol of fill: films that training never showed, asked at each scene what it shows, with all phrases as options.

Films are written as MP4 files and go the way of any user's video, through decoding, segments and ``Filler``. Their captions, which tell
the answer, are not read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import processes
from ..datasets.splits import Protocol
from ..playground import HEARD_PHRASES, PHRASES, Action, parse_phrase, write_films
from ..playground.world import Split
from ..reserve import Reserve
from ..reserve.answers import Question, Use
from ..reserve.filling import Filler
from ..reserve.segmentation import SEGMENT_SECONDS
from ..training.parallel import in_turn
from ..weights.states import hash_state

__all__ = ["FilmsResult", "evaluate"]

OPTIONS = (*PHRASES, *HEARD_PHRASES)
QUESTION = "<mask>"
FRAME_SIZE = 128


@dataclass(frozen=True)
class FilmsResult:
    """Percentages over ``num_questions`` scenes.

    Attributes:
        use: what beside the frames the answers rest on, see ``Filler.run``.
        top1, top5: the whole phrase is right, among all ``num_options``.
        shape, colour, action: the best phrase has the right one.
        action_heard_only: the action, over the scenes that only their sound can tell.
        action_by_action: over the scenes of each action.
        guesses: (truth, best phrase) of every scene, in order.
        settings: with what it was measured: protocol, weights, hashes.
    """

    use: Use
    num_questions: int
    num_options: int
    top1: float
    top5: float
    shape: float
    colour: float
    action: float
    action_heard_only: float
    action_by_action: dict[str, float]
    guesses: tuple[tuple[str, str], ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the guesses."""
        return {**self.settings, **{name: value for name, value in vars(self).items() if name not in ("guesses", "settings")}}


def evaluate(
    model: Reserve, folder: str | Path, *, use: Use = "sound", num_films: int = 12, seed: int = 1000, split: Split = "unseen"
) -> FilmsResult:
    """Ask about every scene of ``num_films`` films of a split, written to ``folder`` (those already there are taken).

    A question stands on the segment of five seconds that holds the middle of its scene's action.
    """
    with in_turn():
        truth = write_films(folder, num_films, seed=seed, split=split, size=FRAME_SIZE)
    filler = Filler(model)
    own = processes.share(len(truth))
    jobs = [(Path(folder) / film["path"], [_question(scene) for scene in _asked(film)]) for film in truth[own.start : own.stop]]
    found = []
    for result in filler.run(jobs, use=use, subtitles=False):
        if result.failure:
            raise result.failure.error
        found.append([answer.option for answer in result.blanks(top=5)[0]])
    best = [answers for part in processes.gather(found) for answers in part]
    true = [scene["label"] for film in truth for scene in _asked(film)]
    videos = [(Path(folder) / film["path"], scene["label"]) for film in truth for scene in _asked(film)]
    protocol = Protocol.of(f"playground films/{split}, seed {seed}", OPTIONS, videos, subset=True)
    settings = {"weights": model.config.weights, "weights_sha256": hash_state(model.state_dict()), **protocol.as_dict()}
    return _measure(use, list(zip(true, best, strict=True)), settings)


def _asked(film: dict[str, Any]) -> list[dict[str, Any]]:
    """The scenes whose action is in the middle of a whole segment: what is behind the last whole one is left out."""
    end = film["duration_seconds"] // SEGMENT_SECONDS * SEGMENT_SECONDS
    return [scene for scene in film["scenes"] if sum(scene["action_seconds"]) / 2 < end]


def _question(scene: dict[str, Any]) -> Question:
    return Question(text=QUESTION, options=OPTIONS, at=sum(scene["action_seconds"]) / 2)


def _measure(use: Use, answers: Sequence[tuple[str, list[str]]], settings: dict[str, Any]) -> FilmsResult:
    pairs = [(parse_phrase(true), parse_phrase(best[0])) for true, best in answers]
    by_action: dict[Action, list[bool]] = defaultdict(list)
    for true, guess in pairs:
        by_action[true[2]].append(true[2] == guess[2])
    heard = [right for action, rights in by_action.items() if action.heard_only for right in rights]
    return FilmsResult(
        use=use,
        num_questions=len(pairs),
        num_options=len(OPTIONS),
        top1=_percent([true == guess for true, guess in pairs]),
        top5=_percent([true in best for true, best in answers]),
        shape=_percent([true[0] == guess[0] for true, guess in pairs]),
        colour=_percent([true[1] == guess[1] for true, guess in pairs]),
        action=_percent([true[2] == guess[2] for true, guess in pairs]),
        action_heard_only=_percent(heard),
        action_by_action={action.name: _percent(rights) for action, rights in by_action.items()},
        guesses=tuple((true, best[0]) for true, best in answers),
        settings=settings,
    )


def _percent(hits: Sequence[bool]) -> float:
    return 100 * sum(hits) / len(hits) if hits else float("nan")
