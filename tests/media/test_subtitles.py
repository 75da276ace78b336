"""Subtitles of every kind become the same cues and timed words; dirty files too, with a report."""

from __future__ import annotations

import codecs
import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from media_files import files_with_facts

from watchword.media.errors import EmptyFileError, MediaError, NoSubtitlesError, NotMediaError
from watchword.media.subtitles import Subtitles, parse_subtitles, read_subtitles

TOLERANCE_SECONDS = 0.0015


def collapsed(text: str) -> str:
    return " ".join(text.split())


def same_cue(cue: object, expected: dict) -> bool:
    text = expected["text"].replace("<i>", "").replace("</i>", "")
    return (
        abs(cue.start - expected["start"]) <= TOLERANCE_SECONDS
        and abs(cue.end - expected["end"]) <= TOLERANCE_SECONDS
        and collapsed(cue.text) == collapsed(text)
    )


def check(found: Subtitles, expected: dict, name: str) -> None:
    exact = expected.get("cues") or expected.get("events_with_text") or expected.get("embedded_cues")
    if exact is not None:
        assert len(found.cues) == len(exact), name
        assert all(map(same_cue, found.cues, exact)), name
    for wanted in expected.get("must_have", []):
        assert any(same_cue(cue, wanted) for cue in found.cues), (name, wanted)
    if "n_cues" in expected:
        assert len(found.cues) == expected["n_cues"], name
    if "may_have" in expected:
        allowed = expected["must_have"] + expected["may_have"]
        assert all(any(same_cue(cue, one) for one in allowed) for cue in found.cues), name
    for forbidden in expected.get("must_not_contain", []):
        assert forbidden not in found.text, name
    if "text" in expected:
        assert found.text == expected["text"], name
    if "words" in expected:
        assert [word.text for word in found.words] == [word["word"] for word in expected["words"]], name
        times = [word["start"] for word in expected["words"]]
        np.testing.assert_allclose([word.start for word in found.words], times, atol=TOLERANCE_SECONDS)
        assert not any(word.estimated for word in found.words), name
    for wanted in expected.get("words_with_own_time", []):
        matches = [word for word in found.words if word.text.strip("'").rstrip(".") == wanted["word"] and not word.estimated]
        assert any(abs(word.start - wanted["start"]) <= TOLERANCE_SECONDS for word in matches), (name, wanted)
    for start, voices in expected.get("voices", {}).items():
        assert [cue.voices for cue in found.cues if cue.start == float(start)] == [tuple(voices)], name
    if "language" in expected:
        assert found.language == expected["language"], name
    check_order(found)


def check_order(found: Subtitles) -> None:
    assert [cue.start for cue in found.cues] == sorted(cue.start for cue in found.cues)
    for cue in found.cues:
        assert 0 <= cue.start <= cue.end and cue.text.strip()
        assert [word.text for word in cue.words] == cue.text.split() or found.word_timed
        for word in cue.words:
            assert cue.start - 1e-9 <= word.start <= word.end <= cue.end + 1e-9


def test_every_subtitle_file_gives_what_is_expected(media_root: Path) -> None:
    folder = media_root / "subtitles"
    if not (folder / "expected.json").is_file():
        pytest.skip(f"no expected.json in {folder}")
    expected_files = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["files"]
    for name, expected in expected_files.items():
        try:
            found = read_subtitles(folder / name)
            if "encoding" in expected and codecs.lookup(found.encoding) != codecs.lookup(expected["encoding"]):
                assert found.report, name  # a guess, which is told
                found = read_subtitles(folder / name, encoding=expected["encoding"])
        except MediaError as error:
            assert expected.get("broken") and not expected.get("cues") and not expected.get("must_have"), (name, error)
            assert "\n" not in str(error)
        else:
            check(found, expected, name)
    assert expected_files


def test_embedded_tracks_give_what_is_expected(media_root: Path) -> None:
    for path, expected in files_with_facts(media_root):
        for track in expected.get("subtitles") or []:
            found = read_subtitles(path, track=track["stream_index"])
            assert (found.format, found.language) == (track["codec"], track.get("language"))
            check(found, expected, path.name)
        if expected["outcome"] == "ok" and not expected["streams"]["subtitle"]:
            with pytest.raises(NoSubtitlesError):
                read_subtitles(path)


