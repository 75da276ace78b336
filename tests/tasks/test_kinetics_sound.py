"""Kinetics-600 with and without sound, on the playground's clips whose classes only sound tells."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from clips_with_sound import sine, write_clip
from tiny_reserve import tiny_reserve
from watchword.datasets.annotations import class_list, write_annotations
from watchword.datasets.videos_with_sound import SOUND_CLASSES, write_sound_classes
from watchword.errors import ConfigError, InputError
from watchword.reserve import Reserve
from watchword.reserve.class_scores import ClassProgram, class_scores, for_classes
from watchword.reserve.labelled_clips import read_clips
from watchword.tasks.kinetics_sound import CONFUSION, KineticsSound
from watchword.tasks.task import EvaluationOptions, TaskResult

NUM_VIDEOS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six videos in four classes, a class list, and weights of all kinds."""
    folder = tmp_path_factory.mktemp("kinetics")
    videos = write_sound_classes(NUM_VIDEOS, size=32, seed=0, cache_folder=folder)
    write_annotations(folder / "val.csv", videos, root=folder)
    (folder / "classes.txt").write_text("\n".join(SOUND_CLASSES))
    model = tiny_reserve()
    model.save_pretrained(folder / "pretrained")
    for name, sound in (("sound", True), ("silent", False)):
        made = for_classes(model, SOUND_CLASSES, name, sound=sound)
        ClassProgram(made, [], held_out=[]).save(folder / name, made.state_dict())
    return folder


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"classes": str(folder / "classes.txt"), **more}


def evaluate(folder: Path, model: str, *, more: dict[str, Any] | None = None, **options: Any) -> TaskResult:
    chosen = EvaluationOptions(device="cpu", settings=settings(folder, **more or {}), **options)
    return KineticsSound().evaluate(folder, str(folder / model), chosen)


def test_finetuned_weights_answer_with_their_classes(folder: Path) -> None:
    heard: list[float] = []
    result = evaluate(folder, "sound", on_progress=heard.append)
    assert [row["label"] for row in result.rows] == [*SOUND_CLASSES, *SOUND_CLASSES[:2]]
    assert all(row["id"].endswith(f"0000{number}.mp4") and not row["error"] for number, row in enumerate(result.rows))
    for row in result.rows:
        shares = {row[f"class_{place}"]: row[f"probability_{place}"] for place in range(1, 5)}
        assert sum(shares.values()) == pytest.approx(1) and set(shares) == set(SOUND_CLASSES)
        assert row["guess"] == row["class_1"] == max(shares, key=lambda name: shares[name])
        assert row["probability"] == shares[row["label"]] and row[f"class_{row['place']}"] == row["label"]
    right = [row["guess"] == row["label"] for row in result.rows]
    assert result.metrics["top1"] == pytest.approx(100 * sum(right) / NUM_VIDEOS)
    assert "top5" not in result.metrics  # of four classes it would say nothing
    assert heard == pytest.approx([(number + 1) / NUM_VIDEOS for number in range(NUM_VIDEOS)])
    assert result.settings["classes_from"] == "finetuning" and result.settings["sound"] is True
    rows = list(csv.reader(io.StringIO(result.exports[CONFUSION].decode())))
    assert rows[0][1:] == list(SOUND_CLASSES) and sum(int(cell) for row in rows[1:] for cell in row[1:]) == NUM_VIDEOS


def test_pretrained_weights_answer_as_before_training(folder: Path) -> None:
    zero_shot, finetuned = evaluate(folder, "pretrained"), evaluate(folder, "sound")
    assert zero_shot.settings["classes_from"] == "class names, zero-shot"
    for row, other in zip(zero_shot.rows, finetuned.rows, strict=True):
        assert row["guess"] == other["guess"] and row["probability"] == pytest.approx(other["probability"], abs=1e-5)


def test_sound_is_used_where_it_is_wanted_and_can_be(folder: Path) -> None:
    with_sound, frames, silent = evaluate(folder, "sound"), evaluate(folder, "sound", use="frames"), evaluate(folder, "silent")
    probabilities = [[row["probability"] for row in result.rows] for result in (with_sound, frames, silent)]
    assert probabilities[0] != pytest.approx(probabilities[1], abs=1e-4)
    assert probabilities[1] == pytest.approx(probabilities[2], abs=1e-6)
    assert "frames alone" in silent.task and "frames and sound" in with_sound.task
    with pytest.raises(InputError, match="no audio_encoder"):
        evaluate(folder, "silent", use="sound")
    with pytest.raises(ConfigError, match="no subtitles"):
        evaluate(folder, "sound", use="both")


