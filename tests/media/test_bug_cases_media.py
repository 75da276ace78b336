"""Cases 1 to 8 of shared/bug-cases.md: what went wrong in other readers."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from counting_clips import NUM_FRAMES, RATE, copy_packets, cut_by_edit_list, encode, gray, ids

from watchword.media import Limits, MediaError, VideoReader, probe

X264 = {"bf": "3", "g": "50", "preset": "veryfast"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def count(folder: Path) -> Path:
    return encode(folder / "count.mp4", options=X264)


@pytest.fixture(scope="module")
def counta(folder: Path) -> Path:
    return encode(folder / "counta.mp4", options=X264, sound="aac")


def all_ids(path: Path) -> list[int]:
    with VideoReader(path) as reader:
        return ids(np.stack([frame.rgb for frame in reader.iterate()]))


def test_1_no_frame_count_in_the_container_and_short_clips(folder: Path, count: Path) -> None:
    fast = {"deadline": "realtime", "cpu-used": "8", "b": "600k"}
    webm = encode(folder / "c.webm", codec="libvpx-vp9", options=fast, sound="libopus")
    five = encode(folder / "c5.webm", codec="libvpx-vp9", options=fast, numbers=range(5))
    one = encode(folder / "c1.mp4", options=X264, numbers=range(1))
    assert probe(webm).video.num_frames_hint is None
    with VideoReader(webm) as other, VideoReader(count) as reader, VideoReader(five) as short, VideoReader(one) as single:
        assert ids(other.uniform(8).rgb) == ids(reader.uniform(8).rgb) == [12, 37, 62, 87, 112, 137, 162, 187]
        repeated = ids(short.uniform(8).rgb)
        assert repeated == sorted(repeated) and repeated[0] == 0 and repeated[-1] == 4
        assert ids(single.uniform(8).rgb) == [0] * 8


@pytest.mark.parametrize("degrees", [90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
def test_2_rotated_and_mirrored_video_comes_out_upright(folder: Path, count: Path, degrees: int, mirrored: bool) -> None:
    path = folder / f"turned{degrees}{mirrored}.mp4"
    copy_packets(count, path, prepare=lambda stream: stream.set_display_rotation(-degrees, hflip=mirrored))
    with VideoReader(count) as stored:
        upright = np.rot90(stored.read([37]).rgb[0], k=-degrees // 90)
    if mirrored:
        upright = upright[:, ::-1]
    with VideoReader(path) as reader:
        video = reader.info.video
        # The flip was made after the turn; `rotation` is to be made after the flip.
        assert (video.rotation, video.mirrored) == (-degrees % 360 if mirrored else degrees, mirrored)
        assert (video.height, video.width) == upright.shape[:2]
        assert np.abs(reader.read([37]).rgb[0].astype(int) - upright).max() <= 2
        small = reader.read([37], size=60).rgb[0]
        assert small.shape[:2] == (60 if degrees == 180 else 80, 80 if degrees == 180 else 60)
        assert np.abs(small[5::10, 5::10].astype(int) - upright[22::40, 22::40]).max() <= 16


def test_3_random_access_with_b_frames_an_offset_and_an_edit_list(folder: Path, count: Path) -> None:
    offset = copy_packets(count, folder / "c_off.mkv", shift_seconds=7)
    cut = cut_by_edit_list(count, folder / "c_cut.mp4", 8)
    avi = encode(folder / "c.avi", codec="mpeg4", max_b_frames=2, tag="XVID", options={"qscale": "3"})
    assert all_ids(cut) == list(range(8, NUM_FRAMES))
    assert all_ids(avi) == list(range(NUM_FRAMES))
    draw = np.random.default_rng(0)
    for path, first in ((count, 0), (offset, 0), (cut, 8), (avi, 0)):
        with VideoReader(path) as reader:
            for _ in range(50):
                numbers = draw.permutation(reader.num_frames)[:4]
                frames = reader.at(reader.times[numbers], size=(24, 64))
                assert ids(frames.rgb) == (numbers + first).tolist()
                np.testing.assert_array_equal(frames.times, reader.times[numbers])
    with VideoReader(offset) as reader:
        assert reader.start_seconds == pytest.approx(7, abs=1e-3)
        assert ids(reader.at([7.0, 0.0]).rgb) == [0, 0]


def test_3_frames_are_exact_however_far_apart(count: Path) -> None:
    with VideoReader(count) as reader:
        for number in range(0, NUM_FRAMES, 7):
            assert ids(reader.read([number], size=(24, 64)).rgb) == [number]


@pytest.fixture(scope="module")
def broken(folder: Path, counta: Path) -> Path:
    room = folder / "broken"
    room.mkdir()
    data = counta.read_bytes()
    (room / "nomoov.mp4").write_bytes(data[: len(data) // 2])
    (room / "half_moov.mp4").write_bytes(data[:-300])
    (room / "unknown_codec.mp4").write_bytes(data.replace(b"avc1", b"zzzz"))
    (room / "zero.mp4").touch()
    (room / "text.mp4").write_text("this is a text file\n" * 200)
    (room / "playlist.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:8,\nfile:../counta.mp4\n#EXT-X-ENDLIST\n")
    (room / "concat.mp4").write_text("ffconcat version 1.0\nfile ../counta.mp4\n")
    (room / "link.mp4").symlink_to(room / "nothing.mp4")
    os.mkfifo(room / "fifo.mp4")
    (room / "x.mp4").mkdir()
    with av.open(str(counta)) as source, av.open(str(room / "audio.m4a"), "w", format="mp4") as target:
        output = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(source.streams.audio[0]):
            if packet.size:
                packet.stream = output
                target.mux(packet)
    return room


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nomoov.mp4", "no_moov"),
        ("half_moov.mp4", "no_moov"),
        ("unknown_codec.mp4", "no_decoder"),
        ("text.mp4/x.mp4", "missing_file"),
        ("zero.mp4", "empty_file"),
        ("text.mp4", "not_media"),
        ("playlist.mp4", "not_media"),
        ("concat.mp4", "not_media"),
        ("audio.m4a", "no_video"),
        ("link.mp4", "missing_file"),
        ("absent.mp4", "missing_file"),
        ("nul\0.mp4", "missing_file"),
        ("fifo.mp4", "not_a_file"),
        ("x.mp4", "not_a_file"),
    ],
)
def test_4_broken_files_are_refused_with_a_reason(broken: Path, name: str, reason: str) -> None:
    with pytest.raises(MediaError) as caught, VideoReader(broken / name) as reader:
        reader.uniform(8)
    assert caught.value.reason == reason
    assert caught.value.path == str(broken / name)
    assert "\n" not in str(caught.value)


def test_4_a_damaged_file_gives_what_is_decodable_and_says_so(folder: Path, counta: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bad, data = folder / "c_bad.mp4", bytearray(counta.read_bytes())
    with av.open(str(counta)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(container.streams.video[0]) if packet.size]
    middle = packets[len(packets) // 2][0]
    data[middle : middle + 600] = np.random.default_rng(0).bytes(600)
    bad.write_bytes(data)
    with VideoReader(bad) as reader:
        frames = reader.uniform(8)
        assert len(frames) == 8
        assert NUM_FRAMES // 2 < reader.num_frames <= NUM_FRAMES
        every = reader.read(range(reader.num_frames), size=64)
        assert (np.diff(every.times) >= 0).all()
        assert reader.warnings and all("\n" not in warning for warning in reader.warnings)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("full_range", [True, False])
@pytest.mark.parametrize("value", [0x20, 0xE0])
def test_5_both_colour_ranges(folder: Path, value: int, full_range: bool) -> None:
    with VideoReader(gray(folder / f"g{value}{full_range}.mp4", value, full_range)) as reader:
        for size in (None, 112):
            rgb = reader.uniform(2, size=size).rgb
            assert np.abs(rgb.astype(int) - value).max() <= 4


def test_5_ten_bits(folder: Path) -> None:
    hevc = encode(
        folder / "c10.mp4",
        codec="libx265",
        pixel_format="yuv420p10le",
        options={"preset": "ultrafast", "x265-params": "log-level=none:pools=1"},
        numbers=range(0, NUM_FRAMES, 4),
    )
    assert probe(hevc).video.bit_depth == 10
    assert all_ids(hevc) == list(range(0, NUM_FRAMES, 4))


HOSTILE = ["a b.mp4", 'it\'s "q".mp4', "-dash.mp4", "é 日本.mp4", "semi;colon&.mp4", "$(touch pwned).mp4", "%05d.mp4"]
HOSTILE += ["http:colon.mp4", "n" * 200 + ".mp4", "new\nline.mp4", "<b>.mp4", "concat:a|b.mp4", "%05d.png", "-i"]


@pytest.mark.parametrize("name", HOSTILE)
def test_6_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Path, name: str) -> None:
    shutil.copy(count, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with VideoReader(name) as reader:
        assert ids(reader.uniform(2).rgb) == [50, 150]
    assert probe(name).video.width == 320
    with pytest.raises(MediaError) as caught:
        probe(name + "x")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == [name]


def _run(script: str, *arguments: object, limit: int = 120) -> str:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


PEAK = """
import re, sys
from watchword.media import VideoReader
with VideoReader(sys.argv[1]) as reader:
    assert len(reader.uniform(8, size=64)) == 8
    shown = sum(1 for _ in reader.iterate(every_seconds=reader.end_seconds / 20, size=64))
    assert shown == 20, shown
    for number, frame in enumerate(reader.iterate()):
        if number == 1000:
            break
