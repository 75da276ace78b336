"""VCR from the files as published to the leaderboard's file: readers, texts, pictures, evaluation, and that it is learned."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import default_collate

from tiny_reserve import tiny_reserve
from watchword.datasets.order import batches
from watchword.datasets.vcr import AT_RANDOM, VcrExamples, with_pictures
from watchword.datasets.vcr_files import VcrItems, VcrObjects
from watchword.datasets.vcr_pictures import marked_picture
from watchword.datasets.vcr_texts import Names, VcrTexts, sentence
from watchword.errors import ConfigError, InputError
from watchword.playground import COLOURS
from watchword.playground.stand_ins.vcr import write_vcr
from watchword.reserve.choices import ChoiceProgram, for_choices
from watchword.tasks.task import EvaluationOptions
from watchword.tasks.vcr import LEADERBOARD, Vcr
from watchword.text.reserve import MASK, default_tokenizer
from watchword.training import OptimizerSettings
from watchword.training.optimizers import Optimizers

GRID = (2, 4)
NUM_VAL = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("vcr")
    write_vcr(made, 24, num_val=NUM_VAL, num_test=3, seed=1, size=48)
    return made


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("weights")
    model = for_choices(tiny_reserve(), "vcr_tiny")
    torch.nn.init.normal_(model.proj.weight)  # type: ignore[union-attr]
    model.save_pretrained(made)
    return str(made)


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy to break."""
    return Path(shutil.copytree(folder, tmp_path / "vcr"))


def changed(own: Path, split: str, line: int, **values: Any) -> Path:
    path = own / f"{split}.jsonl"
    rows = path.read_text().splitlines()
    rows[line] = json.dumps(json.loads(rows[line]) | values)
    path.write_text("\n".join(rows))
    return path


# Reading


def test_a_stand_in_has_the_published_form_and_is_the_same_each_time(folder: Path, tmp_path: Path) -> None:
    write_vcr(tmp_path, 24, num_val=NUM_VAL, num_test=3, seed=1, size=48)
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert all((folder / name).read_bytes() == (tmp_path / name).read_bytes() for name in files)
    for split, count in (("train", 24), ("val", NUM_VAL), ("test", 3)):
        rows = [json.loads(line) for line in (folder / f"{split}.jsonl").read_text().splitlines()]
        assert len(rows) == count and len({row["annot_id"] for row in rows}) == count
        assert all(("answer_label" in row) == (split != "test") == ("rationale_orig" in row) for row in rows)


def test_boxes_are_around_what_is_asked_for(folder: Path) -> None:
    """The colour that the right answer names is that of the pixels in the middle of the box."""
    items, asked = VcrItems(folder, "train"), 0
    for index, item in enumerate(items):
        objects, pixels = items.read_objects(item), np.asarray(items.read_picture(item))
        assert (objects.width, objects.height) == (pixels.shape[1], pixels.shape[0]) and objects.names == item.objects
        if item.question[:3] != ["What", "colour", "is"]:
            continue
        asked += 1
        x1, y1, x2, y2 = (round(side) for side in objects.boxes[item.question[3][0]][:4])  # type: ignore[arg-type, index]
        assert 0 <= x1 < x2 <= pixels.shape[1] and 0 <= y1 < y2 <= pixels.shape[0]
        inside, (answer, rationale) = pixels[y1:y2, x1:x2].reshape(-1, 3).astype(int), items.labels(item, index)
        vivid = inside[np.ptp(inside, axis=1) > 110].mean(axis=0)
        colour = item.answer_choices[answer][2]
        assert nearest_colour(vivid) == colour, (item, vivid)
        thing = item.rationale_choices[rationale][5]
        assert dict(zip(COLOURS, ("cherry", "pumpkin", "lemon", "frog", "sapphire", "plum"), strict=True))[str(colour)] == thing
    assert asked > 5


def nearest_colour(rgb: np.ndarray) -> str:
    from colorsys import rgb_to_hsv

    hues = {"red": 0.995, "orange": 0.078, "yellow": 0.148, "green": 0.37, "blue": 0.606, "purple": 0.785}
    hue = rgb_to_hsv(*rgb)[0]
    return min(hues, key=lambda name: min(abs(hues[name] - hue), 1 - abs(hues[name] - hue)))


