"""A record survives its files, says what it holds, and refuses files that are not what they should be."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from record_fixtures import as_file, record, segment
from watchword.errors import InputError
from watchword.reserve import spectrogram as sp
from watchword.reserve.draws import record_draws
from watchword.reserve.masking import Masking, mask_record
from watchword.reserve.records import Record, RecordVideo, members_of, record_from


def same(one: Record, other: Record) -> bool:
    texts = [text if text is None else text.tolist() for text in (one.web_text, other.web_text)]
    return (one.key, one.segments, one.videos, texts[0]) == (other.key, other.segments, other.videos, texts[1])


@pytest.mark.parametrize("web_text", [True, False])
def test_files_of_a_record_and_back(web_text: bool) -> None:
    made = record(web_text=web_text)
    members = members_of(made)
    names = [name.removeprefix("train00000_000.") for name, _ in members]
    assert names == ["json", *(f"c0{i}.jpg" for i in range(4)), *(f"s0{i}.png" for i in range(4))] + ["webtext.npy"] * web_text
    assert same(record_from(made.key, dict(members)), made)
    assert members_of(record_from(made.key, dict(members))) == members


def test_the_json_has_what_the_specification_names() -> None:
    content = json.loads(dict(members_of(record()))["train00000_000.json"])
    assert content["version"] == 1 and set(content) == {"version", "segments", "title", "tags", "description", "meta"}
    assert content["title"] == [[400, 401], [500]] and content["meta"][0] == {"channel": "Größe", "views": 7}
    keys = "youtube_id video_src_index playback_speed start_time end_time tok_ids tok_start_times tok_end_times magic_number width height"
    assert set(keys.split()) < set(content["segments"][0])


def test_pictures_come_out_of_a_segment() -> None:
    levels = np.random.default_rng(0).integers(0, 256, (64, 188), np.uint8)
    own = segment(3, spectrogram=as_file(levels, "PNG"), magic_number=40.0)
    assert own.image().shape == (12, 20, 3) and abs(own.image().astype(int) - 48).max() <= 1
    assert np.array_equal(own.log_mel().numpy(), sp.stored_values(levels, 40.0).numpy()) and own.log_mel().shape == (188, 64)
    as_jpeg = segment(3, spectrogram=as_file(levels, "JPEG", quality=95), magic_number=40.0)
    assert abs(as_jpeg.log_mel() - own.log_mel()).max() < 1.5


def test_words_carry_each_videos_title_once_and_can_be_masked() -> None:
    words = record(num_segments=8).words()
    assert [word.video for word in words] == [0] * 4 + [1] * 4
    assert [tuple(word.title) for word in words] == [(400, 401), (), (), (), (500,), (), (), ()]
    example = mask_record(words, [], record_draws(0, 0, "k"), Masking(group_segments=4, web_masks=0))
    assert example.video_src_index.tolist() == [0] * 4 + [1] * 4


finite = st.floats(-1e6, 1e6, allow_nan=False, width=32)
ids = st.lists(st.integers(10, 32767), max_size=5).map(tuple)
printable = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.tuples(st.integers(10, 32767), finite, finite), max_size=6),
    video=printable,
    start=st.floats(0, 1e5),
    speed=st.integers(1, 3),
    has_sound=st.booleans(),
    title=ids,
    meta=st.dictionaries(printable, st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), finite, printable), max_size=3),
)
def test_any_record_survives_its_files(words, video, start, speed, has_sound, title, meta) -> None:
    tokens, starts, ends = zip(*words, strict=True) if words else ((), (), ())
    own = replace(
        segment(0), video_id=video, start_time=start, end_time=start + 5 * speed, playback_speed=speed, has_sound=has_sound,
        tokens=tokens, token_starts=starts, token_ends=ends,
    )  # fmt: skip
    made = Record("k", (own,), (RecordVideo(title, title, (), meta),))
    assert same(record_from("k", dict(members_of(made))), made)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokens": (3, 301, 302)}, "token id 3 is no word's"),
        ({"token_ends": (1.0,)}, "3 tokens, 3 start and 1 end times"),
        ({"end_time": 0.0}, "not in order"),
        ({"token_starts": (float("nan"), 1.0, 2.0)}, "not finite"),
        ({"playback_speed": 4}, "playback speed 4"),
        ({"magic_number": 0.0}, "magic number"),
        ({"video_src_index": 1}, "segments count"),
        ({"video_id": "a\nb"}, "no plain text"),
        ({"video_id": "\udc80"}, "no plain text"),
        ({"width": 10**6}, "pixels"),
        ({"frame": b"GIF89a"}, "JPEG file"),
    ],
)
def test_impossible_segments_are_refused(changes: dict, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Record("k", (replace(segment(0), **changes),), (RecordVideo(),))


def test_video_numbers_rise_with_the_video_id_and_only_then() -> None:
    for numbers, videos in ((("a", 0), ("b", 0)), ("a" * 2)), ((("a", 0), ("a", 1)), "ab"), ((("a", 0), ("b", 2)), "abc"):
        with pytest.raises(InputError, match="video"):
            Record("k", tuple(segment(i, *number) for i, number in enumerate(numbers)), tuple(RecordVideo() for _ in videos))


def damaged(name: str, content: bytes | None, made: Record | None = None) -> str:
    members = dict(members_of(made or record("k")))
    members[name] = content
    with pytest.raises(InputError) as caught:
        record_from("k", {name: part for name, part in members.items() if part is not None}, source="'x.tar'")
    message = str(caught.value)
    assert message.startswith("'x.tar': record 'k': ") and "\n" not in message and len(message) < 500
    return message


def test_members_that_are_missing_cut_or_too_many() -> None:
    members = dict(members_of(record("k")))
    assert "'k.c01.jpg' is missing" in damaged("k.c01.jpg", None)
    assert "SHA-256" in damaged("k.c01.jpg", members["k.c01.jpg"][:-5])
    assert "no record has" in damaged("../../etc/passwd", b"x")
    assert "0 bytes" in damaged("k.json", None)
    for cut in (1, 100, len(members["k.json"]) - 1):
        damaged("k.json", members["k.json"][:cut])


def test_hostile_json() -> None:
    content = json.loads(dict(members_of(record("k")))["k.json"])
    for change, problem in [
        ({"version": 2}, "version"),
        ({"extra": 1}, "extra"),
        ({"segments": []}, "segments"),
        ({"title": [[3], []]}, "title"),
        ({"title": [[]]}, "titles"),
        ({"meta": [1, 2]}, "meta"),
    ]:
        assert problem in damaged("k.json", json.dumps(content | change).encode())
    for key, value in [
        ("tok_ids", "abc"),
        ("tok_ids", [1.5, 2, 3]),
        ("start_time", "1"),
        ("width", 10**400),
        ("has_sound", 1),
        ("height", True),
    ]:
        first = content["segments"][0] | {key: value}
        damaged("k.json", json.dumps(content | {"segments": [first, *content["segments"][1:]]}).encode())
    damaged("k.json", b'{"version":1,"segments":' + b"[" * 100_000)
    damaged("k.json", dict(members_of(record("k")))["k.json"].replace(b'"start_time":0.0', b'"start_time":NaN'))


def test_web_text_whose_header_lies_takes_no_memory() -> None:
    good = dict(members_of(record("k")))["k.webtext.npy"]
    for content in (
        good.replace(b"(2, 10)", b"(2, 10**9)"[:7]),
        good.replace(b"(2, 10)", b"(9, 99)"),
        good.replace(b"<i4", b"|O8"),
        good.replace(b"<i4", b"<f4"),
        good.replace(b"False", b"True "),
        good[:-4],
        good[:7],
        b"",
        b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
    ):
        assert "web text" in damaged("k.webtext.npy", content)


def test_a_picture_that_is_not_what_is_stated_is_refused_before_it_is_decoded() -> None:
    large = as_file(np.zeros((3000, 3000, 3), np.uint8), "JPEG")
    good = segment(0)
    with pytest.raises(InputError, match=r"frame of 'a' at 0 s.*3000x3000"):
        replace(good, frame=large).image()
    for frame in (good.frame[:-40], good.frame[:10]):
        with pytest.raises(InputError, match="cannot be decoded"):
            replace(good, frame=frame).image()
    for levels in (np.zeros((188, 64), np.uint8), np.zeros((64, 188, 3), np.uint8), np.zeros((20000, 20000), np.uint8)):
        with pytest.raises(InputError, match="spectrogram of 'a' at 0 s"):
            replace(good, spectrogram=as_file(levels, "PNG")).log_mel()
    with pytest.raises(InputError, match="cannot be decoded"):
        replace(good, spectrogram=good.spectrogram[:200]).log_mel()