def test_a_video_that_cannot_be_read_counts_as_wrong(folder: Path) -> None:
    text = (folder / "val.csv").read_text().rstrip()
    (folder / "more.csv").write_text(f"{text}\r\nlost.mp4,rings\r\n")
    more = {"annotations": "more.csv"}
    result, whole = evaluate(folder, "sound", more=more), evaluate(folder, "sound")
    assert [row["id"] for row in result.failed] == ["lost.mp4"] and "lost.mp4" in result.failed[0]["error"]
    assert result.metrics["top1"] == pytest.approx(whole.metrics["top1"] * NUM_VIDEOS / (NUM_VIDEOS + 1))
    of_rings = [row["guess"] == "rings" for row in result.rows if row["label"] == "rings"]
    others = [sum(row["guess"] == name for row in result.rows if row["label"] == name) for name in SOUND_CLASSES[1:]]
    counts = [sum(row["label"] == name for row in result.rows) for name in SOUND_CLASSES[1:]]
    shares = [sum(of_rings) / 3, *(hits / count for hits, count in zip(others, counts, strict=True))]
    assert result.metrics["mean_per_class"] == pytest.approx(100 * sum(shares) / 4)
    report = KineticsSound().check(folder, settings(folder, **more))
    assert report.num_items == NUM_VIDEOS + 1 and len(report.problems) == 1 and "lost.mp4 is not there" in report.problems[0]
    (folder / "lost.csv").write_text("path,label\nlost.mp4,rings\n")
    with pytest.raises(InputError, match="none of the 1 videos can be read"):
        evaluate(folder, "sound", more={"annotations": "lost.csv"})


def test_baselines_and_limit(folder: Path) -> None:
    result = evaluate(folder, "sound", limit=5)
    assert len(result.rows) == 5
    assert result.baselines["random"] == {"top1": 25, "mean_per_class": 25}
    assert result.baselines["prior"] == {"top1": 40, "mean_per_class": 25}  # two of five ring


def test_several_clips_are_averaged(tmp_path: Path, folder: Path) -> None:
    path = write_clip(tmp_path / "long.mkv", seconds=25, sounds={0: sine(300, 9), 16: sine(2000, 9)})
    (tmp_path / "val.csv").write_text(f"path,label\n{path.name},rings\n")
    found = {}
    for clips in (1, 2):
        options = EvaluationOptions(device="cpu", settings=settings(folder, clips=clips))
        (found[clips],) = KineticsSound().evaluate(tmp_path, str(folder / "sound"), options).rows
    model = Reserve.from_pretrained(folder / "sound")
    with torch.no_grad():
        shares = [
            class_scores(model, {name: tensor[None] for name, tensor in clip._asdict().items()}).softmax(dim=1)[0, 0]
            for clip in read_clips(path, model.config.grid, sound=True, num_clips=2)
        ]
    assert found[2]["probability"] == pytest.approx(float(sum(shares) / 2), abs=1e-5)
    assert abs(float(shares[0] - shares[1])) > 1e-4 and found[1]["probability"] != found[2]["probability"]


def test_the_protocol_is_kinetics_600_unless_told_otherwise(tmp_path: Path, folder: Path) -> None:
    names, _ = class_list("kinetics600")
    videos = write_sound_classes(NUM_VIDEOS, size=32, seed=0, cache_folder=folder)
    (tmp_path / "val.txt").write_text("".join(f"{path} {100 * number}\n" for number, (path, _) in enumerate(videos[:2])))
    options = EvaluationOptions(device="cpu")
    result = KineticsSound().evaluate(tmp_path, str(folder / "pretrained"), options)
    assert [row["label"] for row in result.rows] == [names[0], names[100]]
    assert list(result.metrics) == ["top1", "top5", "mean_per_class"]
    assert result.baselines["random"] == pytest.approx({"top1": 1 / 6, "top5": 5 / 6, "mean_per_class": 1 / 6})
    assert KineticsSound().check(tmp_path, {}).notes == ("kinetics600: 2 of 600 classes are shown",)
    with pytest.raises(ConfigError, match="tell 4 classes apart"):
        KineticsSound().evaluate(tmp_path, str(folder / "sound"), options)


def test_what_is_missing_or_unknown_is_told(tmp_path: Path, folder: Path) -> None:
    (missing,) = KineticsSound().check(tmp_path, {}).missing
    assert missing.path == "val*.*"
    with pytest.raises(ConfigError, match=r"no val\*\.\* \(the validation list"):
        KineticsSound().evaluate(tmp_path, str(folder / "sound"), EvaluationOptions(device="cpu"))
    with pytest.raises(ConfigError, match=r"'views' cannot be used.*clips, annotations, classes"):
        KineticsSound().check(folder, {"views": 4})
    with pytest.raises(ConfigError, match="no-such-list"):
        evaluate(folder, "sound", more={"annotations": "no-such-list.csv"})