def test_blank_lines_are_no_items_and_lines_are_counted_as_an_editor_does(own: Path) -> None:
    path = own / "val.jsonl"
    path.write_text("\n\n" + path.read_text().replace("\n", "\n\n"))
    items = VcrItems(own, "val")
    assert len(items) == NUM_VAL and items.where(1).endswith("line 5")
    assert items[1].annot_id == "val-1" == items.only([3, 1])[1].annot_id


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"answer_choices": [["a"], ["b"], ["c"]]}, "answer_choices"),
        ({"rationale_label": 4}, "rationale_label"),
        ({"rationale_label": None}, "go together"),
        ({"question": "What is that?"}, "question"),
        ({"question": ["What", 3]}, "question"),
        ({"question": ["What", [17]]}, "object 17"),
        ({"question": ["What", [-1]]}, "object -1"),
        ({"objects": [1]}, "objects"),
    ],
)
def test_items_of_another_form_are_named(own: Path, weights: str, values: dict[str, Any], message: str) -> None:
    path = changed(own, "val", 2, **values)
    for use in (lambda: Vcr().check(own, {}), lambda: Vcr().evaluate(own, weights, EvaluationOptions(device="cpu"))):
        with pytest.raises(ConfigError, match=message) as caught:
            use()  # type: ignore[no-untyped-call]
        assert f"{path}: line 3" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"boxes": [], "width": 10, "height": 10}', "0 boxes for"),
        ('{"boxes": [[1, 2, 3]], "width": 10, "height": 10}', "boxes"),
        ('{"boxes": [], "width": 0, "height": 10}', "width"),
        ("{", "JSON"),
    ],
)
def test_a_picture_whose_objects_cannot_be_read_counts_as_wrong(own: Path, weights: str, text: str, message: str) -> None:
    items = VcrItems(own, "val")
    (own / "vcr1images" / items[0].metadata_fn).write_text(text)
    result = Vcr().evaluate(own, weights, EvaluationOptions(device="cpu", limit=4))
    assert len(result.failed) == 2 and message in result.failed[0]["error"] and items[0].metadata_fn in result.failed[0]["error"]


# Texts


def test_names_of_objects() -> None:
    names = Names(["person", "car", "person", "dining table", "person"])
    assert dict(names.drawn) == {1: "the car", 3: "the dining table"}
    assert names.of([2]) == "Person 2" and names.of([4, 1, 0]) == "Person 3 and the car"
    assert dict(names.drawn) == {1: "the car", 2: "Person 2", 3: "the dining table", 4: "Person 3"}
    for wrong in ([5], [-1]):
        with pytest.raises(InputError, match="object"):
            names.of(wrong)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["Why", "does", "n't", [0], "run", "?"], "Why doesn't Person 1 run?"),
        ([[0], "'s", "hat", ",", "not", [1], "'s", "."], "Person 1's hat, not Person 2's."),
        (["At", "10:30", ":", "tea"], "At 10 30 tea"),
        (["Answer:", "no"], "Answer: no"),
        (["He", "said", '"', "yes", '"', "-;", "so", "."], 'He said "yes" so.'),
        (["Nobody", [], "came"], "Nobody came"),
        ([], ""),
    ],
)
def test_sentences(tokens: list[Any], text: str) -> None:
    assert sentence(tokens, Names(["person", "person"])) == text


WORDS = st.text("ant's.,?:;-\"(&\u00e9\u00a0 ", max_size=8)


@given(st.lists(st.one_of(WORDS, st.lists(st.integers(0, 4), max_size=4)), max_size=12))
def test_any_tokens_make_one_clean_line(tokens: list[Any]) -> None:
    text = sentence(tokens, Names(["person", "dog", "dog", "cat", "person"]))
    assert text == text.strip() and "\n" not in text and "  " not in text


def test_sequences_end_in_a_blank_and_rationales_know_the_answer() -> None:
    texts = VcrTexts("why?", ("one", "two", "three", "four"), ("because", "since", "as", "for " + "ever " * 50))
    tokenizer = default_tokenizer()
    found = texts.sequences(tokenizer, range(4), 40)
    assert found.shape == (5, 4, 40) and ((found == MASK).sum(axis=-1) == 1).all()
    read = tokenizer.decode([number for number in found[3, 1].tolist() if number not in (0, MASK)])
    assert read.split() == ["why?", "answer:", "three", "rationale:", "since"]
    assert found[1, 3, -1] == MASK


