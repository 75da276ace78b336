"""TVQA from the owners' files to accuracy and the leaderboard's file, on a stand-in from the playground."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils.data import default_collate

from tiny_reserve import tiny_reserve
from watchword.cli import main
from watchword.datasets.tvqa import TvqaFolder
from watchword.datasets.tvqa_examples import TvqaExamples, as_tensors
from watchword.errors import ConfigError, InputError
from watchword.playground.stand_ins.tvqa import KINDS, write_tvqa
from watchword.reserve import Reserve
from watchword.reserve.choices import for_choices
from watchword.reserve.sound_choices import PARTS, SoundChoiceProgram, score_versions
from watchword.tasks.task import EvaluationOptions
from watchword.tasks.tvqa import Tvqa
from watchword.training import OptimizerSettings
from watchword.training.optimizers import Optimizers

NUM_QUESTIONS = 6  # two clips of each split


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tvqa") / "data"
    write_tvqa(folder, NUM_QUESTIONS, num_scenes=2, scene_seconds=3, size=32)
    return folder


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(written, tmp_path / "data"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tvqa_model")
    finetuned = for_choices(tiny_reserve(), "tiny_tvqa", parts=PARTS)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        finetuned.proj.weight.data.normal_()  # type: ignore[union-attr]
    finetuned.save_pretrained(folder)
    yield str(folder)


def options(**changes: object) -> EvaluationOptions:
    return EvaluationOptions(device="cpu", **changes)  # type: ignore[arg-type]


def test_from_files_to_the_leaderboards_file(written: Path, model: str) -> None:
    shares: list[float] = []
    result = Tvqa().evaluate(written, model, options(on_progress=shares.append, settings={"batch_size": 4}))
    truth = [row for row in map(json.loads, (written / "truth.jsonl").read_text().splitlines()) if row["split"] == "val"]
    assert [row["id"] for row in result.rows] == [str(row["qid"]) for row in truth]
    assert [row["label"] for row in result.rows] == [row["label"] for row in truth]
    assert not result.failed and shares[-1] == 1 and shares == sorted(shares)
    for name, metric in (("both", "accuracy"), ("sound", "accuracy_sound"), ("subtitles", "accuracy_subtitles")):
        right = sum(row[name] == row["label"] for row in result.rows)
        assert result.metrics[metric] == pytest.approx(100 * right / NUM_QUESTIONS)
        export = result.exports["prediction_val.json" if name == "both" else f"{name}/prediction_val.json"]
        assert json.loads(export) == {row["id"]: row[name] for row in result.rows}
    assert result.baselines["random"] == {"accuracy": 20}
    labels = [row["label"] for row in truth]
    assert result.baselines["prior"]["accuracy"] == pytest.approx(100 * max(map(labels.count, labels)) / NUM_QUESTIONS)


def test_command_line(written: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", "tvqa", "--data", str(written), "--model", model, "--device", "cpu", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert "accuracy" in capsys.readouterr().out
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.json")}
    assert {"results.json", "prediction_val.json", "sound/prediction_val.json", "subtitles/prediction_val.json"} == files


def test_an_answer_that_only_some_questions_have_is_missed(data: Path, model: str) -> None:
    path = data / "tvqa_val.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    del rows[1]["answer_idx"]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ConfigError, match=f"question {rows[1]['qid']} has no answer_idx"):
        Tvqa().evaluate(data, model, options())


def test_both_is_the_mean_of_the_two_probabilities(written: Path, model: str) -> None:
    folder, weights = TvqaFolder(written), Reserve.from_pretrained(model)
    item = folder.items("val")[0]
    tensors = {name: values[None] for name, values in as_tensors(item, folder.read(item), grid=weights.config.grid).items()}
    with torch.no_grad():
        shares = score_versions(weights, tensors["images"], tensors["audio_clips"], tensors["sequences"]).softmax(dim=-1)[0]
    row = Tvqa().evaluate(written, model, options(limit=1)).rows[0]
    for name, expected in (("sound", shares[0]), ("subtitles", shares[1]), ("both", shares.mean(dim=0))):
        assert row[name] == int(expected.argmax()) and row[f"{name}_probability"] == pytest.approx(float(expected.max()), abs=1e-4)
    assert len({row[f"{name}_probability"] for name in ("sound", "subtitles", "both")}) == 3


def test_the_answers_do_not_depend_on_the_batch_and_one_version_is_enough(written: Path, model: str) -> None:
    whole = Tvqa().evaluate(written, model, options(settings={"batch_size": 6}))
    for use in ("sound", "subtitles"):
        alone = Tvqa().evaluate(written, model, options(use=use, limit=3, settings={"batch_size": 1}))
        assert list(alone.metrics) == ["accuracy"] and list(alone.exports) == ["prediction_val.json"] and len(alone.rows) == 3
        for row, other in zip(alone.rows, whole.rows, strict=False):
            assert row[use] == other[use] and row[f"{use}_probability"] == pytest.approx(other[f"{use}_probability"], abs=1e-4)


def test_the_test_part_has_answers_and_no_accuracy(written: Path, model: str) -> None:
    result = Tvqa().evaluate(written, model, options(settings={"split": "test"}))
    assert result.metrics == {} and result.baselines == {}
    assert set(json.loads(result.exports["prediction_test_public.json"]).values()) <= set(range(5))
    assert len(result.rows) == NUM_QUESTIONS and all(row["label"] == "" for row in result.rows)


def test_a_clip_without_sound_or_subtitles_is_answered_and_one_without_frames_is_wrong(data: Path, model: str) -> None:
    items = TvqaFolder(data).items("val")
    first, second = items[0].clip, items[-1].clip
    (data / "audio" / f"{first}.mp3").unlink()
    (data / "tvqa_subtitles" / f"{first}.srt").unlink()
    frames = TvqaFolder(data).frames_of(items[-1])
    assert frames is not None and first != second
    shutil.rmtree(frames)
    result = Tvqa().evaluate(data, model, options())
    for row in result.rows:
        if row["clip"] == first:
            assert "no sound" in row["notes"] and "no subtitles" in row["notes"] and row["both"] in range(5) and not row["error"]
        else:
            assert second in row["error"] and "frames_hq" in row["error"] and row["both"] == ""
    assert len(result.failed) == 3
    assert result.notes == tuple(f"3 of 6 questions are about clips without {what}" for what in ("sound", "subtitles"))
    assert set(json.loads(result.exports["prediction_val.json"])) == {str(item.qid) for item in items}
    rows = [json.loads(line) for line in (data / "tvqa_val.jsonl").read_text().splitlines()]
    answers = {row["id"]: row["both"] or 0 for row in result.rows}
    (data / "tvqa_val.jsonl").write_text("\n".join(json.dumps({**row, "answer_idx": answers[str(row["qid"])]}) for row in rows))
    assert Tvqa().evaluate(data, model, options()).metrics["accuracy"] == 50  # what is answered is right now, of half of the questions
    report = Tvqa().check(data, {})
    assert report.num_items == 3 * NUM_QUESTIONS and not report.missing
    assert report.problems == (f"clip {second}: no frames",)
    assert "1 of 6 clips have no subtitles" in report.notes and "1 of 6 clips have no sound" in report.notes


def test_what_cannot_be_read_is_an_items_own_error(data: Path, model: str) -> None:
    item = TvqaFolder(data).items("val")[0]
    (data / "audio" / f"{item.clip}.mp3").write_bytes(b"no sound at all")
    result = Tvqa().evaluate(data, model, options())
    assert [bool(row["error"]) for row in result.rows] == [row["clip"] == item.clip for row in result.rows]
    assert f"{item.clip}.mp3" in result.failed[0]["error"]
    with pytest.raises(InputError, match=r"none of the 2 questions.*\.mp3"):
        Tvqa().evaluate(data, model, options(limit=2))
    frames = TvqaFolder(data).frames_of(item)
    assert frames is not None
    for path in frames.iterdir():
        path.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"0000\d\.jpg"):
        TvqaFolder(data).read(item)


def test_missing_files_are_named_with_their_owners(data: Path, model: str) -> None:
    shutil.rmtree(data / "frames_hq")
    (data / "tvqa_test_public.jsonl").unlink()
    report = Tvqa().check(data, {"split": "test"})
    assert [needed.path for needed in report.missing] == ["tvqa_test_public.jsonl", "frames_hq/*_frames/*/00001.jpg"]
    assert all("tvqa.cs.unc.edu" in needed.where for needed in report.missing) and "form" in report.missing[1].terms
    for split in ("val", "test"):
        with pytest.raises(ConfigError, match=r"tvqa\.cs\.unc\.edu"):
            Tvqa().evaluate(data, model, options(settings={"split": split}))


def test_wrong_settings_and_weights_are_refused(written: Path, model: str, tmp_path: Path) -> None:
    for settings, message in (
        ({"speed": 1}, "split, grid, batch_size"),
        ({"split": "dev"}, "train, val, test"),
        ({"grid": "18"}, "18x32"),
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": "many"}, "whole number"),
    ):
        with pytest.raises(ConfigError, match=message):
            Tvqa().evaluate(written, model, options(settings=settings))
    with pytest.raises(ConfigError, match="not from frames"):
        Tvqa().evaluate(written, model, options(use="frames"))
    tiny_reserve().save_pretrained(tmp_path)
    with pytest.raises(InputError, match="finetuned on TVQA"):
        Tvqa().evaluate(written, str(tmp_path), options())


def test_the_stand_in_is_the_same_each_time_and_goes_on_where_it_was(data: Path, tmp_path: Path) -> None:
    before = {path.relative_to(data): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    gone = TvqaFolder(data).items("train")[0].clip
    (data / "audio" / f"{gone}.mp3").unlink()
    truth = write_tvqa(data, NUM_QUESTIONS, num_scenes=2, scene_seconds=3, size=32)
    assert {path.relative_to(data): path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
    assert {row["kind"] for row in truth} == set(KINDS) and len({row["qid"] for row in truth}) == 3 * NUM_QUESTIONS
    with pytest.raises(InputError, match="other settings"):
        write_tvqa(data, NUM_QUESTIONS, num_scenes=2, scene_seconds=3, size=32, seed=1)
    with pytest.raises(InputError, match="no data set"):
        write_tvqa(tmp_path / "none", 0)


def test_it_learns_what_only_sound_or_subtitles_tell(tmp_path: Path) -> None:
    """Twelve questions of one scene each are learned by heart; by chance 2 or 3 of them were right."""
    write_tvqa(tmp_path, {"train": 12}, kinds=("sound", "subtitles"), num_scenes=1, scene_seconds=2, size=32)
    folder = TvqaFolder(tmp_path)
    examples = TvqaExamples(folder, folder.items("train"), grid=(2, 4), training=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # the new head is drawn
        model = for_choices(tiny_reserve(), "tiny_tvqa", parts=PARTS)
    program = SoundChoiceProgram(model, examples, held_out=examples)
    settings = OptimizerSettings(learning_rate=3e-3)
    optimizer = Optimizers(program.parameter_groups(settings), settings)
    batch = default_collate([examples[0, index] for index in range(len(examples))])
    for _ in range(80):
        loss, shares = program.loss(batch)
        loss.backward()
        assert all(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"])
        optimizer.step()
        optimizer.zero_grad()
    assert set(shares) == {"sound_top1", "subtitles_top1"}
    with torch.no_grad():
        found = program.evaluate()
    assert found["num_held_out"] == 12 and found["held_out_top1"] >= 60
