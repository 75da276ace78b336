"""VCR's texts, boxes, pictures and sequences against those that the authors' code makes of the same annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from reserve_data_files import objects_with, read_arrays, read_json

from shared_folders import GOLDEN_ROOT
from watchword.datasets.vcr import VcrExamples
from watchword.datasets.vcr_files import PICTURES, VcrItems, VcrObjects
from watchword.datasets.vcr_pictures import box_colour, marked_picture
from watchword.datasets.vcr_texts import Names, VcrTexts
from watchword.text.reserve import default_tokenizer

LEVELS = 2
SUBMITTED_LENGTH = 140

CASES = [(path, number) for path in objects_with("vcr") for number in range(len(read_json(path)["vcr"]))]
pytestmark = pytest.mark.parametrize(
    ("path", "number"),
    CASES or [pytest.param(None, None, marks=pytest.mark.skip(reason=f"no VCR in {GOLDEN_ROOT}: set $WATCHWORD_GOLDEN"))],
    ids=[f"{path.stem}-{number}" for path, number in CASES] or None,
)


def case(path: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = read_json(path)["vcr"][number]
    return found


def drawn_picture(width: int, height: int) -> Image.Image:
    """The fixtures' input picture."""
    rows, columns = np.mgrid[:height, :width]
    channels = (60 + 120 * columns // width, 80 + 100 * rows // height, np.full_like(rows, 110))
    return Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))


def published(folder: Path, known: dict[str, Any]) -> VcrItems:
    """A data set of the one item, as its owners would publish it."""
    (folder / PICTURES / "film").mkdir(parents=True)
    drawn_picture(*known["input_image_wh"]).save(folder / PICTURES / "film" / "still.png")
    (folder / PICTURES / "film" / "still.json").write_text(json.dumps(known["metadata"]))
    files = {"img_fn": "film/still.png", "metadata_fn": "film/still.json", "objects": known["metadata"]["names"]}
    (folder / "val.jsonl").write_text(json.dumps(known["item"] | files) + "\n")
    return VcrItems(folder, "val")


def test_texts_and_names(path: Path, number: int, tmp_path: Path) -> None:
    known = case(path, number)
    item, expected = published(tmp_path, known)[0], known["output"]
    names = Names(known["metadata"]["names"])
    texts = VcrTexts.of(item, names)
    assert texts.question == expected["qa_query"]
    assert list(texts.answers) == expected["qa_choices"] and list(texts.rationales) == expected["qar_choices"]
    assert texts.given(expected["qa_label"]) == expected["qar_query"]
    drawn = set(names.drawn)
    for tag, name in expected["names"].items():
        numbers = [int(part) for part in tag.split(",")]
        assert names.of(numbers) == name and drawn >= set(numbers)
    assert drawn == {int(part) for tag in expected["names"] for part in tag.split(",")}


def test_colours(path: Path, number: int) -> None:
    for name, colour in case(path, number)["colours_rgb"].items():
        assert list(box_colour(name)) == colour


def test_pictures(path: Path, number: int) -> None:
    known = case(path, number)
    arrays = read_arrays(path.with_suffix(".npz"))
    objects = VcrObjects.model_validate_json(json.dumps(known["metadata"]))
    drawn = {int(tag): name for tag, name in known["output"]["names"].items() if "," not in tag}
    picture = drawn_picture(*known["input_image_wh"])
    texts = " ".join(known["output"]["qa_choices"] + known["output"]["qar_choices"] + [known["output"]["qa_query"]])
    told = "left" in texts or "right" in texts
    found = marked_picture(picture, objects, drawn)
    released = marked_picture(picture, objects, drawn, mirrored=not told, released_flip=True)
    assert [found.shape[1], found.shape[0]] == known["output"]["image_size_wh"]
    for ours, name in ((found, f"vcr_image_{number}"), (released, f"vcr_image_mirrored_boxes_{number}")):
        assert ours.shape == arrays[name].shape
        assert np.abs(ours.astype(int) - arrays[name]).max() <= LEVELS


def test_sequences(path: Path, number: int, tmp_path: Path) -> None:
    known = case(path, number)
    items, sequences = published(tmp_path, known), np.array(known["joint_sequences"])
    example = VcrExamples(items, grid=(2, 4), length=sequences.shape[-1])[0, 0]
    assert np.array_equal(example["tokens"], sequences) and example["label"].tolist() == known["labels"]
    submitted = VcrExamples(items, grid=(2, 4), length=SUBMITTED_LENGTH).for_leaderboard(0)["tokens"]
    assert submitted.shape == (5, 4, SUBMITTED_LENGTH)
    assert np.array_equal(submitted[[0, 1 + known["labels"][0]]], sequences[..., :SUBMITTED_LENGTH])
    tokenizer, texts = default_tokenizer(), known["output"]
    for kind, ids in known["query_choice_ids"].items():
        assert tokenizer.encode(texts[f"{kind}_query"], special=False) == ids["query"]
        assert [tokenizer.encode(choice, special=False) for choice in texts[f"{kind}_choices"]] == ids["choices"]