# Pictures


def test_a_mirrored_picture_is_mirrored_with_its_boxes() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    objects = VcrObjects(boxes=[[5.0, 10.0, 20.0, 30.0, 0.9]], width=60, height=40, names=["cat"])
    plain, true, released = (
        marked_picture(Image.fromarray(pixels), objects, {0: "the cat"}, mirrored=mirrored, released_flip=released)
        for mirrored, released in ((False, False), (True, False), (True, True))
    )
    assert not np.array_equal(plain[10:30, 5:20], pixels[10:30, 5:20])
    inside = (slice(13, 28), slice(8, 18))  # of the outline, which falls on other pixels
    assert np.array_equal(true[:, ::-1][inside], plain[inside])
    assert np.array_equal(true[:, :35], pixels[:, :24:-1]) and np.array_equal(plain[:, 25:], pixels[:, 25:])
    assert np.array_equal(released[:, :35], pixels[:, :35]) and not np.array_equal(released[:, 40:55], pixels[:, 40:55])


def test_pictures_are_made_smaller_and_boxes_with_them() -> None:
    picture = Image.new("RGB", (1600, 800))
    objects = VcrObjects(boxes=[[800.0, 400.0, 400.0, 200.0, 0.9]], width=1600, height=800, names=["cat"])
    found = marked_picture(picture, objects, {0: "the cat"})
    assert found.shape == (400, 800, 3)
    rows, columns = np.nonzero(found.max(axis=-1))
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (100, 200, 200, 400)


def test_a_coin_mirrors_unless_a_text_tells_sides(folder: Path) -> None:
    items = VcrItems(folder, "train")
    told = {index for index, item in enumerate(items) if VcrTexts.of(item, Names(item.objects)).tell_sides}
    assert told and len(told) < len(items)
    still = dict(grid=(6, 12), length=48)
    plain = VcrExamples(items, **still)  # type: ignore[arg-type]
    coin = VcrExamples(items, mirror=True, seed=3, **still)  # type: ignore[arg-type]
    for index in range(len(items)):
        same = [torch.equal(coin[epoch, index]["images"], plain[epoch, index]["images"]) for epoch in range(6)]
        assert all(same) if index in told else True
    others = [index for index in range(len(items)) if index not in told]
    mirrored = [not torch.equal(coin[epoch, index]["images"], plain[0, index]["images"]) for epoch in range(6) for index in others]
    assert 0.3 < np.mean(mirrored) < 0.7
    random = VcrExamples.for_training(items, seed=3, **still)  # type: ignore[arg-type]
    assert random.pictures == AT_RANDOM and torch.equal(random[1, 0]["images"], random[1, 0]["images"])
    assert not torch.equal(random[0, 0]["images"], random[1, 0]["images"])


# Evaluation


def test_from_files_to_the_leaderboard(folder: Path, weights: str) -> None:
    shares: list[float] = []
    result = Vcr().evaluate(folder, weights, EvaluationOptions(device="cpu", on_progress=shares.append))
    assert len(result.rows) == NUM_VAL and not result.failed and shares == sorted(shares) and shares[-1] == 1
    rows = list(csv.DictReader(io.StringIO(result.exports[LEADERBOARD].decode())))
    names = ["annot_id", *(f"answer_{n}" for n in range(4))]
    names += [f"rationale_conditioned_on_a{given}_{n}" for given in range(4) for n in range(4)]
    assert list(rows[0]) == names and [row["annot_id"] for row in rows] == [f"val-{n}" for n in range(NUM_VAL)]
    answers, rationales = [], []
    for row, told, known in zip(rows, result.rows, VcrItems(folder, "val"), strict=True):
        numbers = np.array([float(row[name]) for name in names[1:]]).reshape(5, 4)
        given = numbers[1 + known.answer_label].max()  # type: ignore[operator]
        assert told["rationale_probability"] == pytest.approx(given, abs=1e-7)  # given the right answer, whatever was chosen
        assert told["answer_probability"] == pytest.approx(numbers[0].max(), abs=1e-7)
        assert np.allclose(numbers.sum(axis=1), 1, atol=1e-6)
        answers.append(numbers[0].argmax() == known.answer_label)
        rationales.append(numbers[1 + known.answer_label].argmax() == known.rationale_label)  # type: ignore[operator]
    both = [answer and rationale for answer, rationale in zip(answers, rationales, strict=True)]
    expected = [100 * np.mean(each) for each in (answers, rationales, both)]
    assert list(result.metrics) == ["Q->A", "QA->R", "Q->AR"] and list(result.metrics.values()) == pytest.approx(expected)
    assert result.baselines["random"] == {"Q->A": 25, "QA->R": 25, "Q->AR": 6.25}
    learned = [item.answer_label for item in VcrItems(folder, "train")]
    prior = max(range(4), key=lambda label: (learned.count(label), -learned.index(label)))
    share = 100 * np.mean([item.answer_label == prior for item in VcrItems(folder, "val")])
    assert result.baselines["prior"]["Q->A"] == pytest.approx(share) and result.settings["split"] == "val"
    assert next(csv.DictReader(io.StringIO(result.as_csv())))["question"]


