"""One video to what records are made of, or the reason why nothing is to be learned from it.

Left out of the release's filters is the one on pictures, whose network was never published. Cheap checks come first: of words, then of the
file, then of its sound; only then frames are decoded.

Source: merlot-reserve-data spec sections 3 to 9.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..errors import ConfigError, InputError, WatchwordError
from ..fields import check_types
from ..media import DEFAULT_LIMITS, Limits, VideoReader, read_subtitles
from ..media.errors import MediaError, NoSubtitlesError
from ..media.subtitles import Word
from ..text.reserve import default_tokenizer
from .draws import record_draws
from .pictures import StoredFrame, store_spectrogram, stored_frames
from .records import Record, RecordSegment
from .segmentation import Section, Span, sections
from .segments import frame_numbers
from .sounds import SectionSounds, section_sounds
from .spoken_language import language_probability
from .timing import TimingRegressor
from .transcribing import load_whisper, transcribe
from .transcript import Quality, clean_words, transcript_quality
from .video_info import VideoInfo, read_info

__all__ = ["REASONS", "Rejected", "VideoSettings", "check_available", "fullest_bin", "prepare_video", "stored_segment"]

REASONS = {
    "no_subtitles": "no subtitles inside or beside the video",
    "category": "of a category that is left out",
    "too_few_words": "too little is said",
    "language": "in another language",
    "no_word_times": "the subtitles do not time words",
    "bad_transcript": "the transcript is bad",
    "too_long": "longer than allowed",
    "no_sound": "no sound",
    "no_segments": "no stretch of five seconds with words",
}
"""Why a video that can be read is left out, as the words under which it is counted."""

KEY = "video"
_BIN_SECONDS = 30.0
_HEARD_SHARE = 0.5  # of a segment's time for which the file must have sound, or the segment counts as without
_TIME_DECIMALS = 4
_MAX_TOKENS = 500_000  # a day of talking has less, and records with more could not be read back


@dataclass(frozen=True)
class VideoSettings:
    """What is taken from a video, and which videos are left out; the defaults are those of the released data.

    seed: of all random choices.
    max_minutes: of a video; 0 for any length.
    reject_categories: of the `.info.json` beside a video.
    min_words: that the fullest 30 seconds must have; 0 for any.
    language: of the subtitles, such as "en"; where `language_probability` is above 0, title, description and words are also looked at by
        py3langid and must be of this language with that probability. "" for any.
    word_times: only subtitles that time words (automatic captions).  transcript: only transcripts of good quality.
    sound: only videos with sound.
    timing: file of the network that corrects word times, or "".
    transcribe: Whisper weights that hear the words of videos without subtitles, see `transcribing`, or "".
    short_side, long_side: most pixels of a stored frame.  jpeg_quality: of it.
    spectrogram: "png", or "jpeg" as released.
    released: words stay unrepaired (D7) and colours are those of the ffmpeg program.

    Raises ConfigError for values that cannot be.
    """

    seed: int = 0
    max_minutes: float = 20.0
    reject_categories: tuple[str, ...] = ("Gaming",)
    min_words: int = 50
    language: str = ""
    language_probability: float = 0.8
    word_times: bool = True
    transcript: bool = True
    sound: bool = True
    timing: str = ""
    transcribe: str = ""
    short_side: int = 288
    long_side: int = 512
    jpeg_quality: int = 75
    spectrogram: Literal["png", "jpeg"] = "png"
    released: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if self.seed < 0 or self.max_minutes < 0 or self.min_words < 0:
            raise ConfigError(f"seed {self.seed}, max_minutes {self.max_minutes}, min_words {self.min_words}: none may be negative")
        if not 0 <= self.language_probability <= 1:
            raise ConfigError(f"language_probability {self.language_probability}; give a number from 0 to 1")
        if not 16 <= self.short_side <= self.long_side <= 4096 or not 1 <= self.jpeg_quality <= 95:
            raise ConfigError(
                f"frames of {self.short_side} by {self.long_side} pixels, quality {self.jpeg_quality}; give 16 to 4096, 1 to 95"
            )
        if self.spectrogram not in ("png", "jpeg"):
            raise ConfigError(f"spectrogram is {self.spectrogram!r}; give 'png' or 'jpeg'")


@dataclass(frozen=True)
class Rejected:
    """A video that is left out. reason: one of `REASONS`, or of the media errors.  failed: it could not be read, which nobody wanted."""

    reason: str
    message: str
    failed: bool = False


def prepare_video(
    path: str | os.PathLike[str], settings: VideoSettings | None = None, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Record | Rejected:
    """All segments of a video in one long record (to be grouped into records of equal length), or why there are none.

    name: the video's id, where no `.info.json` beside it gives one; default: its file name. All random choices follow from the seed and
    the id. Memory does not grow with the length but for 33 MB an hour of sound and what is kept.

    Raises MissingExtraError and the like if a setting needs what is not installed.
    """
    settings = settings or VideoSettings()
    try:
        return _prepare(path, settings, name or os.path.basename(os.fspath(path)), limits)
    except _LeftOut as left_out:
        return Rejected(left_out.reason, left_out.message)
    except MediaError as error:
        return Rejected(error.reason, error.message, failed=True)
    except (InputError, OSError) as error:
        return Rejected("unusable", " ".join(str(error).split()), failed=True)


class _LeftOut(WatchwordError):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def _prepare(path: str | os.PathLike[str], settings: VideoSettings, name: str, limits: Limits) -> Record:
    info = read_info(path)
    video_id = info.id or os.fsencode(name).decode("utf-8", "backslashreplace")
    words, word_timed = _words(path, settings, limits)
    quality = _check_words(words, word_timed, info, settings)
    if settings.timing and word_timed:
        words = _regressor(settings.timing).correct(words)
    with VideoReader(path, limits=limits, num_threads=1, ffmpeg_color=settings.released) as reader:
        start, end = reader.start_seconds, reader.end_seconds
        if settings.max_minutes and end - start > 60 * settings.max_minutes:
            raise _LeftOut("too_long", f"{(end - start) / 60:.1f} minutes; at most {settings.max_minutes:g} are allowed")
        words = [word for word in words if word.end > start]  # the picture of a recording may begin late
        draws = record_draws(settings.seed, 0, video_id)
        found = sections(words, end, lambda: float(draws.uniform("section", ())))
        if not found:
            raise _LeftOut("no_segments", f"{len(words)} words in {end - start:.1f} s give no segment")
        sounds = section_sounds(path, found, start=start, end=end, limits=limits)
        if sounds.missing and settings.sound:
            raise _LeftOut("no_sound", "the file has no sound that can be decoded")
        frames = stored_frames(
            reader,
            frame_numbers(reader.times, [section.span for section in found], start),
            short=settings.short_side,
            long=settings.long_side,
            quality=settings.jpeg_quality,
        )
    video = info.tokens(
        default_tokenizer(),
        seconds=round(end - start, 2),
        fullest_bin=fullest_bin(words),
        good_fraction=round(quality.good_fraction, 3),
        length_variance=round(quality.length_variance, 3),
        word_timed=word_timed,
    )
    segments = _segments(video_id, words, found, sounds, frames, settings)
    if (num_tokens := sum(len(segment.tokens) for segment in segments)) > _MAX_TOKENS:
        raise _LeftOut("bad_transcript", f"{num_tokens} tokens, more than anybody says")
    return Record(KEY, segments, (video,))


def _words(path: str | os.PathLike[str], settings: VideoSettings, limits: Limits) -> tuple[list[Word], bool]:
    """The cleaned words, and whether they are timed one by one."""
    try:
        subtitles = read_subtitles(path, language=settings.language or None, limits=limits)
        words, word_timed = list(subtitles.words), subtitles.word_timed
    except NoSubtitlesError as error:
        if not settings.transcribe:
            raise _LeftOut("no_subtitles", error.message) from None
        words, word_timed = transcribe(path, settings.transcribe, language=settings.language or None), True
    return clean_words(words, repair=not settings.released), word_timed


def _check_words(words: Sequence[Word], word_timed: bool, info: VideoInfo, settings: VideoSettings) -> Quality:
    quality = transcript_quality([word.text for word in words])
    if unwanted := set(settings.reject_categories) & set(info.categories):
        raise _LeftOut("category", f"category {min(unwanted)!r}")
    if (most := fullest_bin(words)) < settings.min_words:
        raise _LeftOut("too_few_words", f"{most} words in the fullest 30 seconds; {settings.min_words} are needed")
    if settings.language and settings.language_probability:
        probability = language_probability(settings.language, info.title, info.description, [word.text for word in words])
        if probability < settings.language_probability:
            raise _LeftOut(
                "language", f"{settings.language!r} with probability {probability:.2f}; {settings.language_probability:g} is needed"
            )
    if settings.word_times and not word_timed:
        raise _LeftOut("no_word_times", "the subtitles time cues, not words")
    if settings.transcript and not quality.keep:
        raise _LeftOut(
            "bad_transcript",
            f"{quality.good_fraction:.0%} of the words are good; the variance of their lengths is {quality.length_variance:.1f}",
        )
    return quality


def fullest_bin(words: Sequence[Word]) -> int:
    """Most words that start in one of the stretches of 30 seconds."""
    return max(Counter(int(word.start // _BIN_SECONDS) for word in words).values(), default=0)


def _segments(
    video_id: str,
    words: Sequence[Word],
    found: Sequence[Section],
    sounds: SectionSounds,
    frames: Sequence[StoredFrame],
    settings: VideoSettings,
) -> tuple[RecordSegment, ...]:
    made = []
    for number, (section, frame) in enumerate(zip(found, frames, strict=True)):
        spoken = [
            (words[row].text, round(start, _TIME_DECIMALS), round(end, _TIME_DECIMALS))
            for row, (start, end) in zip(section.rows, section.relative(words), strict=True)
        ]
        spectrogram = store_spectrogram(sounds.log_mels[number].numpy(), settings.spectrogram)
        has_sound = bool(sounds.covered[number] >= _HEARD_SHARE)
        made.append(stored_segment(video_id, section.span, section.speed, spoken, frame, spectrogram, has_sound=has_sound))
    return tuple(made)


def stored_segment(
    video_id: str,
    span: Span,
    speed: int,
    spoken: Sequence[tuple[str, float, float]],
    frame: StoredFrame,
    spectrogram: tuple[float, bytes],
    *,
    has_sound: bool = True,
) -> RecordSegment:
    """A segment of a record whose only video is this one.

    spoken: (word, start, end) in seconds since the segment's start, in the sped-up clock; all tokens of a word get its times.
    spectrogram: what `store_spectrogram` gave.
    """
    tokenizer = default_tokenizer()
    timed = [(token, start, end) for word, start, end in spoken for token in tokenizer.encode(word, special=False)]
    magic_number, picture = spectrogram
    return RecordSegment(
        video_id=video_id,
        video_src_index=0,
        playback_speed=speed,
        start_time=span.start,
        end_time=span.end,
        tokens=tuple(token for token, _, _ in timed),
        token_starts=tuple(start for _, start, _ in timed),
        token_ends=tuple(end for _, _, end in timed),
        width=frame.width,
        height=frame.height,
        magic_number=magic_number,
        frame=frame.jpeg,
        spectrogram=picture,
        has_sound=has_sound,
    )


@lru_cache(maxsize=2)
def _regressor(path: str) -> TimingRegressor:
    return TimingRegressor.load(path)


def check_available(settings: VideoSettings) -> None:
    """Raise now, not for every video anew, if a file or an optional library that the settings need is not there."""
    if settings.timing:
        _regressor(settings.timing)
    if settings.language and settings.language_probability:
        language_probability(settings.language, "", "", [])
    if settings.transcribe:
        load_whisper(settings.transcribe)
