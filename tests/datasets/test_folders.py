from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchword.datasets.folders import find_media


def test_what_is_found_and_in_which_order(tmp_path: Path) -> None:
    for name in ("b/2.MP4", "b/1.webm", "a.mov", "read.me", ".hidden.mp4", "b/.git/x.mp4", "with [brackets].mp4", "folder.mp4/in.mkv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    (tmp_path / "empty").mkdir()
    found = find_media([tmp_path])
    names = [str(path.relative_to(tmp_path)) for path in found.paths]
    assert names == ["a.mov", "b/1.webm", "b/2.MP4", "folder.mp4/in.mkv", "with [brackets].mp4"]
    assert found.num_left_out == 1
    assert find_media([tmp_path / "b" / "*.MP4"]).paths == [tmp_path / "b" / "2.MP4"]
    assert find_media([tmp_path / "with [brackets].mp4", tmp_path / "read.me"]).paths == [
        tmp_path / "with [brackets].mp4",
        tmp_path / "read.me",
    ]
    nothing = [tmp_path / "empty", tmp_path / "*.xyz", tmp_path / "missing"]
    assert find_media([*nothing, *nothing]).paths == nothing


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_listed_itself(tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        assert find_media([tmp_path]).paths == [tmp_path]
    finally:
        tmp_path.chmod(0o700)