def test_scores_do_not_depend_on_what_else_is_asked(folder: Path, weights: str) -> None:
    """Neither on the other items of a batch, nor on how far sequences are padded."""
    whole = Vcr().evaluate(folder, weights, EvaluationOptions(device="cpu"))
    one = Vcr().evaluate(folder, weights, EvaluationOptions(device="cpu", limit=1, settings={"length": 90}))
    for name in ("answer_probability", "rationale_probability"):
        assert one.rows[0][name] == pytest.approx(whole.rows[0][name], abs=1e-5)


def test_files_may_lie_deeper_and_the_picture_counts(own: Path, weights: str) -> None:
    before = Vcr().evaluate(own, weights, EvaluationOptions(device="cpu"))
    (own / "annotations").mkdir()
    for path in own.glob("*.jsonl"):
        path.rename(own / "annotations" / path.name)
    (own / "annotations" / "train.jsonl").unlink()
    (own / "vcr1images").rename(own / "annotations" / "vcr1images")
    items = VcrItems(own, "val")
    Image.new("RGB", (64, 48), "red").save(own / "annotations" / "vcr1images" / items[0].img_fn)
    after = Vcr().evaluate(own, weights, EvaluationOptions(device="cpu"))
    assert set(after.baselines) == {"random"} and not after.failed
    changed = [one["answer_probability"] != other["answer_probability"] for one, other in zip(before.rows, after.rows, strict=True)]
    assert changed == [True, True] + [False] * (NUM_VAL - 2)


def test_the_test_split_has_no_metrics_but_its_export(folder: Path, weights: str) -> None:
    result = Vcr().evaluate(folder, weights, EvaluationOptions(device="cpu", settings={"split": "test", "length": 140}))
    assert result.metrics == {} and len(result.rows) == 3 and result.settings["length"] == 140
    assert len(result.exports[LEADERBOARD].splitlines()) == 4


def test_missing_pictures_are_told_and_count_as_wrong(own: Path, weights: str) -> None:
    items = VcrItems(own, "val")
    gone = own / "vcr1images" / items[0].img_fn
    gone.unlink()
    (own / "vcr1images" / items[4].img_fn).write_bytes(b"no picture")
    report = Vcr().check(own, {})
    assert report.num_items == NUM_VAL and not report.missing
    assert len(report.problems) == 2 and all(str(gone) in problem for problem in report.problems)
    result = Vcr().evaluate(own, weights, EvaluationOptions(device="cpu"))
    assert [row["id"] for row in result.failed] == ["val-0", "val-1", "val-4", "val-5"]
    assert str(gone) in result.failed[0]["error"] and items[4].img_fn in result.failed[2]["error"]
    right = sum(row["answer"] == row["answer_label"] for row in result.rows)
    assert result.metrics["Q->A"] == pytest.approx(100 * right / NUM_VAL) and result.rows[0]["answer"] is None
    assert result.exports[LEADERBOARD].splitlines()[1] == b"val-0" + b",0.25000000" * 20
    with pytest.warns(UserWarning, match="2 of 9 questions are left out"):
        assert len(with_pictures(items)) == NUM_VAL - 2
    shutil.rmtree(own / "vcr1images")
    with pytest.raises(ConfigError, match=r"vcr1images\.zip"):
        with_pictures(items)


