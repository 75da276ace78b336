"""A recipe's videos come from any annotation list, split and draw."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from watchword.datasets.label_lists import load_labels
from watchword.training.schema import VideosData


def test_a_split_of_split_files_with_shots(tmp_path: Path) -> None:
    for name in ("brush_hair", "wave"):
        lines = [f"{name} {n}.avi {1 if n < 6 else 2} \n" for n in range(9)]
        (tmp_path / f"{name}_test_split1.txt").write_text("".join(lines))
    data = VideosData(
        kind="videos", annotations=tmp_path, held_out=tmp_path, root=Path("videos"), classes="hmdb51-raw", split=1, shots=2, seed=3
    )
    (train, held_out), class_names = data.lists()
    assert class_names == load_labels("hmdb51-raw").labels
    assert [label for _, label in train] == ["brush hair"] * 2 + ["wave"] * 2
    assert [path.as_posix() for path, _ in held_out[:3]] == [f"videos/brush_hair/brush_hair {n}.avi" for n in (6, 7, 8)]
    assert not {path for path, _ in train} & {path for path, _ in held_out}
    (all_of_them, _), _ = data.model_copy(update={"shots": None}).lists()
    assert len(all_of_them) == 12 and set(train) < set(all_of_them)


def test_without_a_class_list_the_classes_are_the_training_list_s(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("path,label\na.mp4,yoga\nb.mp4,archery\n")
    (tmp_path / "val.csv").write_text("path,label\nc.mp4,yoga\n")
    data = VideosData(kind="videos", annotations=tmp_path / "train.csv", held_out=tmp_path / "val.csv")
    lists, class_names = data.lists()
    assert class_names == ("archery", "yoga")
    assert lists == [[(tmp_path / "a.mp4", "yoga"), (tmp_path / "b.mp4", "archery")], [(tmp_path / "c.mp4", "yoga")]]
    with pytest.raises(ValidationError, match="split"):
        VideosData.model_validate({"kind": "videos", "annotations": "a", "held_out": "b", "split": 4})
