from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from watchword.files import replacing, write_text


def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    write_text(path, "one\n")
    with pytest.raises(RuntimeError), replacing(path) as beside:
        beside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "one\n"
    write_text(path, "two é\n")
    assert path.read_bytes() == "two é\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "through")
    assert os.read(reader, 100) == b"through" and pipe.is_fifo()
    os.close(reader)


def test_a_replaced_file_has_the_usual_permissions_whoever_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with replacing(tmp_path / "new") as beside:
        beside.unlink(missing_ok=True)
        beside.touch(mode=0o600)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_threads_may_replace_one_file_at_a_time_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: write_text(tmp_path / "file", str(number) * 10_000), range(200)))
    text = (tmp_path / "file").read_text()
    assert len(set(text)) <= 3 and len(text) % 10_000 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