def test_missing_files_are_named_with_their_owners_address(own: Path, weights: str, tmp_path: Path) -> None:
    assert [needed.path for needed in Vcr().check(tmp_path / "none", {}).missing] == ["**/val.jsonl", "**/vcr1images"]
    (own / "train.jsonl").unlink()
    assert not Vcr().check(own, {}).missing
    (missing,) = Vcr().check(own, {"split": "train"}).missing
    assert "visualcommonsense.com" in missing.where and "non-commercial" in missing.terms
    with pytest.raises(ConfigError, match=r"train\.jsonl.*visualcommonsense\.com"):
        Vcr().evaluate(own, weights, EvaluationOptions(device="cpu", settings={"split": "train"}))
    with pytest.raises(ConfigError, match=r"vcr1annots\.zip"):
        VcrItems(own, "train")
    (own / "train.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match="no question"):
        VcrItems(own, "train")


def test_what_cannot_be_measured_is_refused(folder: Path, own: Path, weights: str, tmp_path: Path) -> None:
    for settings in ({"splits": "val"}, {"split": "dev"}, {"length": 1}):
        with pytest.raises(ConfigError, match=f"{next(iter(settings))}.*split, length"):
            Vcr().check(folder, settings)
    with pytest.raises(ConfigError, match="sound"):
        Vcr().evaluate(folder, weights, EvaluationOptions(device="cpu", use="sound"))
    tiny_reserve().save_pretrained(tmp_path / "pretrained")
    with pytest.raises(InputError, match=r"proj.*finetune"):
        Vcr().evaluate(folder, str(tmp_path / "pretrained"), EvaluationOptions(device="cpu"))
    for_choices(tiny_reserve(), "tvqa", parts=("audio_encoder", "proj")).save_pretrained(tmp_path / "tvqa")
    with pytest.raises(InputError, match="finetuned with sound"):
        Vcr().evaluate(folder, str(tmp_path / "tvqa"), EvaluationOptions(device="cpu"))
    shutil.copy(own / "test.jsonl", own / "val.jsonl")
    with pytest.raises(ConfigError, match="line 1: it has no labels"):
        Vcr().evaluate(own, weights, EvaluationOptions(device="cpu"))


def trained(data: VcrExamples, *, num_steps: int, batch_size: int, held_out: VcrExamples) -> dict[str, Any]:
    """What a tiny model reaches on the held-out questions."""
    program = ChoiceProgram(for_choices(tiny_reserve(), "vcr"), data, held_out=held_out)
    settings = OptimizerSettings(learning_rate=2e-3)
    optimizer = Optimizers(program.parameter_groups(settings), settings)
    examples = [data[0, index] for index in range(len(data))]
    for positions in batches(len(data), batch_size, seed=0, start_step=0, num_steps=num_steps):
        loss, _ = program.loss(default_collate([examples[index] for _, index in positions]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        found = program.evaluate()
    assert set(found) == {*program.metrics, "num_held_out"} and found["num_held_out"] == len(held_out)
    return found


def test_it_learns_by_heart(folder: Path) -> None:
    """A dozen questions: 50 % with both right, where chance is 6."""
    data = VcrExamples(VcrItems(folder, "train", limit=12), grid=GRID, length=48)
    found = trained(data, num_steps=90, batch_size=12, held_out=data)
    assert found["held_out_top1"] > 50
    assert min(found["held_out_answer_top1"], found["held_out_rationale_top1"]) >= found["held_out_top1"]


@pytest.mark.slow
def test_it_learns_which_rationale_follows(tmp_path: Path) -> None:
    """Of new questions: 45 % of the rationales, where chance is 25. (Answers take the eye that pretraining makes.)"""
    write_vcr(tmp_path, 800, num_val=100, num_test=1, size=48)
    data, held_out = (VcrExamples(VcrItems(tmp_path, split), grid=GRID, length=48) for split in ("train", "val"))  # type: ignore[arg-type]
    assert trained(data, num_steps=400, batch_size=8, held_out=held_out)["held_out_rationale_top1"] > 45
