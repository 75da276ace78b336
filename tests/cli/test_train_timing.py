"""`watchword train timing`: from words as captioned and as heard to a file that fill takes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from watchword.datasets.aligned_words import COLUMNS, read_aligned_words
from watchword.errors import InputError
from watchword.playground import film_captions, film_words, sample_film
from watchword.reserve.timing import TimingRegressor

TRAIN = [sys.executable, "-m", "watchword", "train", "timing"]


def write_words(path: Path, num_films: int) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["transcript", *COLUMNS])
        for number in range(num_films):
            film = sample_film(number, num_scenes=8)
            for caption, spoken in zip(film_captions(film), film_words(film), strict=True):
                times = (caption.start_seconds, caption.end_seconds, spoken.start_seconds, spoken.end_seconds)
                writer.writerow([f"film {number}", caption.text, *times])


def test_it_learns_from_a_file_and_writes_one_that_corrects(tmp_path: Path) -> None:
    write_words(tmp_path / "words.csv", 6)
    done = subprocess.run([*TRAIN, str(tmp_path / "words.csv"), "--out", str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    transcripts = read_aligned_words(tmp_path / "words.csv")
    assert len(transcripts) == 6 and found["num_words"] == sum(len(transcript.words) for transcript in transcripts)
    assert 0 < found["error_seconds"] < 0.6 * found["error_seconds_before"]
    words = list(transcripts[0].words)
    corrected = TimingRegressor.load(tmp_path / "out" / "timing.json").correct(words)
    assert [word.text for word in corrected] == [word.text for word in words] and corrected != words


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no column word"),
        ("word,caption_start,caption_end,start,end\n", "there is no word"),
        ("word,caption_start,caption_end,start\n", "no column end"),
        ("word,caption_start,caption_end,start,end\na,0,1,0,x\n", "line 2: end is 'x'"),
        ("word,caption_start,caption_end,start,end\na,0,1,0\n", "line 2: end is None"),
        ("word,caption_start,caption_end,start,end\na,0,1,0,inf\n", "line 2: end is 'inf'"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "words.csv").write_text(text)
    with pytest.raises(InputError, match=named):
        read_aligned_words(tmp_path / "words.csv")


def test_too_few_words_and_a_second_recipe_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word,caption_start,caption_end,start,end\na,0,1,0,1\n")
    for command, said in ((TRAIN, "give at least"), ([*TRAIN[:-1], "recipe.yaml"], "train takes one recipe")):
        done = subprocess.run([*command, str(tmp_path / "words.csv"), "--out", str(tmp_path / "out")], capture_output=True, text=True)
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