def test_word_times_equal_those_of_the_released_reader(golden_root: Path) -> None:
    golden = json.loads((golden_root / "reserve_data" / "subtitles.json").read_text(encoding="utf-8"))
    for case in golden["readers"]:
        if case["words"] is None:
            assert not parse_subtitles(case["text"]).word_timed
            continue
        words = parse_subtitles(case["text"]).words
        assert [word.text for word in words] == [word for word, _, _ in case["words"]]
        np.testing.assert_allclose([(w.start, w.end) for w in words], [times for _, *times in case["words"]], atol=1e-9)


def test_what_was_repaired_is_told_with_its_line() -> None:
    text = "1\n00:00:05,000 --> 00:00:04,000\nback\n\n2\nno time\n\n3\n00:00:01,000 --> 00:00:02,000\n\n4\n00:00:0x --> 00:00:09,000\nbad\n"
    found = parse_subtitles(text)
    assert [(cue.start, cue.end, cue.text) for cue in found.cues] == [(5, 5, "back")]
    assert [(repair.line, repair.action) for repair in found.report] == [
        (5, "cue dropped"),
        (12, "cue dropped"),
        (2, "ends at its start now"),
        (9, "cue dropped"),
    ]
    assert str(found.report[0]) == "line 5: number and no time; cue dropped"


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("00:00:01,000 --> 00:00:02,000\n\na\n\n2\n\n00:00:03,000 --> 00:00:04,000\n\nb\n", ["a", "b"]),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n\nstill a\n\n2\n00:00:03,000 --> 00:00:04,000\nb", ["a\nstill a", "b"]),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n2\n00:00:03,000 --> 00:00:04,000\nb", ["a", "b"]),
        ("1\n00: 00: 01. 000 -> 00:00:02.000  X1:10 X2:20\n<font color='red'>a</font> <3 &amp; b < c\n", ["a <3 & b < c"]),
        ("1\n00:00:01,000 --> 00:00:02,000\n42\n\n2\n00:00:03,000 --> 00:00:04,000\nb --> c\n", ["42", "b --> c"]),
    ],
)
def test_dirty_subrip_is_read(tmp_path: Path, text: str, cues: list[str]) -> None:
    for ends in ("\n", "\r\n", "\r\r\n", "\r"):
        (tmp_path / "dirty").write_bytes(text.replace("\n", ends).encode())
        assert [cue.text for cue in read_subtitles(tmp_path / "dirty").cues] == cues


def test_lines_said_twice_are_kept_and_lines_shown_twice_are_not() -> None:
    song = "WEBVTT\n\n00:01.000 --> 00:02.000\nla la\n\n00:02.000 --> 00:03.000\nla la\n"
    assert len(parse_subtitles(song).cues) == 2
    rolling = song + "\n00:03.000 --> 00:03.010\nla la\n\n00:03.010 --> 00:04.000\nla la\nend\n"
    assert [cue.text for cue in parse_subtitles(rolling).cues] == ["la la", "end"]


def test_syllables_are_joined_and_ideographs_are_not() -> None:
    found = parse_subtitles("WEBVTT\n\n00:01.000 --> 00:03.000\ntwin<00:01.500>kle <00:02.000>star<00:02.500>今日<00:02.800>は\n")
    assert [(word.text, word.start, word.estimated) for word in found.words] == [
        ("twinkle", 1.0, False),
        ("star", 2.0, False),
        ("今日", 2.5, False),
        ("は", 2.8, False),
    ]


def test_drawings_of_ass_are_no_words() -> None:
    head = "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    text = head + "Dialogue: 0,0:00:01.00,0:00:02.00,,Ann,0,0,0,,{\\p1}m 0 0 l 100 0{\\p0}one\\htwo\\Nthree, four\n"
    [cue] = parse_subtitles(text).cues
    assert (cue.text, cue.voices) == ("one two\nthree, four", ("Ann",))


