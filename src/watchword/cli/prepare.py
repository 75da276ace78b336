"""``watchword prepare``: your videos as records that MERLOT Reserve can learn from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .notes import check_folder, note, progress, warnings_as_notes, write_beside
from .running import ALL_DONE, SOME_FAILED

if TYPE_CHECKING:
    from ..datasets.record_folder import FolderSettings, PreparedFolder

__all__ = ["prepare"]

SUMMARY = "summary.html"
_SHOWN = 10  # failures said one by one


class Engine(StrEnum):
    local = "local"
    ray = "ray"


class Picture(StrEnum):
    png = "png"
    jpeg = "jpeg"


def prepare(
    source: str = typer.Argument(..., metavar="FOLDER", help="Videos: a folder with all in it, a pattern, or one file."),
    out: Path = typer.Argument(..., help="Folder for the records; a run that was stopped goes on there."),
    text: Path | None = typer.Option(None, "--text", help="Web text: .txt, or .jsonl with a text field; a file or a folder."),
    repeat_text: bool = typer.Option(False, "--repeat-text", help="Begin again where there is too little text."),
    segments: int = typer.Option(16, "--segments", min=1, max=100, help="Segments of a record."),
    validation: float = typer.Option(0.005, "--validation", min=0, max=0.999, help="Share of the videos to keep for validation."),
    some_validation: bool = typer.Option(False, "--some-validation", help="At least as many of them as one record needs."),
    max_minutes: float = typer.Option(20.0, "--max-minutes", min=0, help="Longer videos are left out; 0 for none."),
    min_words: int = typer.Option(50, "--min-words", min=0, help="Words that the fullest 30 seconds must have."),
    language: str = typer.Option("", "--language", help="Only videos in this language, such as en [default: any]."),
    language_probability: float = typer.Option(
        0.8, "--language-probability", min=0, max=1, help="How surely title and words must be in it; 0 to ask the subtitles alone."
    ),
    cue_times: bool = typer.Option(False, "--cue-times", help="Also subtitles that time lines, not words."),
    any_transcript: bool = typer.Option(False, "--any-transcript", help="Also transcripts that look bad."),
    silent: bool = typer.Option(False, "--silent", help="Also videos without sound."),
    keep_all: bool = typer.Option(False, "--keep-all", help="Leave nothing out that has a segment: no filter at all."),
    timing: str = typer.Option("", "--timing", metavar="FILE", help="Network that corrects the times of words."),
    transcribe: str = typer.Option("", "--transcribe", metavar="MODEL", help="Whisper weights for videos without subtitles."),
    spectrogram: Picture = typer.Option(Picture.png, "--spectrogram", help="How sound is stored; jpeg as released."),
    seed: int = typer.Option(0, "--seed", min=0),
    jobs: int | None = typer.Option(None, "--jobs", "-j", min=0, help="Processes [default: all cores]; 0: this one alone."),
    engine: Engine = typer.Option(Engine.local, "--engine", help="ray: on a Ray cluster that sees the same files."),
    keep_work: bool = typer.Option(False, "--keep-work", help="Keep what was made of each video, in OUT/work."),
) -> None:
    """Cut videos with subtitles into records to train MERLOT Reserve on: frames, sound, words.

    The filters are those of the paper's data. OUT gets shards (.tar), a manifest, rejected.jsonl and summary.html.

    Exit codes: 0 done, 1 some videos cannot be read, 2 wrong usage or no record.
    """
    check_folder(out, "OUT")
    with warnings_as_notes():
        from ..datasets import record_folder
        from ..reserve.preparing import VideoSettings

        videos = VideoSettings(
            seed=seed,
            max_minutes=0.0 if keep_all else max_minutes,
            reject_categories=() if keep_all else VideoSettings().reject_categories,
            min_words=0 if keep_all else min_words,
            language=language,
            language_probability=language_probability,
            word_times=not (cue_times or keep_all),
            transcript=not (any_transcript or keep_all),
            sound=not (silent or keep_all),
            timing=timing,
            transcribe=transcribe,
            spectrogram=spectrogram.value,
        )
        settings = record_folder.FolderSettings(
            videos=videos,
            num_segments=segments,
            validation_share=validation,
            some_validation=some_validation,
            repeat_text=repeat_text,
        )
        raise typer.Exit(_run(source, out, settings, text, jobs, engine, keep_work))


def _run(source: str, out: Path, settings: FolderSettings, text: Path | None, jobs: int | None, engine: Engine, keep_work: bool) -> int:
    from ..datasets import record_folder
    from ..report.prepared import page

    with progress(2, "preparing") as tell:
        prepared = record_folder.prepare(
            [source],
            out,
            settings,
            text=text,
            num_processes=jobs,
            engine=engine.value,
            keep_work=keep_work,
            on_progress=lambda stage, done, total: tell(int(stage == "shards"), done / total),
        )
    if prepared.was_done:
        note(f"note: {out} is finished already: nothing was done")
    _say(prepared)
    summary = out / SUMMARY
    if not (prepared.was_done and summary.exists()):
        write_beside(summary, page(prepared).encode("utf-8", "backslashreplace"))
        note(f"wrote {summary}")
    return SOME_FAILED if prepared.manifest.videos["num_failed"] else ALL_DONE


def _say(prepared: PreparedFolder) -> None:
    from ..report.prepared import reason_lines
    from ..report.text import printable

    failed = [video for video in prepared.rejected if video.failed]
    for video in failed[:_SHOWN]:
        note(f"failed: {printable(video.path)}: {printable(video.message)}")
    if len(failed) > _SHOWN:
        note(f"and {len(failed) - _SHOWN} more failed, see rejected.jsonl")
    manifest = prepared.manifest
    videos = manifest.videos
    print(f"videos      {videos['num_prepared']:8} prepared, {videos['seconds'] / 3600:.2f} hours, {videos['num_segments']} segments")
    for reason, count, meaning in reason_lines(prepared):
        print(f"  left out  {count:8} {reason}: {printable(meaning)}")
    for part in ("train", "validation"):
        shards = manifest.shards(part)
        size = sum(shard.num_bytes for shard in shards) / 1e6
        print(f"{part:11} {manifest.num_records(part):8} records of {manifest.num_segments} segments, {len(shards)} shards, {size:.1f} MB")
