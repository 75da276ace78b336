"""The list of released weights."""

from __future__ import annotations

import pytest
import torch

from watchword.errors import InputError
from watchword.xclip import RELEASED, XCLIP_SIZES, XClip, XClipConfig, find

RELEASED_BY_THE_AUTHORS = [row for row in RELEASED.values() if not row.bundled]


def test_the_eighteen_checkpoints_and_the_bundled_one() -> None:
    assert len(RELEASED_BY_THE_AUTHORS) == 18
    assert [row.name for row in RELEASED.values() if row.bundled] == ["playground"]
    assert len({row.huggingface_id for row in RELEASED_BY_THE_AUTHORS}) == len({row.official_file for row in RELEASED_BY_THE_AUTHORS}) == 18


@pytest.mark.parametrize("row", RELEASED_BY_THE_AUTHORS, ids=lambda row: row.name)
def test_each_row_says_everything(row: object) -> None:
    assert all(value != "" for value in vars(row).values())


@pytest.mark.parametrize("row", RELEASED_BY_THE_AUTHORS, ids=lambda row: row.name)
def test_the_number_of_parameters_is_that_of_the_model(row) -> None:  # type: ignore[no-untyped-def]
    with torch.device("meta"):
        model = XClip(XClipConfig.named(row.architecture, num_frames=row.num_frames))
    assert sum(parameter.numel() for parameter in model.parameters()) == row.num_parameters
    assert row.image_size == XCLIP_SIZES[row.architecture].image_size


@pytest.mark.parametrize("name", ["xclip_base_patch32.k400_8f", "microsoft/xclip-base-patch32", "k400_32_8.pth", "k400_32_8"])
def test_a_row_is_found_by_each_of_its_names(name: str) -> None:
    assert find(name).name == "xclip_base_patch32.k400_8f"


@pytest.mark.parametrize(
    ("repository", "file", "num_frames", "reported"),
    [
        ("microsoft/xclip-base-patch32-16-frames", "k400_32_16.pth", 16, "81.1"),
        ("microsoft/xclip-base-patch16", "k400_16_8.pth", 8, "83.8"),
        ("microsoft/xclip-base-patch16-16-frames", "k400_16_16.pth", 16, "84.7"),
        ("microsoft/xclip-large-patch14", "k400_14_8.pth", 8, "87.1"),
        ("microsoft/xclip-large-patch14-16-frames", "k400_14_16_336.pth", 16, "87.7"),
        ("microsoft/xclip-base-patch16-kinetics-600", "k600_16_8.pth", 8, "85.3"),
        ("microsoft/xclip-base-patch16-kinetics-600-16-frames", "k600_16_16.pth", 16, "85.8"),
        ("microsoft/xclip-large-patch14-kinetics-600", "k600_14_8.pth", 8, "88.3"),
        ("microsoft/xclip-base-patch16-hmdb-2-shot", "few_hmdb_2.pth", 32, "53.0"),
        ("microsoft/xclip-base-patch16-ucf-16-shot", "few_ucf_16.pth", 32, "91.4"),
        ("microsoft/xclip-base-patch16-zero-shot", "zero.pth", 32, "44.6"),
    ],
)
def test_rows(repository: str, file: str, num_frames: int, reported: str) -> None:
    row = find(repository)
    assert (row.official_file, row.num_frames) == (file, num_frames) and f" {reported}" in row.reported
    assert "2208.02816" in row.reported


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"xclip_base_patch32\.k400_8f"):
        find("xclip_base_patch32.k400")
