"""Annotation lists as the data sets and the official code write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.datasets.annotations import read_annotations, write_annotations
from watchword.errors import ConfigError

HOSTILE = ["a b.mp4", 'it\'s "q".mp4', "-dash.mp4", "é 日本.mp4", "semi;colon&.mp4", "$(touch pwned).mp4", "%05d.mp4", "c:d.mp4", "x" * 200]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def names(videos: list[tuple[Path, str]], root: Path) -> list[tuple[str, str]]:
    return [(path.relative_to(root).as_posix(), label) for path, label in videos]


def test_the_official_list_with_spaces_in_paths(tmp_path: Path) -> None:
    text = "".join(f"some folder/{name} {number}\n" for number, name in enumerate(HOSTILE)) + "\r\n tabs.mp4\t50\r\n"
    source = write(tmp_path / "val.txt", "\ufeff" + text)
    videos = names(read_annotations(source, classes="hmdb51"), tmp_path)
    assert [path for path, _ in videos] == [*(f"some folder/{name}" for name in HOSTILE), " tabs.mp4"]
    assert [videos[0][1], videos[-1][1]] == ["brush hair", "wave"]
    assert read_annotations(source, root=tmp_path / "elsewhere", classes="hmdb51")[0][0] == tmp_path / "elsewhere/some folder" / HOSTILE[0]
    (tmp_path / "labels.csv").write_text("id,name\n" + "".join(f"{n},class {n}\n" for n in range(51)))
    assert read_annotations(source, classes=tmp_path / "labels.csv")[-1][1] == "class 50"


def test_numbers_need_a_class_list_that_is_long_enough(tmp_path: Path) -> None:
    source = write(tmp_path / "val.txt", "a.mp4 0\nb.mp4 220\n")
    with pytest.raises(ConfigError, match="its labels are numbers"):
        read_annotations(source)
    with pytest.raises(
        ConfigError, match=r"label '220' of 'b.mp4' is not among the 220 classes of the list given; label numbers count from 0"
    ):
        read_annotations(source, classes=[f"class {n}" for n in range(220)])
    assert len(read_annotations(source, classes=[f"class {n}" for n in range(221)])) == 2


def test_the_json_form_of_the_official_list(tmp_path: Path) -> None:
    rows = [{"filename": "a b.mp4", "label": [1]}, {"filename": "c.mp4", "label": 0}]
    source = write(tmp_path / "val.json", json.dumps(rows))
    assert names(read_annotations(source, classes=["x", "y"]), tmp_path) == [("a b.mp4", "y"), ("c.mp4", "x")]


def test_kinetics_finds_files_in_any_layout(tmp_path: Path) -> None:
    header = "label,youtube_id,time_start,time_end,split,is_cc\n"
    rows = ["air drumming,-abc_1,12,22,train,0", '"yoga",xyz,0,10,train,0', "abseiling,gone,3,13,train,0", "abseiling,plain,3,13,train,0"]
    source = write(tmp_path / "train.csv", header + "\n".join(rows) + "\n")
    root = tmp_path / "videos"
    for there in ("-abc_1_000012_000022.mp4", "train/yoga/xyz_000000_000010.webm", "abseiling/plain.mkv", "xyz_000000_000010.txt"):
        write(root / there, "")
    assert names(read_annotations(source, root=root), root) == [
        ("-abc_1_000012_000022.mp4", "air drumming"),
        ("train/yoga/xyz_000000_000010.webm", "yoga"),
        ("abseiling/gone_000003_000013.mp4", "abseiling"),
        ("abseiling/plain.mkv", "abseiling"),
    ]


def test_the_splits_of_ucf101(tmp_path: Path) -> None:
    folder = tmp_path / "ucfTrainTestlist"
    write(folder / "trainlist01.txt", "HandstandPushups/v_HandStandPushups_g01_c01.avi 37\r\nYoYo/v_YoYo_g08_c01.avi 101\r\n")
    write(folder / "testlist01.txt", "YoYo/v_YoYo_g01_c01.avi\n")
    write(folder / "testlist02.txt", "YoYo/v_YoYo_g02_c01.avi\n")
    train = read_annotations(folder, split=1, part="train", root=tmp_path)
    assert names(train, tmp_path) == [
        ("HandstandPushups/v_HandStandPushups_g01_c01.avi", "HandstandPushups"),
        ("YoYo/v_YoYo_g08_c01.avi", "YoYo"),
    ]
    assert train == read_annotations(folder / "trainlist01.txt", root=tmp_path)
    assert [label for _, label in read_annotations(folder, split=1, part="train", classes="ucf101")] == ["handstand push ups", "yo yo"]
    assert read_annotations(folder, split=2, part="test")[0][0].name == "v_YoYo_g02_c01.avi"


def test_the_splits_of_hmdb51(tmp_path: Path) -> None:
    for split, marks in ((1, "120"), (2, "012"), (3, "201")):
        lines = "".join(f"clip_{n}.avi {mark} \n" for n, mark in enumerate(marks))
        write(tmp_path / f"brush_hair_test_split{split}.txt", lines)
        write(tmp_path / f"pullup_test_split{split}.txt", f"up.avi {2 if split == 1 else 1} \n")
    test = read_annotations(tmp_path, split=1, part="test", root=tmp_path / "videos", classes="hmdb51")
    assert names(test, tmp_path / "videos") == [("brush_hair/clip_1.avi", "brush hair"), ("pullup/up.avi", "pull up")]
    assert [(path.name, label) for path, label in read_annotations(tmp_path, split=3, part="train")] == [
        ("clip_2.avi", "brush_hair"),
        ("up.avi", "pullup"),
    ]
    with pytest.raises(ConfigError, match="choose a split"):
        read_annotations(tmp_path)


def test_a_folder_of_class_folders(tmp_path: Path) -> None:
    for there in (
        "tai_chi/2.mp4",
        "tai_chi/deep/1.MOV",
        "yoga/a.webm",
        "yoga/a.srt",
        "yoga/a.wav",
        "readme.mp4",
        ".git/x.mp4",
        "empty/notes.txt",
    ):
        write(tmp_path / there, "")
    (tmp_path / "yoga" / "gone.mp4").symlink_to("nowhere")
    assert names(read_annotations(tmp_path), tmp_path) == [
        ("tai_chi/2.mp4", "tai_chi"),
        ("tai_chi/deep/1.MOV", "tai_chi"),
        ("yoga/a.webm", "yoga"),
        ("yoga/gone.mp4", "yoga"),
    ]
    assert read_annotations(tmp_path, classes=["Tai chi", "yoga"])[0][1] == "Tai chi"
    with pytest.raises(ConfigError, match=r"label 'yoga' of 'a.webm' is not among the 1 classes"):
        read_annotations(tmp_path, classes=["tai chi"])


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.csv", "path,label\na.mp4,\n", "line 2"),
        ("a.csv", "path,label\n", "no videos"),
        ("a.csv", "id,name\n0,yoga\n", "there is no `path`"),
        ("a.csv", "label,youtube_id,time_start,time_end\nx,y,soon,later\n", "line 2.*seconds"),
        ("a.csv", "youtube_id,time_start,time_end\ny,1,2\n", "there is no `path`"),
        ("a.txt", "a.mp4 0\nb.mp4\n", "line 2"),
        ("a.txt", "", "no videos"),
        ("trainlist01.txt", "v_x.avi 1\n", "line 1"),
        ("a.json", "{", "not JSON"),
        ("a.json", '[{"filename": "x.mp4", "label": [1, 2]}]', "entry 1"),
        ("a.json", "[7]", "entry 1"),
        ("folder/run_test_split1.txt", "x.avi 3\n", "line 1"),
        ("folder/readme.txt", "", "no split files|no videos in folders"),
        ("a.csv", "path,label\n" + "x" * 200_000 + ",y\n", "after line 1.*field"),
    ],
)
def test_what_cannot_be_understood_is_named(tmp_path: Path, name: str, text: str, named: str) -> None:
    source = write(tmp_path / name, text)
    folder: dict[str, Any] = {"split": 1, "part": "train"} if source.parent != tmp_path else {}
    with pytest.raises(ConfigError, match=named):
        read_annotations(source.parent if folder else source, classes=["x", "y"], **folder)


def test_what_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such annotation list"):
        read_annotations(tmp_path / "none.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_annotations(tmp_path / "bytes.csv")
    with pytest.raises(ConfigError, match="no videos in folders"):
        read_annotations(tmp_path)
    with pytest.raises(ConfigError, match="not a folder"):
        read_annotations(tmp_path / "bytes.csv", split=1, part="test")


_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1).filter(
    lambda s: s.strip() and s not in (".", "..")
)
_LABELS = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    .map(str.strip)
    .filter(lambda s: s and not s.isdigit())
)


@settings(deadline=None, max_examples=20)  # each is flushed to the disk
@given(st.lists(st.tuples(_NAMES, _LABELS), min_size=1))
def test_a_written_list_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    folder = tmp_path_factory.mktemp("list")
    videos = [(folder / name, label) for name, label in rows]
    write_annotations(folder / "list.csv", videos)
    assert read_annotations(folder / "list.csv") == videos


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(_NAMES.filter(lambda s: s == s.strip() and len(s.splitlines()) == 1 and "\n" not in s), st.integers(0, 9)), min_size=1
    )
)
def test_an_official_list_is_read_as_written(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]]) -> None:
    source = write(tmp_path_factory.mktemp("list") / "list.txt", "".join(f"{name} {number}\n" for name, number in rows))
    classes = [f"class {n}" for n in range(10)]
    assert read_annotations(source, classes=classes) == [(source.parent / name, classes[number]) for name, number in rows]
