"""The playground protocol: MP4 clips of combinations that training never showed, tagged with all phrases of the world that can be seen.

A clip counts as right only if shape, colour and action are all right. Clips are written as files and go the way of any user's video,
through decoding, sampling and ``Tagger``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import processes
from ..datasets.splits import Protocol
from ..playground import PHRASES, SEEN_ACTIONS, Action, parse_phrase, write_folder
from ..playground.world import Split
from ..training.parallel import in_turn
from ..weights.states import hash_state
from ..xclip.model import XClip
from ..xclip.tagging import Tagger

__all__ = ["PlaygroundResult", "evaluate"]


@dataclass(frozen=True)
class PlaygroundResult:
    """Percentages over ``num_clips`` clips.

    Attributes:
        top1: the whole phrase is right, among all ``num_phrases``.
        shape, colour, action: the best phrase has the right one.
        top1_by_action: the whole phrase, over the clips of each action.
        action_by_action: the action alone, over the clips of each action.
        guesses: (truth, best phrase) of every clip, in order.
        settings: with what it was measured: protocol, weights, views, hashes.
    """

    num_clips: int
    num_phrases: int
    top1: float
    shape: float
    colour: float
    action: float
    top1_by_action: dict[str, float]
    action_by_action: dict[str, float]
    guesses: tuple[tuple[str, str], ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the guesses."""
        return {**self.settings, **{name: value for name, value in vars(self).items() if name not in ("guesses", "settings")}}


def evaluate(model: XClip, folder: str | Path, *, num_clips: int = 464, seed: int = 1000, split: Split = "unseen") -> PlaygroundResult:
    """Tag ``num_clips`` clips of a split, written to ``folder`` (those already there are taken), all combinations equally often."""
    with in_turn():
        truth = write_folder(folder, num_clips, seed=seed, split=split)
    paths = [Path(folder) / clip["path"] for clip in truth]
    own = processes.share(len(paths))
    told = [tags[0].label for tags in Tagger(model).tag(paths[own.start : own.stop], PHRASES, top=1)] if own else []
    best = [label for part in processes.gather(told) for label in part]
    videos = [(path, clip["label"]) for path, clip in zip(paths, truth, strict=True)]
    protocol = Protocol.of(f"playground/{split}, seed {seed}", PHRASES, videos, subset=True)
    settings = {"weights": model.config.weights, "weights_sha256": hash_state(model.state_dict()), "views": "1x1", **protocol.as_dict()}
    return _measure([(clip["label"], guess) for clip, guess in zip(truth, best, strict=True)], settings)


def _measure(guesses: list[tuple[str, str]], settings: dict[str, Any] | None = None) -> PlaygroundResult:
    pairs = [(parse_phrase(true), parse_phrase(guess)) for true, guess in guesses]
    by_action: dict[Action, list[tuple[bool, bool]]] = defaultdict(list)
    for true, guess in pairs:
        by_action[true[2]].append((true == guess, true[2] == guess[2]))

    def percent(hits: list[bool]) -> float:
        return 100 * sum(hits) / len(hits)

    present = [action for action in SEEN_ACTIONS if action in by_action]
    return PlaygroundResult(
        num_clips=len(pairs),
        num_phrases=len(PHRASES),
        top1=percent([true == guess for true, guess in pairs]),
        shape=percent([true[0] == guess[0] for true, guess in pairs]),
        colour=percent([true[1] == guess[1] for true, guess in pairs]),
        action=percent([true[2] == guess[2] for true, guess in pairs]),
        top1_by_action={action.name: percent([whole for whole, _ in by_action[action]]) for action in present},
        action_by_action={action.name: percent([right for _, right in by_action[action]]) for action in present},
        guesses=tuple(guesses),
        settings=settings or {},
    )
