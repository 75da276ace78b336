"""Evaluation counts every video once, the same for any batch size and number of processes, and knows its class list."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tiny_clips import tiny_model, write_video
from watchword.errors import ConfigError, InputError, LabelError
from watchword.media import VideoReader
from watchword.tasks.classification import evaluate
from watchword.tasks.results import ClassificationResult, VideoResult, spread
from watchword.xclip import load_clip, to_tensor
from watchword.xclip.inputs import three_crops
from watchword.xclip.labels import encode_labels
from watchword.xclip.sampling import evaluation_indices
from watchword.xclip.views import Views, read_views

NAMES = ("making coffee", "going backpacking", "playing chess", "brushing hair", "riding a bike", "doing nothing")
Videos = list[tuple[Path, str]]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Videos:
    """Seven readable videos of six classes, of several lengths and shapes, and one that is missing."""
    folder = tmp_path_factory.mktemp("videos")
    shapes = [(48, 64), (64, 48), (48, 96), (32, 32), (50, 70), (64, 64), (48, 64)]
    listed = [
        (write_video(folder / f"{number}.mp4", num_frames=3 + 5 * number, size=size), NAMES[number % 6])
        for number, size in enumerate(shapes)
    ]
    listed.insert(3, (folder / "missing.mp4", NAMES[0]))
    return listed


def same(one: ClassificationResult, other: ClassificationResult) -> bool:
    """Equal rows, probabilities to 1e-6."""
    pairs = list(zip(one.videos, other.videos, strict=True))
    rows_equal = all(replace(a, ranked=(), probability=0) == replace(b, ranked=(), probability=0) for a, b in pairs)
    shares = [np.array([(*video.ranked, (0, video.probability)) for video in result.read]) for result in (one, other)]
    return rows_equal and np.allclose(shares[0], shares[1], atol=1e-6)


@pytest.mark.parametrize("views", ["1x1", "4x3"])
def test_every_video_counts_once_for_any_batch_size(videos: Videos, views: str) -> None:
    model = tiny_model()
    with pytest.warns(UserWarning, match="never trained"):
        results = [evaluate(model, videos, NAMES, views=Views.parse(views), batch_size=size) for size in (2, 3, 2, 64)]
    assert all(same(results[0], other) for other in results[1:])
    assert results[0].settings == results[2].settings
    numbers = results[0].as_dict()
    assert (numbers["num_samples"], numbers["num_failed"]) == (7, 1)
    assert numbers["failed"][0]["path"].endswith("missing.mp4") and numbers["failed"][0]["reason"] == "missing_file"
    assert results[0].confusion.sum() == 7
    assert [Path(video.path).name for video in results[0].videos] == [path.name for path, _ in videos]


def _in_a_group(rank: int, videos: Videos, folder: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    result = evaluate(tiny_model(weights="tests"), videos, NAMES, views=Views(num_clips=2, num_crops=3), batch_size=3)
    torch.save([vars(video) for video in result.videos], folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_result_of_one(videos: Videos, tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_in_a_group, (videos, tmp_path), nprocs=2)
    alone = evaluate(tiny_model(weights="tests"), videos, NAMES, views=Views(num_clips=2, num_crops=3))
    for rank in range(2):
        rows = tuple(VideoResult(**values) for values in torch.load(tmp_path / f"{rank}.pt"))
        assert same(alone, replace(alone, videos=rows))


def test_one_view_is_what_tag_sees_and_the_probabilities_of_views_are_added(videos: Videos) -> None:
    model = tiny_model(weights="tests")
    path = videos[2][0]
    text = encode_labels(model, NAMES)

    def shares(clip: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return model.score(model.encode_video(clip), text).softmax(dim=-1).numpy()

    one = evaluate(model, [(path, NAMES[2])], NAMES, subset=True).videos[0]
    assert one.probability == pytest.approx(shares(load_clip(path, model.config)[None])[0, 2], abs=1e-6)
    with VideoReader(path) as reader:
        frames = reader.read(np.arange(reader.num_frames)).rgb
    clips = evaluation_indices(len(frames), 4, num_clips=4)
    crops = [np.stack([three_crops(frames[i], model.config.preprocessing) for i in clip]) for clip in clips]  # 4 of (T, 3, R, R, 3)
    views = np.concatenate([np.stack([crop[:, place] for crop in crops]) for place in range(3)])
    assert np.array_equal(read_views(path, model.config, Views.parse("4x3"))[0], views)
    many = evaluate(model, [(path, NAMES[2])], NAMES, views=Views.parse("4x3"), subset=True).videos[0]
    expected = shares(to_tensor(views, model.config.preprocessing)).mean(axis=0)
    assert many.ranked == tuple((int(i), pytest.approx(float(expected[i]), abs=1e-6)) for i in np.argsort(-expected)[:5])
    assert many.ranked != one.ranked


def test_random_clips_depend_on_the_seed_and_the_place_in_the_list_alone(videos: Videos) -> None:
    config = tiny_model().config
    path = videos[-1][0]

    def read(**changes: Any) -> np.ndarray:
        return read_views(path, config, Views(num_clips=4, random_seed=changes.pop("seed", 0)), **changes)[0]

    assert np.array_equal(read(), read())
    assert not np.array_equal(read(), read(seed=1)) and not np.array_equal(read(), read(number=1))
    assert not np.array_equal(read(), read_views(path, config, Views(num_clips=4))[0])


@pytest.mark.parametrize("text", ["4", "4x2", "0x1", "x", "4x3x1", "-1x1", "1x"])
def test_views_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        Views.parse(text)


def test_a_class_list_of_the_wrong_size_is_refused(videos: Videos) -> None:
    model = tiny_model(weights="tests")
    listed = [(Path(f"{number}.mp4"), f"class {number}") for number in range(221)]
    names = [label for _, label in listed]
    with pytest.raises(ConfigError, match="a class list of 220 for videos of 221 classes: 'class 220' is not in the list"):
        evaluate(model, listed, names[:220])
    with pytest.raises(ConfigError, match="a class list of 220 for videos of 160 classes"):
        evaluate(model, listed[:160], names[:220])
    with pytest.raises(LabelError, match="cannot be told apart"):
        evaluate(model, videos, [*NAMES, "Making  Coffee"])
    with pytest.raises(LabelError, match="at least 2"):
        evaluate(model, [(videos[0][0], "one")], ["one"])
    with pytest.raises(LabelError, match="name no classes"):
        evaluate(model, videos)
    with pytest.raises(InputError, match=r"none of the 1 videos.*missing"):
        evaluate(model, [videos[3]], NAMES, subset=True)
    with pytest.raises(InputError, match="no videos"):
        evaluate(model, [], NAMES)


def test_labels_may_be_spelled_otherwise(videos: Videos) -> None:
    raw = [(path, label.title().replace(" ", "")) for path, label in videos]
    results = [evaluate(tiny_model(weights="tests"), listed, NAMES) for listed in (videos, raw)]
    assert same(*results) and results[0].settings == results[1].settings


def rows(*pairs: tuple[int, int], num_classes: int = 6) -> ClassificationResult:
    """A result of (true class, place of the true class) pairs; the best class is the true one or the one after it."""
    videos = []
    for number, (label, place) in enumerate(pairs):
        best = label if place == 1 else (label + 1) % num_classes
        videos.append(VideoResult(path=f"{number}.mp4", label=label, ranked=((best, 0.5),), place=place, probability=0.1))
    videos.append(VideoResult(path="bad.mp4", label=0, reason="no_video", error="bad.mp4: no video"))
    return ClassificationResult(protocol="test", class_names=NAMES[:num_classes], videos=tuple(videos))


def test_accuracies_and_tables() -> None:
    result = rows((0, 1), (0, 2), (0, 6), (1, 1), (2, 5))
    assert (result.top1, result.top5) == (40, 80)
    assert result.mean_per_class == pytest.approx((100 / 3 + 100 + 0) / 3)
    assert result.confusion.tolist()[0] == [1, 2, 0, 0, 0, 0]
    assert vars(result.per_class[0]) == {
        "name": "making coffee", "num_videos": 3, "top1": pytest.approx(100 / 3), "taken_for": "going backpacking", "num_taken": 2,
    }  # fmt: skip
    assert result.per_class[5].top1 is None
    mostly_right = rows((0, 1), (0, 1), (0, 2)).per_class[0]
    assert (mostly_right.taken_for, mostly_right.num_taken) == ("going backpacking", 1)
    assert [video.path for video in result.wrong] == ["1.mp4", "2.mp4", "4.mp4"]
    assert rows((0, 1), num_classes=4).top5 is None
    assert result.as_dict()["num_classes_with_videos"] == 3


def test_the_csv_has_a_row_for_each_video(videos: Videos) -> None:
    result = evaluate(tiny_model(weights="tests"), videos, NAMES)
    table = list(csv.DictReader(io.StringIO(result.as_csv())))
    assert len(table) == len(videos)
    assert [row["label"] for row in table] == [label for _, label in videos]
    for row, video in zip(table, result.videos, strict=True):
        if video.error:
            assert row["reason"] == "missing_file" and "missing.mp4" in row["error"] and not row["guess"]
            continue
        shares = [float(row[f"probability_{place}"]) for place in range(1, 6)]
        assert shares == sorted(shares, reverse=True) and row["class_1"] == row["guess"]
        assert (row["right"] == "yes") == (row["guess"] == row["label"]) == (row["place"] == "1")


def test_the_same_data_elsewhere_has_the_same_hash(videos: Videos, tmp_path: Path) -> None:
    model = tiny_model(weights="tests")
    moved = []
    for path, label in videos:
        if path.exists():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        moved.append((tmp_path / path.name, label))
    one, other, changed = evaluate(model, videos, NAMES), evaluate(model, moved, NAMES), evaluate(model, moved[1:], NAMES, subset=True)
    assert one.settings == other.settings
    assert changed.settings["videos_sha256"] != one.settings["videos_sha256"]
    assert changed.settings["weights_sha256"] == one.settings["weights_sha256"]


def test_mean_and_deviation_over_splits() -> None:
    results = [rows((0, 1), (1, place)) for place in (1, 2, 6)]
    top1 = spread(results)["top1"]
    assert (top1.values, top1.mean) == ((100, 50, 50), pytest.approx(200 / 3))
    assert top1.deviation == pytest.approx(np.std([100, 50, 50], ddof=1))
    assert str(top1) == "66.7 ± 28.9" and str(spread(results[:1])["top1"]) == "100.0"
    assert "top5" not in spread([rows((0, 1), num_classes=4)])
    with pytest.raises(InputError, match="different numbers of classes"):
        spread([results[0], rows((0, 1), num_classes=4)])
    with pytest.raises(InputError, match="no results"):
        spread([])
