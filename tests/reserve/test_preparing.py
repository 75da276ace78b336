"""One video becomes segments that hold what the video shows, sounds and says, or is left out for the right reason."""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest
import torch

from clips_with_sound import RATE, sine, write_clip
from media.media_files import files_with_facts
from shared_folders import MEDIA_ROOT
from talking_clips import words_of, write_talk, write_vtt
from watchword.errors import ConfigError, InputError, MissingExtraError
from watchword.media import VideoReader, read_sound
from watchword.media.subtitles import Word
from watchword.playground import write_folder
from watchword.reserve import pictures
from watchword.reserve import spectrogram as sp
from watchword.reserve.images import stored_size
from watchword.reserve.preparing import REASONS, Rejected, VideoSettings, check_available, fullest_bin, prepare_video
from watchword.reserve.records import Record, RecordSegment, members_of, record_from
from watchword.reserve.segmentation import Span
from watchword.reserve.segments import frame_numbers
from watchword.reserve.transcribing import heard_words
from watchword.text.reserve import default_tokenizer

NO_FILTERS = VideoSettings(max_minutes=0, reject_categories=(), min_words=0, word_times=False, transcript=False, sound=False)


def prepared(path: Path, settings: VideoSettings = NO_FILTERS) -> Record:
    found = prepare_video(path, settings)
    assert isinstance(found, Record), found
    return found


def rejected(path: Path, **changes: object) -> Rejected:
    found = prepare_video(path, replace(NO_FILTERS, **changes))
    assert isinstance(found, Rejected) and "\n" not in found.message
    return found


def same_after_writing(record: Record) -> bool:
    members = members_of(record)
    return members_of(record_from(record.key, dict(members))) == members


def exact_log_mel(path: Path, segment: RecordSegment) -> np.ndarray:
    """By the specification: the whole wave divided by its peak, zeros behind it, a stretch of it."""
    wave = sp.from_levels(sp.levels(read_sound(path, rate=RATE).samples))
    first, count = int(RATE * segment.start_time + 1e-6), sp.SEGMENT_SAMPLES * segment.playback_speed
    stretch = np.zeros(count, np.float32)
    stretch[: len(wave[first : first + count])] = wave[first : first + count]
    return sp.log_mel(torch.from_numpy(stretch), segment.playback_speed).numpy()


def holds_the_sound(path: Path, segment: RecordSegment, tolerance: float) -> bool:
    expected = np.minimum(exact_log_mel(path, segment), 255 / segment.magic_number)
    return bool(abs(segment.log_mel().numpy() - expected).max() * segment.magic_number <= tolerance)


def test_segments_hold_words_frame_and_sound(tmp_path: Path) -> None:
    words = write_talk(tmp_path / "talk.mkv", seconds=30)
    record = prepared(tmp_path / "talk.mkv", VideoSettings())
    assert len(record.segments) == 5 and [segment.video_id for segment in record.segments] == ["talk.mkv"] * 5
    encode = default_tokenizer().encode
    spoken = [token for segment in record.segments for token in segment.tokens]
    assert spoken == [token for word in words for token in encode(word.text)][: len(spoken)] and len(spoken) > 55
    for segment in record.segments:
        assert segment.end_time - segment.start_time == pytest.approx(5) and segment.has_sound
        assert min(segment.token_starts) > -0.5 and max(segment.token_ends) < 5.5
        middle = (segment.start_time + segment.end_time) / 2
        assert segment.image().shape == (36, 64, 3)  # the bars are off
        assert abs(segment.image().astype(int) - (80 + np.ceil(5 * middle - 0.001) % 100)).max() <= 3
        assert holds_the_sound(tmp_path / "talk.mkv", segment, 1.001)
    assert record.videos[0].title == tuple(encode("talk"))


