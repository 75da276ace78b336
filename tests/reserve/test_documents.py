"""Text files become stretches of token ids, cleaned, in order, the same each time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from watchword.errors import InputError
from watchword.reserve.documents import find_texts, open_stretches, read_documents, write_stretches
from watchword.text.reserve import END, START, default_tokenizer


def test_text_files_of_a_folder_and_of_those_in_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z.txt", "b/a.JSONL", "c.md", "b/x.txt"):
        (tmp_path / name).write_text("x")
    assert [path.relative_to(tmp_path).as_posix() for path in find_texts(tmp_path)] == ["b/a.JSONL", "b/x.txt", "z.txt"]
    assert find_texts(tmp_path / "c.md") == [tmp_path / "c.md"]
    for nothing in (tmp_path / "none", tmp_path / "b" / "c"):
        with pytest.raises(InputError, match="no text in"):
            find_texts(nothing)


def test_documents_of_both_kinds(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo \xff")
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "é", "more": 1}) + "\n\n" + json.dumps({"text": ""}) + "\n")
    assert list(read_documents(tmp_path / "a.txt")) == ["one\ntwo �"]
    assert list(read_documents(tmp_path / "b.jsonl")) == ["é", ""]


@pytest.mark.parametrize("line", ["{", "[1]", '"text"', '{"txt": "a"}', '{"text": 3}', "[" * 100_000])
def test_lines_without_a_text_are_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"b\.jsonl', line 2"):
        list(read_documents(tmp_path / "b.jsonl"))


def test_stretches_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"There are 7 cats & {i} dogs."}) + "\n" for i in range(40)))
    found = write_stretches([tmp_path / "a.jsonl"], tmp_path / "out", 3, length=50, seed=0)
    stretches = open_stretches(tmp_path / "out", 50)
    assert found == 3 and stretches.shape == (3, 50) and stretches.dtype == np.int32
    text = default_tokenizer().decode(stretches.reshape(-1).tolist())
    assert stretches[0, 0] == START and END in stretches[0].tolist()
    assert "there are seven cats and" in text and "there are 7 cats and" in text and "&" not in text
    for name, seed in (("again", 0), ("other", 1)):
        write_stretches([tmp_path / "a.jsonl"], tmp_path / name, 3, length=50, seed=seed)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out").read_bytes() != (tmp_path / "other").read_bytes()
    assert write_stretches([tmp_path / "a.jsonl"], tmp_path / "all", 10**6, length=50, seed=0) < 20
    (tmp_path / "none.txt").write_text("")
    assert write_stretches([tmp_path / "none.txt"], tmp_path / "none", 5, length=50, seed=0) == 0
    assert open_stretches(tmp_path / "none", 50).shape == (0, 50)