# Not getrusage: on Linux its peak starts at that of the process which started this one.
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def test_7_memory_does_not_grow_with_length(folder: Path, count: Path) -> None:
    short, long = copy_packets(count, folder / "short.mp4", times=5), copy_packets(count, folder / "long.mp4", times=75)
    with VideoReader(long) as reader:
        assert reader.end_seconds == pytest.approx(600)
        assert ids(reader.at([599.98, 300.01]).rgb) == [199, 100]
    peaks = [int(_run(PEAK, path)) for path in (short, long)]
    assert peaks[1] - peaks[0] < 200 * 1024


def test_7_many_opens_leave_nothing_behind(count: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def read() -> None:
        with VideoReader(count) as reader:
            reader.read([1], size=64)

    for _ in range(20):
        read()
    before, descriptors = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(300):
        read()
    assert resident() - before < 50 << 20
    assert len(os.listdir("/proc/self/fd")) == descriptors


WORKERS = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
from watchword.media import VideoReader

class Clips(Dataset):
    def __init__(self, paths):
        self.readers = [VideoReader(path, num_threads=2) for path in paths]
    def __len__(self):
        return len(self.readers)
    def __getitem__(self, i):
        return torch.from_numpy(self.readers[i].uniform(2, size=32).rgb)

def loader(clips, workers, context):
    return DataLoader(clips, batch_size=2, num_workers=workers, multiprocessing_context=context if workers else None)

if __name__ == "__main__":
    torch.set_num_threads(1)
    clips = Clips(sys.argv[1:])
    expected = torch.cat(list(loader(clips, 0, None)))
    frames = clips.readers[0].iterate()
    next(frames)
    # Not 4 workers in all three ways: but for fork, each starts Python and imports PyTorch anew, seconds that tell nothing more.
    for context, workers in (("fork", 2), ("fork", 4), ("forkserver", 2), ("spawn", 2)):
        assert torch.equal(torch.cat(list(loader(clips, workers, context))), expected), context
    for _ in range(20):
        for batch in loader(clips, 2, "fork"):
            break
    next(frames)
    print("done")
"""


def test_8_workers_after_the_parent_has_decoded(folder: Path, count: Path, tmp_path: Path) -> None:
    hevc = encode(
        folder / "c.hevc.mp4",
        codec="libx265",
        options={"preset": "ultrafast", "x265-params": "log-level=none:pools=1"},
        numbers=range(50),
    )
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    command = [sys.executable, str(script), *map(str, [count, hevc] * 8)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


FORK = """
import gc, os, sys, threading, time
from watchword.media import VideoReader
reader = VideoReader(sys.argv[1], num_threads=2)
before = reader.read([60], size=32).rgb
frames = reader.iterate(size=32)
next(frames)
busy = threading.Event()
def hold(rgb):  # the reader is in use by another thread while the process forks
    busy.set()
    time.sleep(0.5)
    return rgb
other = threading.Thread(target=lambda: reader.read([3], size=32, transform=hold))
other.start()
busy.wait()
child = os.fork()
if child == 0:
    assert (reader.read([60], size=32).rgb == before).all()
    assert [round(next(frames).time_seconds * 25) for _ in range(3)] == [1, 2, 3]
    del reader, frames
    gc.collect()
    os._exit(0)
_, status = os.waitpid(child, 0)
other.join()
assert round(next(frames).time_seconds * 25) == 1
print(os.waitstatus_to_exitcode(status))
"""


def test_8_a_forked_child_reads_and_ends(count: Path) -> None:
    assert _run(FORK, count, limit=60).strip() == "0"


def _in_threads(work: Callable[[int], None], num_threads: int) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_8_eight_threads_decode_at_once(count: Path) -> None:
    found: dict[int, list[int]] = {}

    def work(i: int) -> None:
        with VideoReader(count, num_threads=2) as reader:
            found[i] = ids(reader.uniform(8 + i).rgb)

    _in_threads(work, 8)
    with VideoReader(count) as reader:
        assert found == {i: ids(reader.uniform(8 + i).rgb) for i in range(8)}


def test_8_threads_may_share_a_reader(count: Path) -> None:
    found: dict[int, list[int]] = {}
    with VideoReader(count) as reader:

        def work(i: int) -> None:
            found[i] = ids(reader.read([10 * i, 10 * i + 5]).rgb)

        _in_threads(work, 4)
    assert found == {i: [10 * i, 10 * i + 5] for i in range(4)}


@pytest.mark.parametrize(
    "limits",
    [
        Limits(max_pixels=320 * 240 - 1),
        Limits(max_duration_seconds=(NUM_FRAMES - 2) / RATE),
        Limits(max_bytes=1000),
        Limits(max_frames=NUM_FRAMES - 1),
        Limits(max_output_bytes=8 * 320 * 240 * 3 - 1),
    ],
)
def test_limits(count: Path, limits: Limits) -> None:
    with pytest.raises(MediaError) as caught, VideoReader(count, limits=limits) as reader:
        reader.uniform(8)
    assert caught.value.reason == "limit"