def test_few_words_are_played_faster(tmp_path: Path) -> None:
    write_talk(tmp_path / "slow.mkv", seconds=50, each=1.2)
    segments = prepared(tmp_path / "slow.mkv").segments
    assert {segment.playback_speed for segment in segments} >= {2}
    for segment in segments:
        assert segment.end_time - segment.start_time == pytest.approx(5 * segment.playback_speed)
        assert max(segment.token_ends, default=0) < 5.7 and len(segment.tokens) >= 4
        assert holds_the_sound(tmp_path / "slow.mkv", segment, 1.001)


def test_jpeg_spectrograms_are_within_fifteen_levels(tmp_path: Path) -> None:
    write_talk(tmp_path / "talk.mkv", seconds=20)
    for segment in prepared(tmp_path / "talk.mkv", replace(NO_FILTERS, spectrogram="jpeg")).segments:
        assert segment.spectrogram.startswith(b"\xff\xd8") and holds_the_sound(tmp_path / "talk.mkv", segment, 15)


def test_choices_follow_from_seed_and_id_alone(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_talk(tmp_path / folder / "talk.mkv", seconds=20)
    one, other = (members_of(prepared(tmp_path / folder / "talk.mkv")) for folder in ("a", "b"))
    assert one == other
    path = tmp_path / "a" / "talk.mkv"
    starts = {prepare_video(path, NO_FILTERS, name=name).segments[0].start_time for name in "abcdef"}  # type: ignore[union-attr]
    starts |= {prepared(path, replace(NO_FILTERS, seed=seed)).segments[0].start_time for seed in range(5)}
    assert starts == {0.0}  # the first word is at 0.2 s
    write_vtt(path.with_suffix(".vtt"), words_of(20, start=4))
    starts = {prepare_video(path, NO_FILTERS, name=name).segments[0].start_time for name in "abcdef"}  # type: ignore[union-attr]
    assert len(starts) > 3 and 1.5 <= min(starts) <= max(starts) <= 4


def test_what_the_info_file_says(tmp_path: Path) -> None:
    path = tmp_path / "file.mkv"
    write_talk(path, seconds=20)
    info = {"id": "dQw4w9WgXcQ", "title": "A <|MASK|> song", "description": None, "tags": ["one", 2, "two"], "view_count": 5}
    path.with_suffix(".info.json").write_text(json.dumps(info | {"channel": ["x"], "categories": ["Music"]}))
    record = prepared(path)
    encode = default_tokenizer().encode
    assert {segment.video_id for segment in record.segments} == {"dQw4w9WgXcQ"}
    video = record.videos[0]
    assert video.title == tuple(encode("A <|MASK|> song", special=False)) and 3 not in video.title
    assert video.description == () and video.tags == tuple(encode("one, two"))
    assert video.meta["view_count"] == 5 and "channel" not in video.meta and video.meta["categories"] == ["Music"]
    assert rejected(path, reject_categories=("Music",)).reason == "category"
    hostile = {"average_rating": float("inf"), "view_count": 10**400, "tags": ["t" * 10**4] * 200, "categories": "abc", "id": "a\nb"}
    path.with_suffix(".info.json").write_text(json.dumps(info | hostile | {"channel": "c" * 10**4, "title": "\udc80 \ud800"}))
    record = prepared(path)
    assert same_after_writing(record) and record.segments[0].video_id == "file.mkv" and len(record.videos[0].tags) <= 1024
    assert record.videos[0].meta["channel"] == "c" * 200 and not {"view_count", "average_rating"} & set(record.videos[0].meta)
    for text in ("[1]", "{", "[" * 100_000):
        path.with_suffix(".info.json").write_text(text)
        assert rejected(path).failed and "info.json" in rejected(path).message


def test_each_reason_to_leave_a_video_out(tmp_path: Path) -> None:
    path, seen = tmp_path / "talk.mkv", {"category", "language"}  # above and below
    write_talk(path, seconds=20)

    def is_left_out(reason: str, where: Path = path, **changes: object) -> None:
        assert isinstance(prepare_video(where, NO_FILTERS), Record) or reason in ("no_subtitles", "no_segments")
        found = rejected(where, **changes)
        assert (found.reason, found.failed) == (reason, False)
        seen.add(reason)

    is_left_out("too_long", max_minutes=0.3)
    is_left_out("too_few_words", min_words=50)
    assert isinstance(prepare_video(path, replace(NO_FILTERS, min_words=49)), Record)
    shutil.copy(path, tmp_path / "alone.mkv")
    is_left_out("no_subtitles", tmp_path / "alone.mkv")
    is_left_out("no_subtitles", language="de", language_probability=0.0)
    write_talk(tmp_path / "cues.mkv", seconds=20, timed=False)
    is_left_out("no_word_times", tmp_path / "cues.mkv", word_times=True)
    write_talk(tmp_path / "mute.mkv", seconds=20, sound=False)
    is_left_out("no_sound", tmp_path / "mute.mkv", sound=True)
    assert not any(segment.has_sound or segment.log_mel().any() for segment in prepared(tmp_path / "mute.mkv").segments)
    write_talk(tmp_path / "short.mkv", seconds=5)
    is_left_out("no_segments", tmp_path / "short.mkv")
    shouting = [replace(word, text=word.text.upper()) for word in words_of(20)]
    write_vtt(path.with_suffix(".vtt"), shouting)
    is_left_out("bad_transcript", transcript=True)
    assert seen == set(REASONS)


@pytest.mark.skipif(importlib.util.find_spec("py3langid") is None, reason="py3langid is not installed: watchword[language]")
def test_the_language_of_title_and_words(tmp_path: Path) -> None:
    path = tmp_path / "talk.mkv"
    write_talk(path, seconds=20)
    assert isinstance(prepare_video(path, replace(NO_FILTERS, language="en")), Record)
    german = ("heute", "regnet", "es", "und", "die", "kleine", "katze", "schaut", "den", "ganzen", "tag", "aus", "dem", "fenster")
    write_vtt(path.with_suffix(".vtt"), [replace(word, text=german[i % len(german)]) for i, word in enumerate(words_of(20))])
    assert rejected(path, language="en").reason == "language"


@pytest.mark.skipif(importlib.util.find_spec("py3langid") is not None, reason="py3langid is installed")
def test_without_py3langid_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"watchword\[language\]"):
        check_available(replace(NO_FILTERS, language="en"))
    check_available(replace(NO_FILTERS, language="en", language_probability=0.0))