def test_srv3_words_are_timed() -> None:
    text = (
        '<?xml version="1.0" encoding="utf-8" ?><timedtext format="3"><body><w t="0" id="1"/>'
        '<p t="1000" d="3000" w="1"><s ac="0">hey</s><s t="400" ac="0"> there</s></p><p t="2900" d="900" w="1" a="1">\n</p>'
        "</body></timedtext>"
    )
    found = parse_subtitles(text)
    assert [(w.text, w.start, w.end, w.estimated) for w in found.words] == [("hey", 1.0, 1.4, False), ("there", 1.4, 2.9, False)]
    assert found.format == "srv3" and not found.report


def test_encodings_are_told_apart(tmp_path: Path) -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nÜber größere Straßen, así – naïve “café”\n"
    for encoding, name in (("utf-8", "utf-8"), ("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be"), ("cp1252", "cp1252")):
        path = tmp_path / f"{encoding}.srt"
        path.write_bytes(text.encode(encoding))
        found = read_subtitles(path)
        assert found.encoding == name and found.cues[0].text == text.split("\n")[2]
        assert bool(found.report) == (name == "cp1252")
    path.write_bytes(text.replace("Über", "Привет").encode("utf-8") + b"\n2\n00:00:03,000 --> 00:00:04,000\ncut \xd0")
    assert read_subtitles(path).cues[0].text.startswith("Привет")
    path.write_bytes("1\n00:00:01,000 --> 00:00:02,000\nПривет\n".encode("cp1251"))
    assert read_subtitles(path, encoding="cp1251").cues[0].text == "Привет"
    with pytest.raises(NoSubtitlesError, match="encoding"):
        read_subtitles(path, encoding="utf-8")


def write_video(path: Path) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25, width=64, height=48, pix_fmt="yuv420p")
        for number in range(25):
            frame = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_side_cars_are_found_by_name_and_language(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a [clip] %d.part.mp4")

    def write(ending: str, text: str) -> None:
        (tmp_path / f"a [clip] %d.part.{ending}").write_text(f"1\n00:00:00,100 --> 00:00:00,900\n{text}\n", encoding="utf-8")

    with pytest.raises(NoSubtitlesError, match="neither inside nor beside"):
        read_subtitles(video)
    write("part2.srt", "another video")
    write("de-orig.srt", "hallo")
    write("en.SRT", "hello")
    assert read_subtitles(video, language="eng").text == "hello"
    assert read_subtitles(video, language="ger").language == "de-orig"
    with pytest.raises(NoSubtitlesError, match="language 'fr'"):
        read_subtitles(video, language="fr")
    write("srt", "plain")
    assert read_subtitles(video).text == "plain"
    assert read_subtitles(video, language="fr").text == "plain"
    (tmp_path / "a [clip] %d.part.vtt").write_bytes(b"\0\1\2")
    found = read_subtitles(video)
    assert found.text == "plain" and "side-car left out" in str(found.report[0])


def test_what_holds_no_subtitles_is_refused_in_one_line(tmp_path: Path) -> None:
    cases = {
        "a.vtt": (b"", EmptyFileError),
        "b.srt": (b"nothing of the kind\n", NoSubtitlesError),
        "c.txt": (b"nothing of the kind\n", NotMediaError),
        "d.json3": (b'{"events": 3}', NoSubtitlesError),
        "e.srv1": (b"<transcript><text", NoSubtitlesError),
        "f.srv1": (b'<!DOCTYPE x [<!ENTITY a "b">]><transcript></transcript>', NoSubtitlesError),
        "g.json3": (b'{"events": ' + b"[" * 100000, NoSubtitlesError),
        "h.srt": (b"1\n99:99 --> never\nx\n", NoSubtitlesError),
    }
    for name, (data, kind) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(kind) as caught:
            read_subtitles(tmp_path / name)
        assert "\n" not in str(caught.value) and name in str(caught.value)
    with pytest.raises(MediaError, match="no such file"):
        read_subtitles(tmp_path / "missing.srt")


WORDS = st.text(st.characters(codec="utf-8", categories=["L"]), min_size=1, max_size=8)
LINES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
TEXTS = st.lists(LINES, min_size=1, max_size=3).map("\n".join)
CUES = st.lists(st.tuples(st.integers(0, 9_000_000), st.integers(100, 9_000), TEXTS), min_size=1, max_size=8)


def stamp(milliseconds: int, point: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{rest:03}"


@settings(max_examples=60, deadline=None)
@given(CUES, st.sampled_from(["vtt", "srt", "json3", "srv1"]))
def test_written_cues_are_read_back(cues: list[tuple[int, int, str]], kind: str) -> None:
    cues = sorted(cues, key=lambda cue: cue[0])
    if kind == "json3":
        events = [{"tStartMs": start, "dDurationMs": length, "segs": [{"utf8": text}]} for start, length, text in cues]
        written = json.dumps({"events": events})
    elif kind == "srv1":
        lines = [f'<text start="{start / 1000:.3f}" dur="{length / 1000:.3f}">{text}</text>' for start, length, text in cues]
        written = f"<transcript>{''.join(lines)}</transcript>"
    else:
        point = "," if kind == "srt" else "."
        blocks = [f"{i}\n{stamp(a, point)} --> {stamp(a + n, point)}\n{text}\n" for i, (a, n, text) in enumerate(cues, 1)]
        written = ("WEBVTT\n\n" if kind == "vtt" else "") + "\n".join(blocks)
    found = parse_subtitles(written)
    assert found.format == kind and not found.report
    assert [cue.text for cue in found.cues] == [text for _, _, text in cues]
    np.testing.assert_allclose([(c.start, c.end) for c in found.cues], [(a / 1000, (a + n) / 1000) for a, n, _ in cues], atol=1e-6)
    assert not found.word_timed
    check_order(found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(1, 2000)), min_size=2, max_size=12), st.integers(0, 100_000))
