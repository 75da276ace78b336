"""The papers' protocols by name: their videos, their candidates, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchword.datasets.annotations import hash_annotations
from watchword.datasets.label_lists import load_labels
from watchword.datasets.protocols import protocol_videos
from watchword.datasets.splits import unseen_classes, unseen_draw
from watchword.errors import ConfigError


@pytest.fixture
def kinetics600(tmp_path: Path) -> Path:
    """A list of the official code with a video of each class of Kinetics-600."""
    names = load_labels("kinetics600").labels
    (tmp_path / "val.txt").write_text("".join(f"{number}.mp4 {number}\n" for number in range(len(names))))
    return tmp_path / "val.txt"


@pytest.fixture
def hmdb51(tmp_path: Path) -> Path:
    """Split files of HMDB-51 in which split n tests clip n of each class and trains on the others."""
    for name in load_labels("hmdb51-raw").labels:
        for split in (1, 2, 3):
            lines = (f"{name} {clip}.avi {2 if clip == split else 1} \n" for clip in range(4))
            (tmp_path / f"{name.replace(' ', '_')}_test_split{split}.txt").write_text("".join(lines))
    return tmp_path


def test_each_draw_has_its_160_classes_and_their_videos_alone(kinetics600: Path) -> None:
    draws = protocol_videos("kinetics600_zero_shot", kinetics600)
    assert [draw.protocol for draw in draws] == [f"kinetics600_zero_shot/draw{number}" for number in (1, 2, 3)]
    names = load_labels("kinetics600").labels
    for number, draw in enumerate(draws, start=1):
        assert draw.class_names == unseen_draw(number)
        assert {label for _, label in draw.videos} == set(draw.class_names) and len(draw.videos) == 160
        assert all(names[int(path.stem)] == label for path, label in draw.videos)
    assert protocol_videos("kinetics600_zero_shot", kinetics600, draw=2) == draws[1:2]


def test_the_220_unseen_classes_may_be_listed_alone(tmp_path: Path) -> None:
    rows = [f'{number}.mp4,"{name}"' for number, name in enumerate(unseen_classes())]
    (tmp_path / "val.csv").write_text("\n".join(["path,label", *rows, ""]))
    assert [len(draw.videos) for draw in protocol_videos("kinetics600_zero_shot", tmp_path / "val.csv")] == [160] * 3
    (tmp_path / "seen.csv").write_text("path,label\n1.mp4,archery\n")
    with pytest.raises(ConfigError, match="none of the 1 videos is of the 160 classes"):
        protocol_videos("kinetics600_zero_shot", tmp_path / "seen.csv")


def test_each_split_has_its_part(hmdb51: Path) -> None:
    splits = protocol_videos("hmdb51", hmdb51, root="videos")
    assert [split.protocol for split in splits] == [f"hmdb51/split{number}/test" for number in (1, 2, 3)]
    for number, split in enumerate(splits, start=1):
        assert len(split.videos) == len(split.class_names) == 51
        assert {path.stem.split()[-1] for path, _ in split.videos} == {str(number)}
    (second,) = protocol_videos("hmdb51-raw", hmdb51, split=2, part="train")
    assert (second.protocol, len(second.videos)) == ("hmdb51-raw/split2/train", 51 * 3)
    assert set(second.class_names) == {label for _, label in second.videos} and "pullup" in second.class_names
    assert "pull up" in splits[0].class_names


def test_what_is_not_the_protocol_is_refused(kinetics600: Path, hmdb51: Path, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\n".join(f"class {number}" for number in range(600)))
    for arguments, changes, said in (
        (("hmdb51", hmdb51), {"classes": "ucf101"}, "hmdb51 has 51 classes, but the class list 'ucf101' has 101"),
        (("kinetics600", kinetics600), {"classes": "kinetics400"}, "has 600 classes, but the class list 'kinetics400' has 400"),
        (("kinetics600_zero_shot", kinetics600), {"classes": "kinetics400"}, "has 600 classes"),
        (("kinetics600_zero_shot", kinetics600), {"classes": str(tmp_path / "names.txt")}, "lacks 'acting in play'"),
        (("kinetics600_zero_shot", kinetics600), {"split": 1}, "has no splits"),
        (("hmdb51", hmdb51), {"draw": 1}, "has no draws"),
        (("kinetics400", kinetics600), {}, "not among the 400 classes"),
        (("hmdb", hmdb51), {}, "no protocol is called 'hmdb'"),
    ):
        with pytest.raises(ConfigError, match=said):
            protocol_videos(*arguments, **changes)  # type: ignore[arg-type]


def test_the_hash_of_a_list_is_of_its_bytes(hmdb51: Path, kinetics600: Path, tmp_path: Path) -> None:
    hashes = [hash_annotations(hmdb51, split=number, part="test") for number in (1, 2, 3)]
    assert len(set(hashes)) == 3 and hashes[0] == hash_annotations(hmdb51, split=1, part="test")
    before = hash_annotations(kinetics600)
    kinetics600.write_text(kinetics600.read_text() + "\n")
    assert hash_annotations(kinetics600) != before
    (tmp_path / "folders" / "archery").mkdir(parents=True)
    assert hash_annotations(tmp_path / "folders") is None
