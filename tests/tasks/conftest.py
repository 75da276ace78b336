"""Stand-ins of the zero-shot data sets, and a model that knows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiny_reserve import tiny_reserve
from watchword.playground.stand_ins.zero_shot import write_epic_kitchens, write_lsmdc, write_msrvtt_qa, write_star

WRITERS = {"star": (write_star, 8), "epic_kitchens": (write_epic_kitchens, 2), "lsmdc": (write_lsmdc, 4), "msrvtt_qa": (write_msrvtt_qa, 8)}


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stand-ins")
    for name, (write, count) in WRITERS.items():
        write(folder / name, count, size=32)
    return {name: folder / name for name in WRITERS}


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("weights")
    tiny_reserve().save_pretrained(folder / "reserve")
    return str(folder / "reserve")
