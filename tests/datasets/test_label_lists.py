from __future__ import annotations

import os
from pathlib import Path
from threading import Thread

import pytest

from watchword.datasets.label_lists import LABEL_LISTS, load_labels, named_labels, readable, same_name
from watchword.errors import LabelError


@pytest.mark.parametrize(("name", "size"), list(zip(LABEL_LISTS, (400, 600, 51, 101, 576), strict=True)))
def test_shipped_lists(name: str, size: int) -> None:
    labels = named_labels(name).labels
    assert len({label.lower() for label in labels}) == size
    assert all(label == " ".join(label.split()) for label in labels)


def test_both_forms_of_ucf101_and_which_one_it_is() -> None:
    words, raw = load_labels("ucf101"), load_labels("ucf101-raw")
    assert words.labels[0] == "apply eye makeup" and raw.labels[0] == "ApplyEyeMakeup"
    assert words.source != raw.source
    assert load_labels("hmdb51").labels[26] == "pull up" and load_labels("hmdb51-raw").labels[26] == "pullup"
    assert load_labels("kinetics600-raw") == load_labels("kinetics600") and "situp" in load_labels("kinetics600").labels


@pytest.mark.parametrize("name", LABEL_LISTS)
def test_no_two_classes_are_taken_for_the_same(name: str) -> None:
    words, raw = load_labels(name).labels, load_labels(f"{name}-raw").labels
    assert [same_name(label) for label in words] == [same_name(label) for label in raw]
    assert len({same_name(label) for label in raw}) == len(raw)
    assert all(same_name(label.replace(" ", "_")) == same_name(label) for label in raw)
    assert same_name("Handstand pushups") == same_name("HandstandPushups")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("TaiChi", "tai chi"),
        ("YoYo", "yo yo"),
        ("brush_hair", "brush hair"),
        ("using TV remote", "using TV remote"),
        ("HandstandPushups", "handstand push ups"),
        ("pullup", "pull up"),
        ("Shotput", "shot put"),
    ],
)
def test_readable(raw: str, words: str) -> None:
    assert readable(raw) == words


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('id,name\n0,"walking, then running"\n1,C# lesson\n')
    assert load_labels(str(path)).labels == ("walking, then running", "C# lesson")
    path.write_text("# comment\r\n  walking, then running  \r\n\r\nC# lesson\r\n", encoding="utf-8-sig", newline="")
    assert load_labels(str(path)).labels == ("walking, then running", "C# lesson")


def test_words_between_commas() -> None:
    assert load_labels("a dog , a cat").labels == ("a dog", "a cat")
    assert load_labels("kinetics 400").labels == ("kinetics 400",)
    assert len(load_labels(", ".join(f"label {n}" for n in range(2000))).labels) == 2000


def test_what_looks_like_a_path_is_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for given in ("no/such", "nofile.txt", "nofile.json", "two, words.csv", "folder/"):
        with pytest.raises(LabelError):
            load_labels(given)
    with pytest.raises(LabelError, match="is a folder"):
        load_labels("folder")
    assert load_labels("running/jogging, dancing").labels == ("running/jogging", "dancing")
    assert load_labels("a folder").labels == ("a folder",)


def test_a_pipe_is_read_as_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=("a dog\na cat\n",))  # waits for the reader
    writer.start()
    assert load_labels(str(pipe)).labels == ("a dog", "a cat")
    writer.join()


def test_json_files(tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text('["walking, then running", "a cat"]')
    assert load_labels(str(path)).labels == ("walking, then running", "a cat")
    for content in ('{"0": "a cat"}', "[1]", "[]", "a cat"):
        path.write_text(content)
        with pytest.raises(LabelError, match=r"labels\.json"):
            load_labels(str(path))


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe\x00bad", b"id,name\n0\n"])
def test_files_without_labels(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(content)
    with pytest.raises(LabelError, match=r"labels\.txt"):
        load_labels(str(path))
    with pytest.raises(LabelError, match="no file of labels"):
        load_labels(str(tmp_path / "missing.txt"))