@pytest.mark.skipif(importlib.util.find_spec("faster_whisper") is not None, reason="faster-whisper is installed")
def test_without_faster_whisper_the_extra_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=r"watchword\[transcribe\]"):
        check_available(replace(NO_FILTERS, transcribe="small"))
    write_clip(tmp_path / "mute.mkv", seconds=8)
    with pytest.raises(MissingExtraError):
        prepare_video(tmp_path / "mute.mkv", replace(NO_FILTERS, transcribe="small"))


def test_what_whisper_hears_becomes_words() -> None:
    hello, blank = SimpleNamespace(word=" Hello", start=0.5, end=0.9, probability=1), SimpleNamespace(word=" ", start=1, end=1)
    world = SimpleNamespace(word="world.", start=2.0, end=1.9)
    heard = [SimpleNamespace(words=[hello, blank]), SimpleNamespace(words=None), SimpleNamespace(words=[world])]
    assert heard_words(heard) == [Word("Hello", 0.5, 0.9), Word("world.", 2.0, 2.0)]


def test_speech_density_counts_words_by_their_start() -> None:
    words = [Word("a", start, start + 1) for start in (0, 29.9, 30, 59.9, 59.95, 61)]
    assert fullest_bin(words) == 3 and fullest_bin([]) == 0 and fullest_bin([Word("a", 1e8, 1e8)]) == 1


