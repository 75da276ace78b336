"""A folder of videos becomes the same shards however it is done, and whatever interrupts it."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from talking_clips import write_talk, write_talks
from watchword.datasets.prepared_videos import VideoOutcome
from watchword.datasets.record_folder import FolderSettings, PreparedFolder, prepare
from watchword.datasets.record_plan import make_plan
from watchword.errors import ConfigError, InputError
from watchword.reserve.documents import open_stretches, write_stretches
from watchword.reserve.preparing import VideoSettings
from watchword.reserve.records import Record
from watchword.reserve.shards import RecordShards, split_number

SETTINGS = FolderSettings(
    videos=VideoSettings(min_words=0), num_segments=4, records_a_shard=2, validation_share=0.0, text_length=32, repeat_text=True
)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talks") / "videos"
    write_talks(folder, 5, seconds=17)
    (folder / "broken.mp4").write_bytes(b"nothing")
    shutil.copy(folder / "talk0.mkv", folder / "wordless.mkv")
    (folder / "text.txt").write_text("Some text about cats, birds and rain. " * 30)
    return folder


def run(videos: Path, out: Path, settings: FolderSettings = SETTINGS, **more: object) -> PreparedFolder:
    more.setdefault("num_processes", 0)
    return prepare([videos], out, settings, text=videos / "text.txt", **more)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")}


@pytest.fixture(scope="module")
def expected(videos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected")
    run(videos, out)
    return contents(out)


def places(records: list[Record]) -> list[tuple[str, float]]:
    return [(segment.video_id, segment.start_time) for record in records for segment in record.segments]


def test_records_of_a_folder(videos: Path, tmp_path: Path) -> None:
    done = run(videos, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()} - {".lock"}
    shards = {f"train0000{i}.{ending}" for i in range(2) for ending in ("tar", "index.json")}
    assert names == {"manifest.json", "rejected.jsonl", *shards}
    assert [(Path(video.path).name, video.reason, video.failed) for video in done.rejected] == [
        ("broken.mp4", "not_media", True), ("wordless.mkv", "no_subtitles", False),
    ]  # fmt: skip
    records = list(RecordShards(tmp_path / "out"))
    RecordShards(tmp_path / "out").verify()
    assert done.manifest.videos["num_prepared"] == 5 and done.manifest.videos["by_reason"] == {"not_media": 1, "no_subtitles": 1}
    assert len(records) == done.manifest.num_records("train") == 4 and {len(record.segments) for record in records} == {4}
    assert len(set(places(records))) == 16
    for record in records:
        assert record.web_text is not None and record.web_text.shape == (2, 32)
        assert [segment.video_src_index for segment in record.segments] == sorted(segment.video_src_index for segment in record.segments)
    assert [record.key for record in records] == ["train00000_000", "train00000_001", "train00001_000", "train00001_001"]
    rejected = [json.loads(line) for line in (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in rejected] == ["not_media", "no_subtitles"]


def test_the_seed_decides_the_order(videos: Path, tmp_path: Path) -> None:
    orders = []
    for seed in range(3):
        settings = replace(SETTINGS, videos=replace(SETTINGS.videos, seed=seed))
        run(videos, tmp_path / f"out{seed}", settings)
        orders.append(places(list(RecordShards(tmp_path / f"out{seed}"))))
    assert orders[0] != orders[1] != orders[2]


def test_the_number_of_processes_changes_nothing(videos: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    run(videos, tmp_path / "out", num_processes=2)
    assert contents(tmp_path / "out") == expected


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: watchword[ray]")
def test_ray_writes_the_same(videos: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    # Ray warns and leaves sockets open as it pleases, so it gets a process of its own.
    code = f"from pathlib import Path\nfrom test_record_folder import run\nrun(Path({str(videos)!r}), Path('out'), engine='ray')"
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    environment.pop("RAY_ADDRESS", None)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, timeout=400)
    assert contents(tmp_path / "out") == expected


KILLED = """
import sys
from pathlib import Path
from test_record_folder import run
print("ready", flush=True)
run(Path(sys.argv[1]), Path(sys.argv[2]), num_processes=int(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("num_processes", [0, 1])
def test_killed_at_any_moment_it_goes_on_to_the_same_shards(
    videos: Path, expected: dict[str, bytes], tmp_path: Path, num_processes: int
) -> None:
    out, draw = tmp_path / "out", random.Random(num_processes)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    seen = set()
    for _ in range(4):
        arguments = [sys.executable, "-c", KILLED, str(videos), str(out), str(num_processes)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            wanted = draw.randint(1, 3)  # more videos done, at some moment after that
            done = len(list(out.glob("work/videos/*/*.json")))
            until = time.monotonic() + 60
            while len(list(out.glob("work/videos/*/*.json"))) < min(done + wanted, 7) and time.monotonic() < until:
                time.sleep(0.005)
                if process.poll() is not None:
                    break
            time.sleep(draw.random() * 0.02)
            process.send_signal(signal.SIGKILL)
        seen.add(len(list(out.glob("work/videos/*/*.json"))))
        if (out / "manifest.json").exists():
            break
    assert any(seen)
    if num_processes:
        time.sleep(1)  # the killed run's process ends
    run(videos, out)
    assert contents(out) == expected and not (out / "work").exists()


def test_what_is_done_is_not_done_again(videos: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    out, steps = tmp_path / "out", list[tuple[str, int, int]]()

    def stop(stage: str, done: int, total: int) -> None:
        steps.append((stage, done, total))
        if stage == "shards":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(videos, out, on_progress=stop)
    assert steps[-2:] == [("videos", 7, 7), ("shards", 1, 2)]
    before = {path: path.stat().st_mtime_ns for path in [*out.glob("work/videos/*/*"), *out.glob("train00000*")]}
    assert len(before) == 7 + 5 + 2
    assert not run(videos, out, keep_work=True).was_done
    assert {path: path.stat().st_mtime_ns for path in before} == before and contents(out) == expected
    assert run(videos, out).was_done and not (out / "work").exists() and contents(out) == expected


def test_videos_that_come_before_the_end_are_taken_up(videos: Path, tmp_path: Path) -> None:
    own = shutil.copytree(videos, tmp_path / "videos")

    def stop(stage: str, done: int, total: int) -> None:
        if stage == "shards":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(own, tmp_path / "out", on_progress=stop)
    write_talk(own / "talk9.mkv", seconds=30, seed=9)
    run(own, tmp_path / "out")
    run(own, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_a_finished_folder_is_left_alone_and_other_settings_are_refused(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(videos, out)
    before = {path: path.stat().st_mtime_ns for path in out.iterdir() if path.name != ".lock"}
    again = run(videos, out)
    assert again.was_done and [(video.reason, video.failed) for video in again.rejected] == [("not_media", True), ("no_subtitles", False)]
    for settings, what in [
        (replace(SETTINGS, num_segments=2), "num_segments was 4, now 2"),
        (replace(SETTINGS, videos=VideoSettings(min_words=1)), "min_words was 0, now 1"),
    ]:
        with pytest.raises(InputError, match=what):
            run(videos, out, settings)
    with pytest.raises(InputError, match="other text"):
        prepare([videos], out, SETTINGS, num_processes=0)
    with pytest.raises(InputError, match="other videos"):
        prepare([videos / "talk1.mkv"], out, SETTINGS, text=videos / "text.txt", num_processes=0)
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_folder_begun_with_other_settings_is_refused(videos: Path, tmp_path: Path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(videos, tmp_path / "out", on_progress=stop)
    with pytest.raises(InputError, match="begun with other settings \\(seed was 0, now 5\\)"):
        run(videos, tmp_path / "out", replace(SETTINGS, videos=replace(SETTINGS.videos, seed=5)))
    assert not run(videos, tmp_path / "out").was_done


def test_a_folder_with_other_files_is_not_written_to(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(InputError, match=r"holds other files \('mine.txt'\)"):
        run(videos, tmp_path)


def test_one_run_at_a_time(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with FileLock(out / ".lock"), pytest.raises(InputError, match="another run"):
        run(videos, out)


def test_too_little_text_is_an_error_and_videos_are_not_done_again(videos: Path, tmp_path: Path) -> None:
    out, strict = tmp_path / "out", replace(SETTINGS, repeat_text=False, text_length=512)
    with pytest.raises(InputError, match=r"gives . stretches of 512 tokens, 8 are needed"):
        run(videos, out, strict)
    before = {path: path.stat().st_mtime_ns for path in out.glob("work/videos/*/*")}
    assert len(before) == 12
    run(videos, out, replace(strict, text_length=128, repeat_text=True), keep_work=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    texts = [record.web_text for record in RecordShards(out)]
    assert all(text is not None and text.shape == (2, 128) for text in texts)
    assert len({text.tobytes() for text in texts if text is not None}) < 4  # it repeats


def test_records_carry_the_text_in_order(videos: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    run(videos, tmp_path / "out")
    write_stretches([videos / "text.txt"], tmp_path / "text", 8, length=32, seed=0)
    texts = [record.web_text for record in RecordShards(tmp_path / "out")]
    assert np.array_equal(np.concatenate(texts), open_stretches(tmp_path / "text", 32))


def test_records_are_shuffled(tmp_path: Path) -> None:
    plan = make_plan([VideoOutcome("a.mp4", "a", 1600, 8000.0, "a.tar")], tmp_path, replace(SETTINGS, num_segments=16), None)
    firsts = [segments[0] for shard in plan.shards for ((_, segments),) in shard.records]
    assert len(set(firsts)) == 100 and sum(other - one == 16 for one, other in pairwise(firsts)) < 10


def test_wrong_text_is_said_before_any_video(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "x"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl', line 1"):
        prepare([videos], tmp_path / "out", SETTINGS, text=tmp_path, num_processes=0)
    assert not (tmp_path / "out" / "work").exists()


def test_without_text_records_have_none(videos: Path, tmp_path: Path) -> None:
    prepare([videos], tmp_path / "out", SETTINGS, num_processes=0)
    assert {record.web_text is None for record in RecordShards(tmp_path / "out")} == {True}


def test_no_record_at_all_says_why_and_can_be_tried_again(videos: Path, tmp_path: Path) -> None:
    picky = replace(SETTINGS, videos=VideoSettings(min_words=1000))
    with pytest.raises(InputError, match=r"no record to train on: 0 of 7 .*broken\.mp4': not a media file"):
        run(videos, tmp_path / "out", picky)
    assert run(videos, tmp_path / "out").manifest.num_records("train") == 4
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no video"):
        prepare([tmp_path / "empty"], tmp_path / "other", SETTINGS)
    with pytest.raises(InputError, match="no such file"):
        prepare([tmp_path / "nowhere.mp4"], tmp_path / "other", SETTINGS, num_processes=0)


def test_validation_videos_are_chosen_by_their_ids(videos: Path, tmp_path: Path) -> None:
    numbers = {name: split_number(name) for name in (f"talk{i}.mkv" for i in range(5))}
    ranked = sorted(numbers, key=numbers.__getitem__)
    share = (numbers[ranked[1]] + 0.5) / 1000
    run(videos, tmp_path / "share", replace(SETTINGS, validation_share=share))
    run(videos, tmp_path / "some", replace(SETTINGS, some_validation=True))
    for out, chosen in (("share", set(ranked[:2])), ("some", {ranked[0], ranked[1]})):
        found = {split: {place[0] for place in places(list(RecordShards(tmp_path / out, split)))} for split in ("train", "validation")}
        assert found["validation"] and found["validation"] <= chosen and not found["train"] & chosen


def test_a_video_that_is_there_twice_is_taken_once(videos: Path, tmp_path: Path) -> None:
    own = shutil.copytree(videos, tmp_path / "videos")
    for name in ("talk1", "talk2"):
        (own / f"{name}.info.json").write_text('{"id": "same"}')
    done = run(own, tmp_path / "out")
    doubled = [video for video in done.rejected if video.reason == "same_id"]
    assert [Path(video.path).name for video in doubled] == ["talk2.mkv"] and "talk1.mkv" in doubled[0].message


def test_where_the_videos_lie_changes_nothing(videos: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    own = shutil.copytree(videos, tmp_path / "elsewhere" / "videos")
    run(own, tmp_path / "out")
    found = contents(tmp_path / "out")
    assert found.pop("rejected.jsonl") and found == {name: data for name, data in expected.items() if name != "rejected.jsonl"}


@pytest.mark.parametrize("changes", [{"num_segments": 0}, {"validation_share": 1.0}, {"records_a_shard": 0}, {"text_length": 3}])
def test_settings_that_cannot_be(changes: dict) -> None:
    with pytest.raises(ConfigError):
        replace(SETTINGS, **changes)