def test_written_word_times_are_read_back(words: list[tuple[str, int]], start: int) -> None:
    times = start + np.cumsum([0] + [length for _, length in words])
    parts = [f"<{stamp(int(time), '.')}><c> {word}</c>" for (word, _), time in zip(words[1:], times[1:-1], strict=True)]
    timing = f"{stamp(start, '.')} --> {stamp(int(times[-1]), '.')} align:start position:0%"
    found = parse_subtitles(f"WEBVTT\nKind: captions\nLanguage: en\n\n{timing}\n \n{words[0][0]}{''.join(parts)}\n")
    assert [word.text for word in found.words] == [word for word, _ in words]
    np.testing.assert_allclose([(w.start, w.end) for w in found.words], np.stack([times[:-1], times[1:]], 1) / 1000, atol=1e-9)
    assert found.word_timed and not any(word.estimated for word in found.words)


def mutated(data: bytes, changes: list[tuple[int, bytes]]) -> bytes:
    for place, new in changes:
        place %= len(data) + 1
        data = data[:place] + new + data[place + len(new) // 2 :]
    return data


SEEDS = [
    b"WEBVTT\n\n00:01.000 --> 00:03.000\nhi<00:01.500><c> you</c> <v Ann>there</v> &lt;\n",
    b"1\n00:00:01,000 --> 00:00:02,000\n{\\an8}text\n\n2\n00:00:03,000 --> 00:00:04,000\nmore\n",
    b"[Script Info]\n[Events]\nFormat: Layer, Start, End, Text\nDialogue: 0,0:00:01.00,0:00:02.00,{\\k50}a{\\k20}b\\Nc\n",
    b'{"events": [{"tStartMs": 1000, "dDurationMs": 2000, "segs": [{"utf8": "a"}, {"utf8": " b", "tOffsetMs": 300}]}]}',
    b'<?xml version="1.0" ?><transcript><text start="1" dur="2.5">a &lt;b></text></transcript>',
    b'<timedtext format="3"><body><p t="1000" d="500"><s>a</s><s t="100"> b</s></p></body></timedtext>',
]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*SEEDS, b""]), st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=6))
def test_any_bytes_give_cues_or_a_media_error(tmp_path: Path, seed: bytes, changes: list[tuple[int, bytes]]) -> None:
    (tmp_path / "any.srt").write_bytes(mutated(seed, changes))
    try:
        found = read_subtitles(tmp_path / "any.srt")
    except MediaError as error:
        assert "\n" not in str(error)
    else:
        check_order(found)
