"""Pictures of pretraining: they show what the masks say, and whose sound is near to whose frame."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from record_fixtures import record, segment
from tiny_reserve import tiny_reserve
from watchword.errors import InputError
from watchword.report import pretraining as pictures
from watchword.report.pretraining import masked_record, neighbours_picture, sound_neighbours
from watchword.reserve.draws import record_draws
from watchword.reserve.masking import Masking, mask_record
from watchword.reserve.records import Record
from watchword.text.reserve import AUDIOSPAN

RECORD = record(num_segments=8, web_text=False)
MASKING = Masking(web_masks=0)
DOTS = 130  # an inch


def pixels(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def texts(draw: Any, *given: Any, **settings: Any) -> str:
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        svg = draw(*given, **settings, format="svg").decode()
    return "\n".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))


def colour_of(found: np.ndarray, clip: int, view: int) -> tuple[int, int, int]:
    """Of the left edge of the cell of a clip in the first or second view, before its words begin."""
    number, third = divmod(clip, 3)
    top = pictures.HEADER + pictures.LEGEND + pictures.BAND * number + pictures.TITLE + pictures.SOUND + view * pictures.CELL
    left = pictures.COLUMNS_LEFT + third * pictures.COLUMN
    return tuple(found[round((top + pictures.CELL / 2) * DOTS), round((left + 0.02) * DOTS)].tolist())


def rgb(colour: str) -> tuple[int, int, int]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))  # type: ignore[return-value]


@pytest.mark.parametrize("epoch", [0, 3])
def test_every_clip_has_the_colour_of_what_the_example_has_in_its_place(epoch: int) -> None:
    found = pixels(masked_record(RECORD, masking=MASKING, seed=5, epoch=epoch))
    example = mask_record(RECORD.words(), (), record_draws(5, epoch, RECORD.key), MASKING)
    read, heard = example.text2audio[0], example.audio2text[0]
    hidden = {view: {int(row) for row, span in tokens[:, 1:] if span >= 0} for view, tokens in ((0, read), (1, heard))}
    sounds = {int(row) for token, row, _ in heard if token == AUDIOSPAN}
    assert len(hidden[0]) == len(hidden[1]) == 6 and 0 < len(sounds) < 18
    for clip in range(24):
        assert colour_of(found, clip, 0) == rgb(pictures.FIND if clip in hidden[0] else pictures.READ)
        wanted = pictures.FIND if clip in hidden[1] else pictures.HEARD if clip in sounds else pictures.INSTEAD
        assert colour_of(found, clip, 1) == rgb(wanted)


def test_the_words_and_what_is_hidden_of_them_are_written() -> None:
    said = texts(masked_record, RECORD, masking=MASKING)
    assert "record train00000_000" in said and "text to audio" in said and "audio to text" in said
    assert sum(line.startswith("? ") for line in said.splitlines()) == 12
    assert "hidden: to be found" in said and "(sound)" in said and "+ sound" in said
    words = {line.removeprefix("? ").removesuffix(" + sound") for line in said.splitlines() if line.startswith("? ")}
    assert words - {"(nothing said)"}, "spans have words"


def test_without_sound_there_are_words_and_no_sound_to_find() -> None:
    silent = replace(RECORD, segments=tuple(replace(one, has_sound=False) for one in RECORD.segments))
    said = texts(masked_record, silent, masking=MASKING)
    assert "(sound)" not in said and "+ sound" not in said and "no sound" in said and "gives the words of all segments" in said
    found = pixels(masked_record(silent, masking=MASKING))
    assert rgb(pictures.INSTEAD) not in {colour_of(found, clip, 1) for clip in range(24)}


def test_a_record_of_several_groups_is_drawn_whole_and_one_of_a_part_is_refused() -> None:
    two = pixels(masked_record(record(num_segments=16, web_text=False)))
    one = pixels(masked_record(RECORD))
    assert two.shape[1] == one.shape[1] == 1430
    assert two.shape[0] - one.shape[0] == pytest.approx(8 * pictures.BAND * DOTS, abs=2)
    with pytest.raises(InputError, match="whole groups"):
        masked_record(record(num_segments=4))


def test_a_frame_finds_its_sound_where_the_model_says() -> None:
    found = sound_neighbours(tiny_reserve(), [RECORD])
    assert found.cosines.shape == (8, 8) and len(found.segments) == 8
    order = np.argsort(-found.cosines, axis=1)
    assert [int(np.flatnonzero(row == number)[0]) + 1 for number, row in enumerate(order)] == found.places.tolist()
    said = texts(neighbours_picture, found, name="tiny <weights>")
    assert f"in the median, by chance {4.5:g}" in said and "tiny &lt;weights&gt;" in said
    rows = np.linspace(0, 7, 6).round().astype(int)
    assert [f"place {found.places[row]} of 8" for row in rows] == re.findall(r"place \d of 8$", said, re.M)


def test_segments_without_sound_are_left_out_of_the_neighbours() -> None:
    some = [segment(0), replace(segment(1), has_sound=False), segment(2)]
    found = sound_neighbours(tiny_reserve(), some)
    assert [one.start_time for one in found.segments] == [0.0, 10.0]
    assert pixels(neighbours_picture(found)).shape[1] == 1430
    with pytest.raises(InputError, match="1 of 2 segments have sound"):
        sound_neighbours(tiny_reserve(), some[:2])


def test_a_damaged_picture_is_named() -> None:
    bad = replace(RECORD.segments[1], frame=RECORD.segments[1].frame[:40])
    damaged = Record(RECORD.key, (RECORD.segments[0], bad, *RECORD.segments[2:]), RECORD.videos)
    for draw in (lambda: masked_record(damaged), lambda: sound_neighbours(tiny_reserve(), [damaged])):
        with pytest.raises(InputError, match="frame of 'a' at 5 s"):
            draw()
