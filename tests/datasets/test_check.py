"""Everything that is wrong with a data set is found, and nothing that is right."""

from __future__ import annotations

import io
import multiprocessing
import os
import shutil
import tarfile
import threading
from pathlib import Path

import av
import numpy as np
import pytest

from tiny_clips import write_video
from watchword.datasets.check import IMBALANCE, PROBLEM_KINDS, check_videos
from watchword.errors import ConfigError, InputError


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of two clips each, of 12 to 15 frames, all different."""
    folder = tmp_path_factory.mktemp("clips")
    for number in range(4):
        there = folder / ("tai_chi" if number < 2 else "yoga")
        there.mkdir(exist_ok=True)
        write_video(there / f"{number}.mp4", num_frames=12 + number)
    return folder


def found(check: object) -> set[tuple[str, str | None, str | None]]:
    """Kind, file name and label of each problem."""
    return {(p.kind, p.path and Path(p.path).name, p.label) for p in check.problems}  # type: ignore[attr-defined]


def write_list(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["path,label", *rows, ""]))
    return path


def test_a_clean_set_has_no_problems(clips: Path) -> None:
    check = check_videos(clips, classes=["tai chi", "yoga"], num_frames=12)
    assert check.problems == () and check.num_by_kind == {}
    assert (check.num_videos, check.num_readable, check.num_classes) == (4, 4, 2)
    assert check.videos_per_class == {"tai chi": 2, "yoga": 2}
    assert (check.fewest_frames, check.median_frames) == (12, 13)


def test_files_that_cannot_be_used(clips: Path, tmp_path: Path) -> None:
    data = (clips / "yoga" / "3.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) // 2])
    (tmp_path / "zero.mp4").touch()
    (tmp_path / "folder.mp4").mkdir()
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "dangling.mp4").symlink_to("nowhere.mp4")
    write_video(tmp_path / "sound.mp4", sound_only=True)
    write_video(tmp_path / "short.mp4", num_frames=3)
    names = ("cut", "zero", "folder", "pipe", "dangling", "sound", "short", "gone")
    source = write_list(tmp_path / "list.csv", *(f"{name}.mp4,yoga" for name in names))
    check = check_videos(source, num_frames=4)
    unreadable = {("unreadable", f"{name}.mp4", None) for name in ("cut", "zero", "folder", "pipe", "sound")}
    missing = {("missing", "dangling.mp4", None), ("missing", "gone.mp4", None)}
    assert found(check) == unreadable | missing | {("too_short", "short.mp4", None)}
    assert check.num_readable == 1 and check.num_by_kind == {"missing": 2, "unreadable": 5, "too_short": 1}
    assert "too_short" not in check_videos(source).num_by_kind


def test_a_file_that_lost_its_second_half(media_root: Path, tmp_path: Path) -> None:
    source = write_list(tmp_path / "list.csv", f"{media_root / 'hard' / 'truncated_middle.mkv'},yoga")
    assert found(check_videos(source)) == {("damaged", "truncated_middle.mkv", None)}


def test_what_is_there_twice(clips: Path, tmp_path: Path) -> None:
    shutil.copy(clips / "yoga" / "2.mp4", tmp_path / "copy.mp4")
    rows = [
        f"{clips / 'yoga' / '2.mp4'},yoga",
        "copy.mp4,tai chi",
        f"{clips / 'yoga' / '3.mp4'},yoga",
        f"{clips / 'yoga' / '3.mp4'},tai chi",
    ]
    check = check_videos(write_list(tmp_path / "list.csv", *rows))
    assert found(check) == {("same_content", "copy.mp4", "tai chi"), ("listed_twice", "3.mp4", None)}
    twice, copy = check.problems
    assert "'tai chi', 'yoga'" in twice.message and "has the label 'yoga'" in copy.message


def test_labels_are_held_against_the_class_list(clips: Path, tmp_path: Path) -> None:
    check = check_videos(clips, classes=["tai chi", "archery"])
    assert found(check) == {("unknown_label", None, "yoga"), ("class_without_videos", None, "archery")}
    numbers = tmp_path / "val.txt"
    numbers.write_text("tai_chi/0.mp4 0\nyoga/2.mp4 2\n")
    check = check_videos(numbers, root=clips, classes=["tai chi", "yoga"])
    assert found(check) == {("unknown_label", None, "2"), ("class_without_videos", None, "yoga")}
    assert check_videos(numbers, root=clips).videos_per_class == {"0": 1, "2": 1}
    shutil.copytree(clips, tmp_path / "with empty")
    (tmp_path / "with empty" / "archery").mkdir()
    assert found(check_videos(tmp_path / "with empty")) == {("class_without_videos", None, "archery")}


@pytest.mark.parametrize("times", [IMBALANCE, IMBALANCE + 1])
def test_unbalanced_classes(clips: Path, tmp_path: Path, times: int) -> None:
    source = write_list(tmp_path / "list.csv", f"{clips / 'yoga' / '2.mp4'},yoga", *(f"{n}.mp4,tai chi" for n in range(times)))
    unbalanced = [problem for problem in check_videos(source).problems if problem.kind == "unbalanced"]
    assert [problem.label for problem in unbalanced] == (["yoga"] if times > IMBALANCE else [])


def test_several_processes_find_the_same(clips: Path, tmp_path: Path) -> None:
    for number in range(20):
        shutil.copy(clips / "yoga" / f"{2 + number % 2}.mp4", tmp_path / f"{number}.mp4")
    source = write_list(tmp_path / "list.csv", *(f"{n}.mp4,yoga" for n in range(22)))
    told: list[tuple[int, int]] = []
    check = check_videos(source, num_workers=2, report=lambda done, total: told.append((done, total)))
    assert check == check_videos(source, num_workers=1)
    assert check.num_by_kind == {"missing": 2, "same_content": 18}
    assert told == [(n, 22) for n in range(1, 23)]
    assert list(check.num_by_kind) == [kind for kind in PROBLEM_KINDS if kind in check.num_by_kind]


def test_wrong_arguments(clips: Path) -> None:
    with pytest.raises(InputError, match="workers"):
        check_videos(clips, num_workers=0)
    with pytest.raises(ConfigError, match="split"):
        check_videos(clips, split=1, part="train")


def test_videos_in_an_archive(clips: Path, tmp_path: Path) -> None:
    data = (clips / "yoga" / "3.mp4").read_bytes()
    with tarfile.open(tmp_path / "videos.tar", "w") as tar:
        for name, last in (("yoga/3", 1), ("copy", 1), ("same size", 2)):
            entry = tarfile.TarInfo(f"{name}.mp4")
            content = data + b"\0\0\0\x09free" + bytes([last])
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    (tmp_path / "train.txt").write_text("yoga/3.mp4 1\ncopy.mp4 1\ngone.mp4 1\nsame size.mp4 0\n")
    check = check_videos(tmp_path / "train.txt", root=tmp_path / "videos.tar", classes=["tai chi", "yoga"])
    assert found(check) == {("missing", "gone.mp4", None), ("same_content", "copy.mp4", "yoga")}
    assert check.num_readable == 3


def test_damage_inside_pictures_is_found_by_decoding(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    picture = random.integers(0, 256, (30, 40, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    with av.open(str(tmp_path / "whole.avi"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for number in range(12):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.roll(picture, 3 * number, axis=1), format="rgb24")))
        container.mux(stream.encode(None))
    with av.open(str(tmp_path / "whole.avi")) as container:
        packet = list(container.demux(video=0))[7]
        assert packet.pos is not None
        start, stop = packet.pos + packet.size // 3, packet.pos + packet.size - 4
    data = bytearray((tmp_path / "whole.avi").read_bytes())
    data[start:stop] = random.integers(0, 256, stop - start, dtype=np.uint8).tobytes()
    (tmp_path / "inside.avi").write_bytes(data)
    source = write_list(tmp_path / "list.csv", "inside.avi,yoga", "whole.avi,yoga")
    assert found(check_videos(source)) == set()
    check = check_videos(source, decode=True, num_workers=1)
    assert found(check) == {("damaged", "inside.avi", None)} and check.num_readable == 2
    assert check.problems[0].message == "1 frame is damaged in part"


def test_what_is_held_out_as_well(clips: Path, tmp_path: Path) -> None:
    shutil.copy(clips / "yoga" / "2.mp4", tmp_path / "copy.mp4")
    shutil.copy(clips / "tai_chi" / "1.mp4", tmp_path / "other.mp4")
    (tmp_path / "same size.mp4").write_bytes((clips / "yoga" / "3.mp4").read_bytes()[:-1] + b"x")
    held_out = write_list(
        tmp_path / "held_out.csv",
        *(f"{name},yoga" for name in ("copy.mp4", "same size.mp4", "gone.mp4")),
        f"{os.path.relpath(clips / 'tai_chi' / '0.mp4', tmp_path)},tai chi",
    )
    check = check_videos(clips, held_out=held_out)
    assert found(check) == {("held_out_path", "0.mp4", None), ("held_out_content", "2.mp4", None)}
    assert "'tai chi'" in check.problems[0].message and "copy.mp4" in check.problems[1].message
    assert not check_videos(clips, held_out=write_list(tmp_path / "none.csv", "other size.mp4,yoga")).problems


def test_split_files_held_out_part_is_its_test_part(tmp_path: Path) -> None:
    (tmp_path / "yoga").mkdir()
    for number in range(3):
        write_video(tmp_path / "yoga" / f"{number}.mp4", num_frames=5 + number)
    shutil.copy(tmp_path / "yoga" / "0.mp4", tmp_path / "yoga" / "copy.mp4")
    (tmp_path / "yoga_test_split1.txt").write_text("0.mp4 1 \n1.mp4 1 \n2.mp4 2 \ncopy.mp4 2 \n")
    check = check_videos(tmp_path, split=1, part="train", held_out=tmp_path)
    assert found(check) == {("held_out_content", "0.mp4", None)}


def test_a_process_that_dies_is_a_finding_about_its_file(clips: Path, tmp_path: Path) -> None:
    """Whatever reads a file is killed, as the system does where memory ends."""
    source = write_list(tmp_path / "list.csv", f"{clips / 'yoga' / '2.mp4'},yoga", f"{clips / 'yoga' / '3.mp4'},yoga")
    over = threading.Event()

    def kill_children() -> None:
        while not over.wait(0.01):
            for child in multiprocessing.active_children():
                child.kill()

    killer = threading.Thread(target=kill_children)
    killer.start()
    try:
        check = check_videos(source, decode=True, num_workers=1)
    finally:
        over.set()
        killer.join()
    assert found(check) == {("crashed", "2.mp4", None), ("crashed", "3.mp4", None)}
    assert check.num_readable == 0 and all("\n" not in problem.message and "memory" in problem.message for problem in check.problems)
    assert check_videos(source, decode=True, num_workers=1).problems == ()
