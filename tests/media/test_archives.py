"""Videos inside tar archives are read where they lie, as if they were files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from tiny_clips import write_video
from watchword.media import VideoReader, probe
from watchword.media.errors import EmptyFileError, LimitError, MissingFileError, NoMoovError, NotMediaError, UnreadableFileError
from watchword.media.limits import Limits


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for number, name in enumerate(("first.mp4", "a b%05d.mp4", "twin.mp4")):
        write_video(folder / name, num_frames=10 + number)
    (folder / "cut.mp4").write_bytes((folder / "first.mp4").read_bytes()[:600])
    (folder / "text.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:first.mp4\n#EXT-X-ENDLIST\n")
    (folder / "empty.mp4").touch()
    with tarfile.open(folder / "videos.tar", "w") as tar:
        for path in sorted(folder.glob("*.mp4")):
            tar.add(path, f"./clips/{path.name}")
        tar.add(folder / "twin.mp4", "other/twin.mp4")
    with tarfile.open(folder / "small.tar", "w:gz") as tar:
        tar.add(folder / "first.mp4", "first.mp4")
    return folder / "videos.tar"


@pytest.mark.parametrize("name", ["first.mp4", "a b%05d.mp4"])
@pytest.mark.parametrize("inside", ["clips", "another folder", "."])
def test_frames_are_those_of_the_file(archive: Path, name: str, inside: str) -> None:
    with VideoReader(archive.parent / name) as file, VideoReader(f"{archive}/{inside}/{name}") as member:
        assert member.num_frames == file.num_frames
        order = [7, 0, 9, 3]
        assert np.array_equal(member.read(order).rgb, file.read(order).rgb)
        assert member.info.num_bytes == file.info.num_bytes and member.info.path.endswith(name)


def test_what_cannot_be_read_is_said_as_of_a_file(archive: Path) -> None:
    for name, error in (
        ("cut.mp4", NoMoovError),
        ("text.mp4", NotMediaError),
        ("empty.mp4", EmptyFileError),
        ("gone.mp4", MissingFileError),
    ):
        with pytest.raises(error) as raised:
            probe(archive / "clips" / name)
        assert raised.value.path == str(archive / "clips" / name)
    with pytest.raises(LimitError):
        probe(archive / "clips" / "first.mp4", limits=Limits(max_bytes=100))
    with pytest.raises(MissingFileError):  # two have this name, and neither is in this folder
        probe(archive / "elsewhere" / "twin.mp4")
    assert probe(archive / "other" / "twin.mp4").num_bytes == (archive.parent / "twin.mp4").stat().st_size


def test_archives_that_cannot_be_used(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "packed.tar").write_bytes((archive.parent / "small.tar").read_bytes())
    (tmp_path / "half.tar").write_bytes(archive.read_bytes()[:3000])
    for name in ("packed.tar", "half.tar"):
        with pytest.raises(UnreadableFileError, match="not compressed"):
            probe(tmp_path / name / "clips" / "first.mp4")
    (tmp_path / "folder.tar").mkdir()
    write_video(tmp_path / "folder.tar" / "clip.mp4")
    assert probe(tmp_path / "folder.tar" / "clip.mp4").video is not None
    with pytest.raises(MissingFileError):
        probe(tmp_path / "none.tar" / "clip.mp4")


def test_a_changed_archive_is_read_anew(tmp_path: Path) -> None:
    archive = tmp_path / "videos.tar"
    for content in (b"one", b"other"):
        with tarfile.open(archive, "w") as tar:
            entry = tarfile.TarInfo("a.mp4")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
            if content == b"other":
                tar.add(write_video(tmp_path / "b.mp4"), "b.mp4")
        with pytest.raises(NotMediaError):
            probe(archive / "a.mp4")
    assert probe(archive / "b.mp4").video is not None
