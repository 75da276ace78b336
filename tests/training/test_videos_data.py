"""A recipe's videos come from any annotation list, split and draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from tiny_clips import tiny_model, write_video
from watchword.datasets.annotations import read_annotations, write_annotations
from watchword.datasets.label_lists import load_labels
from watchword.datasets.splits import unseen_draw
from watchword.errors import ConfigError
from watchword.tasks.classification import evaluate
from watchword.tasks.protocols import ListedVideos
from watchword.training import load_recipe, run
from watchword.training.schema import EvaluationData, VideosData
from watchword.xclip import XClip


def test_a_split_of_split_files_with_shots(tmp_path: Path) -> None:
    for name in ("brush_hair", "wave"):
        lines = [f"{name} {n}.avi {1 if n < 6 else 2} \n" for n in range(9)]
        (tmp_path / f"{name}_test_split1.txt").write_text("".join(lines))
    data = VideosData(
        kind="videos", annotations=tmp_path, held_out=tmp_path, root=Path("videos"), classes="hmdb51-raw", split=1, shots=2, seed=3
    )
    train_list, held_out_list = data.lists()
    train, held_out = train_list.videos, held_out_list.videos
    assert train_list.class_names == load_labels("hmdb51-raw").labels and held_out_list.protocol == "hmdb51-raw/split1/test"
    assert [label for _, label in train] == ["brush hair"] * 2 + ["wave"] * 2
    assert [path.as_posix() for path, _ in held_out[:3]] == [f"videos/brush_hair/brush_hair {n}.avi" for n in (6, 7, 8)]
    assert not {path for path, _ in train} & {path for path, _ in held_out}
    all_of_them = data.model_copy(update={"shots": None}).lists()[0].videos
    assert len(all_of_them) == 12 and set(train) < set(all_of_them)


def test_without_a_class_list_the_classes_are_the_training_list_s(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("path,label\na.mp4,yoga\nb.mp4,archery\n")
    (tmp_path / "val.csv").write_text("path,label\nc.mp4,yoga\n")
    data = VideosData(kind="videos", annotations=tmp_path / "train.csv", held_out=tmp_path / "val.csv")
    lists = data.lists()
    assert lists[0].class_names == lists[1].class_names == ("archery", "yoga") and lists[1].protocol == "val.csv"
    assert [one.videos for one in lists] == [
        [(tmp_path / "a.mp4", "yoga"), (tmp_path / "b.mp4", "archery")],
        [(tmp_path / "c.mp4", "yoga")],
    ]
    with pytest.raises(ValidationError, match="split"):
        VideosData.model_validate({"kind": "videos", "annotations": "a", "held_out": "b", "split": 4})


def kinetics600(folder: Path) -> Path:
    """A list with two videos of each class of Kinetics-600."""
    lines = [f"{number}-{copy}.mp4 {number}\n" for number in range(600) for copy in range(2)]
    (folder / "k600.txt").write_text("".join(lines))
    return folder / "k600.txt"


def test_a_draw_of_a_protocol_is_trained_on(tmp_path: Path) -> None:
    source = kinetics600(tmp_path)
    values = {"kind": "videos", "annotations": source, "held_out": source, "protocol": "kinetics600_zero_shot", "draw": 2}
    train, held_out = VideosData.model_validate(values).lists()
    assert train.class_names == held_out.class_names == unseen_draw(2) and len(train.videos) == len(held_out.videos) == 320
    assert {label for _, label in train.videos} == set(train.class_names)
    with pytest.raises(ConfigError, match=r"choose data\.split or data\.draw"):
        VideosData.model_validate({**values, "draw": None}).lists()
    with pytest.raises(ValidationError, match="protocol"):
        VideosData.model_validate({**values, "protocol": "kinetics"})
    with pytest.raises(ConfigError, match="only a protocol has draws"):
        VideosData.model_validate({**values, "protocol": None}).lists()


def test_an_evaluation_has_all_draws_and_their_classes(tmp_path: Path) -> None:
    values = {"annotations": kinetics600(tmp_path), "protocol": "kinetics600_zero_shot"}
    draws = EvaluationData.model_validate(values).lists()
    assert [draw.class_names for draw in draws] == [unseen_draw(number) for number in (1, 2, 3)]
    (own,) = EvaluationData(annotations=values["annotations"], classes="kinetics600").lists()
    assert own.protocol == "kinetics600" and len(own.class_names) == 600


def test_zero_shot_is_evaluated_beside_training(tmp_path: Path) -> None:
    """By the names of the evaluation's own classes, as ``tag`` would tell them apart, the same in training and after it."""
    videos = [write_video(tmp_path / f"{number}.mp4", num_frames=6 + number) for number in range(4)]
    lists = {
        "train.csv": [(videos[0], "yoga"), (videos[1], "archery")],
        "other.csv": [(videos[number], name) for number, name in enumerate(("juggling", "sledding", "surfing", "juggling"))],
    }
    for name, listed in lists.items():
        write_annotations(tmp_path / name, listed)
    recipe = {
        "program": "supervised",
        "name": "tiny",
        "model": tiny_model().config.as_dict() | {"class_names": (), "weights": "tests"},
        "data": {"kind": "videos", "annotations": str(tmp_path / "train.csv"), "held_out": str(tmp_path / "train.csv")},
        "evaluations": {"other": {"annotations": str(tmp_path / "other.csv")}},
        "training": {"num_steps": 2, "batch_size": 2, "optimizer": {"learning_rate": 0.001}},
        "trained": "all",
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    results = run(load_recipe(path), tmp_path / "run", progress=False)
    after = evaluate(XClip.from_pretrained(tmp_path / "run" / "model"), lists["other.csv"], ["juggling", "sledding", "surfing"])
    assert results["num_other"] == 4 and results["other_top1"] == pytest.approx(after.top1)
    assert results["num_held_out"] == 2 and "other_top1_deviation" not in results

    written = json.loads((tmp_path / "run" / "results.json").read_text())
    own = ListedVideos(**vars(load_recipe(path).data.lists()[1]), source="", subset=False)  # type: ignore[union-attr]
    held_out = own.evaluate(XClip.from_pretrained(tmp_path / "run" / "model"))
    assert written["held_out_top1"] == pytest.approx(held_out.top1) and written["step"] == 2
    for name in (
        "protocol",
        "num_classes",
        "views",
        "weights",
        *(f"{what}_sha256" for what in ("weights", "classes", "videos", "annotations")),
    ):
        assert written[name] == held_out.as_dict()[name] is not None
    (other,) = written["evaluations"]["other"]
    assert other["num_classes"] == 3 and other["classes_sha256"] == after.settings["classes_sha256"]

    written = json.loads((tmp_path / "run" / "recipe.json").read_text())
    (tmp_path / "run" / "recipe.json").write_text(json.dumps({name: value for name, value in written.items() if name != "templates"}))
    assert run(load_recipe(path), tmp_path / "run", progress=False) == results  # a run from before there was such a key goes on
    with pytest.raises(ConfigError, match="another recipe"):
        run(load_recipe(path, {"evaluations": {}}), tmp_path / "run", progress=False)
    for change, said in (({"head": "linear"}, "cannot"), ({"evaluations": {"seen": {"annotations": "x"}}}, "cannot be called 'seen'")):
        with pytest.raises(ConfigError, match=said):
            load_recipe(path, change)


def test_the_drawn_videos_are_written_for_others_to_use(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    for name, first in (("tai_chi", 0), ("yoga", 3)):
        (videos / name).mkdir(parents=True)
        for number in range(first, first + 3):
            write_video(videos / name / f"{number}, new.mp4", num_frames=5 + number)
    data = {"kind": "videos", "annotations": str(videos), "held_out": str(videos), "shots": 2, "seed": 5}
    recipe = {
        "program": "supervised",
        "name": "tiny",
        "model": tiny_model().config.as_dict() | {"class_names": (), "weights": "tests"},
        "data": data,
        "training": {"num_steps": 1, "batch_size": 2, "optimizer": {"learning_rate": 0.001}},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    run(load_recipe(path), tmp_path / "run", progress=False)
    drawn = VideosData.model_validate(data).lists()[0].videos
    elsewhere = read_annotations(tmp_path / "run" / "shots.csv", root="other disk")
    assert elsewhere == [(Path("other disk") / video.relative_to(videos), label) for video, label in drawn] and len(drawn) == 4
    again = VideosData(kind="videos", annotations=tmp_path / "run" / "shots.csv", held_out=videos, root=videos).lists()[0]
    assert again.videos == drawn
    run(load_recipe(path, {"data.shots": None}), tmp_path / "all", progress=False)
    assert not (tmp_path / "all" / "shots.csv").exists()
