from __future__ import annotations

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
