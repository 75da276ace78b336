"""TVQA's windows, words, sequences and sound against the release (fixtures with ``tvqa``, see the README of the folder)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image
from reserve_data_files import each, objects_with, read_arrays, read_json

from watchword.datasets.tvqa import TvqaFolder, TvqaItem, read_items
from watchword.datasets.tvqa_examples import as_tensors
from watchword.datasets.tvqa_windows import frame_number
from watchword.reserve.spectrogram import quantise, subsegments
from watchword.text.reserve import START, default_tokenizer

# The fixtures do not say what their test sound was. Their spectrograms show FFmpeg's sine of 500 Hz with a beep of 1500 Hz each second.
SINE, BEEP_FACTOR = 500, 3
SOUND, SOUND_MEAN, MAGIC = 5e-2, 5e-3, 1e-2  # the mean is of all values; the beeps' edges depend on the MP3 encoder


@each(objects_with("tvqa"), "TVQA fixtures")
def test_a_question_becomes_what_the_release_made_of_it(path: Path, tmp_path: Path) -> None:
    arrays = read_arrays(path.with_suffix(".npz"))
    for number, case in enumerate(read_json(path)["tvqa"]):
        item, folder = published(case["input"], tmp_path / str(number))
        expected, tokenizer = case["output"], default_tokenizer()
        example = folder.read(item)
        spans, real = example.windows.spans, expected["num_frames"]
        assert example.notes == () and len(spans) == len(example.frames) == real
        assert np.allclose([[span.start, span.end] for span in spans], [row[:2] for row in expected["times"][:real]], atol=1e-6)
        assert [frame_number(span, case["input"]["n_frames"]) for span in spans] == expected["frame_numbers"][:real]
        assert list(example.texts) == [row[2] for row in expected["times"][:real]]
        assert [tokenizer.encode(text, special=False) for text in example.texts] == expected["sub_ids"][:real]
        assert np.allclose(example.windows.located, expected["rel_localization"], atol=1e-6)
        assert tokenizer.encode(example.windows.located_text) == expected["qa_query_ids"][: expected["qa_query_ids"].index(START)]
        found = as_tensors(item, example, grid=(2, 4))
        assert np.array_equal(found["sequences"][0], arrays[f"tvqa_audio_seqs_{number}"])
        assert np.array_equal(found["sequences"][1], arrays[f"tvqa_textonly_seqs_{number}"])
        assert not found["images"][real:].any() and found["images"].shape == (7, 8, 768)
        check_sound(found["audio_clips"].numpy(), expected, arrays[f"tvqa_spectrogram_first_{number}"])
        magic, _ = quantise(subsegments(example.log_mels).reshape(-1, 65).numpy())
        assert magic == pytest.approx(expected["magic_number"], rel=MAGIC)


def check_sound(clips: np.ndarray, expected: dict[str, Any], first: np.ndarray) -> None:
    assert np.unique(clips[..., -1]).tolist() == expected["speed_column_values"]
    assert np.allclose(np.abs(clips[..., :64]).mean(axis=(1, 2, 3)), expected["audio_clip_mean_abs_per_segment"], atol=SOUND)
    difference = np.abs(clips[0] - first)
    assert clips[0].shape == tuple(expected["spec_shape"])
    assert difference.mean() <= SOUND_MEAN and (difference <= SOUND).mean() >= 0.99


def published(given: dict[str, Any], folder: Path) -> tuple[TvqaItem, TvqaFolder]:
    """The files of a fixture in the owners' form."""
    row = {"qid": given["qid"], "q": given["q"], "answer_idx": given["label"], "vid_name": given["vid"]}
    row["ts"] = "nan-nan" if given["ts"] is None else "{}-{}".format(*given["ts"])
    row |= {f"a{number}": answer for number, answer in enumerate(given["a"])}
    frames = folder / "frames_hq" / "bbt_frames" / given["vid"]
    for made in (frames, folder / "tvqa_subtitles", folder / "audio"):
        made.mkdir(parents=True)
    (folder / "tvqa_val.jsonl").write_text(json.dumps(row))
    (folder / "tvqa_subtitles" / f"{given['vid']}.srt").write_text(given["srt"], encoding="utf-8")
    for number in range(1, given["n_frames"] + 1):
        Image.new("RGB", (32, 18), (number % 256, 90, 40)).save(frames / f"{number:05}.jpg")
    write_sine(folder / "audio" / f"{given['vid']}.mp3", given["n_frames"] / 3)
    (item,) = read_items(folder / "tvqa_val.jsonl")
    return item, TvqaFolder(folder)


def write_sine(path: Path, seconds: float) -> None:
    graph = av.filter.Graph()
    source = graph.add("sine", f"frequency={SINE}:beep_factor={BEEP_FACTOR}:sample_rate=44100:duration={seconds}")
    sink = graph.add("abuffersink")
    source.link_to(sink)
    graph.configure()
    resampler = av.AudioResampler(format="s16p", layout="mono", rate=44100)
    with av.open(str(path), "w", format="mp3") as container:
        stream = container.add_stream("libmp3lame", rate=44100, layout="mono")
        while True:
            try:
                frame = sink.pull()
            except (av.EOFError, av.BlockingIOError):
                break
            for piece in resampler.resample(frame):
                container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