def test_sound_that_covers_less_than_half_of_a_segment_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "late.mkv"
    write_clip(path, seconds=22, sounds={7.0: sine(440, 3.5)})
    write_vtt(path.with_suffix(".vtt"), words_of(22, start=0.0))
    assert [segment.has_sound for segment in prepared(path).segments] == [False, True, False, False]


def test_words_before_the_picture_begins_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "late.ts"
    with av.open(str(path), "w", format="mpegts", container_options={"muxpreload": "0", "muxdelay": "0"}) as container:
        stream = container.add_stream("mpeg2video", rate=5, width=64, height=48, pix_fmt="yuv420p")
        for number in range(60, 150):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 120, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 5)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with VideoReader(path) as reader:
        start = reader.start_seconds
    assert start > 10
    write_vtt(path.with_suffix(".vtt"), words_of(30))
    segments = prepared(path).segments
    assert len(segments) >= 2 and min(segment.start_time for segment in segments) > start - 3


def test_more_words_than_anybody_says_are_no_transcript(tmp_path: Path) -> None:
    path = tmp_path / "talk.mkv"
    write_talk(path, seconds=20)
    write_vtt(path.with_suffix(".vtt"), [replace(word, text="ab" * 50_000) for word in words_of(20)])
    assert rejected(path).reason == "bad_transcript"


def test_frames_too_many_to_keep_are_the_same_decoded_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_talk(tmp_path / "talk.mkv", seconds=60)
    kept = prepared(tmp_path / "talk.mkv")
    monkeypatch.setattr(pictures, "_MAX_KEPT_BYTES", 0)
    monkeypatch.setattr(pictures, "_FRAMES_AT_ONCE", 3)
    assert members_of(prepared(tmp_path / "talk.mkv")) == members_of(kept)


def test_large_frames_are_made_smaller() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (720, 1280, 3), np.uint8)
    stored = pictures.store_frame(frame)
    assert (stored.width, stored.height) == stored_size(1280, 720) == (512, 288)


@pytest.mark.parametrize(
    "changes", [{"spectrogram": "gif"}, {"seed": -1}, {"short_side": 600}, {"language_probability": 2.0}, {"min_words": "5"}]
)
def test_settings_that_cannot_be(changes: dict) -> None:
    with pytest.raises(ConfigError):
        VideoSettings(**changes)


def test_a_missing_timing_network_is_said_before_any_video() -> None:
    with pytest.raises(InputError, match=r"nowhere\.json"):
        check_available(replace(NO_FILTERS, timing="nowhere.json"))


def test_playground_clips_hold_what_they_show(tmp_path: Path) -> None:
    write_folder(tmp_path, 1, duration_seconds=20)
    path = tmp_path / "00000.mp4"
    write_vtt(path.with_suffix(".vtt"), words_of(20))
    check_against_video(path, prepared(path))


def check_against_video(path: Path, record: Record) -> None:
    """Frames near the video's where no bars were cut off, sound as the specification has it."""
    with VideoReader(path) as reader:
        start = reader.start_seconds
        for segment in record.segments:
            span = Span(segment.start_time, segment.end_time)
            shown = reader.read(frame_numbers(reader.times, [span], start)).rgb[0]
            if shown.shape == segment.image().shape:
                assert abs(segment.image().astype(int) - shown).mean() < 6, (path, segment.start_time)
            if start == 0:
                assert holds_the_sound(path, segment, 1.001), (path, segment.start_time)


def test_every_real_file_is_prepared_or_left_out(tmp_path: Path) -> None:
    if not MEDIA_ROOT.is_dir():
        pytest.skip(f"{MEDIA_ROOT} is not there: set $WATCHWORD_MEDIA to the folder of fixtures")
    num_prepared = 0
    for path, _ in files_with_facts(MEDIA_ROOT):
        place = tmp_path / path.name
        place.symlink_to(path)
        write_vtt(place.with_suffix(".vtt"), words_of(20))
        found = prepare_video(place, NO_FILTERS)
        if isinstance(found, Record):
            num_prepared += 1
            check_against_video(place, found)
    assert num_prepared > 5
