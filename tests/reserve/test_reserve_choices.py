"""Finetuning on multiple choice: what a pretrained model hands on, what a choice looks like, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

from tiny_reserve import tiny_reserve
from watchword.datasets.playground_questions import PlaygroundQuestions
from watchword.errors import InputError
from watchword.reserve import Reserve
from watchword.reserve.choices import ChoiceProgram, choice_tokens, for_choices
from watchword.text.reserve import MASK, default_tokenizer
from watchword.training import OptimizerSettings
from watchword.training.optimizers import Optimizers


def test_a_choice_stands_behind_its_question_and_before_its_blank() -> None:
    tokenizer = default_tokenizer()
    rows = choice_tokens("what is shown?", ["a cat", "a very very long choice of many words that does not fit at all"], tokenizer, 12)
    ids = tokenizer.encode("what is shown? answer: a cat")
    assert rows[0].tolist() == [*ids, MASK, *[0] * (11 - len(ids))]
    assert rows[1, -1] == MASK and (rows[1] != 0).all()
    assert (choice_tokens("<|MASK|>", ["a"], tokenizer, 20) == MASK).sum() == 1  # a question of others has no special tokens


def test_the_pretrained_encoders_are_taken_over_and_the_rest_is_new() -> None:
    model = tiny_reserve()
    made = for_choices(model, "questions")
    assert made.config.parts == ("proj",) and made.audio_encoder is None and made.config.weights == "questions"
    for name, tensor in made.state_dict().items():
        assert name == "proj.weight" or torch.equal(tensor, model.state_dict()[name]), name


def test_questions_have_one_right_choice_of_the_four(tmp_path: Path) -> None:
    data = PlaygroundQuestions(40, grid=(2, 4), frame_size=32, seed=3, cache_folder=tmp_path)
    assert 20 < len(data) < 40
    tokenizer, labels = default_tokenizer(), set()
    for index in range(len(data)):
        example = data[0, index]
        texts = [tokenizer.decode(row[row != 0]).partition("answer: ")[2] for row in example["tokens"][0]]
        assert len(set(texts)) == 4 and example["images"].shape == (8, 768)
        still = data.stills[0, int(data.places[index])]
        caption = data.stills.captions[still["captions"][1]].replace("faint ", "")
        (label,) = example["label"]
        right = texts[label]
        assert right.split()[-2:] == caption.split()[-2:]
        labels.add(int(label))
        assert np.array_equal(example["tokens"], data[5, index]["tokens"])
    assert labels == {0, 1, 2, 3}


def test_it_learns_and_is_saved(tmp_path: Path) -> None:
    data = PlaygroundQuestions(16, grid=(2, 4), frame_size=32, seed=0, cache_folder=tmp_path)
    model = for_choices(tiny_reserve(), "questions")
    program = ChoiceProgram(model, data, held_out=data)
    settings = OptimizerSettings(learning_rate=3e-3)
    optimizer = Optimizers(program.parameter_groups(settings), settings)
    batch = default_collate([data[0, index] for index in range(len(data))])
    for _ in range(60):
        loss, _ = program.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        found = program.evaluate()
    assert found["num_held_out"] == len(data) and found["held_out_top1"] > 60
    program.save(tmp_path / "model", model.state_dict())
    assert torch.equal(Reserve.from_pretrained(tmp_path / "model").state_dict()["proj.weight"], model.state_dict()["proj.weight"])


def test_all_that_learns_is_used(tmp_path: Path) -> None:
    """Several processes that reduce gradients wait for that of every parameter which learns."""
    data = PlaygroundQuestions(8, grid=(2, 4), frame_size=32, seed=0, cache_folder=tmp_path)
    program = ChoiceProgram(for_choices(tiny_reserve(), "questions"), data, held_out=data)
    loss, _ = program.loss(default_collate([data[0, 0]]))
    loss.backward()
    learning = {parameter for group in program.parameter_groups(OptimizerSettings(learning_rate=1)) for parameter in group["params"]}
    assert learning == {parameter for parameter in program.model.parameters() if parameter.grad is not None}


def test_weights_without_proj_are_refused() -> None:
    with pytest.raises(InputError, match="proj"):
        ChoiceProgram(tiny_reserve(), [], held_out=[])
