"""Shards give back what was written, byte for byte the same each time, to us and to any reader of tar archives; damage is named."""

from __future__ import annotations

import json
import os
import pickle
import tarfile
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

from record_fixtures import record
from watchword.errors import InputError
from watchword.reserve.records import members_of
from watchword.reserve.shards import Manifest, RecordShards, record_key, split_number, write_shard


def folder_of(tmp_path: Path, counts: tuple[int, ...] = (3, 2), *, name: str = "out") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    shards = []
    for number, count in enumerate(counts):
        shard = f"train{number:05}"
        shards.append(write_shard(folder, shard, (record(record_key(shard, i), seed=10 * number + i) for i in range(count))))
    Manifest(num_segments=4, train=shards, validation=[]).write(folder)
    return folder


def test_records_by_number(tmp_path: Path) -> None:
    shards = RecordShards(folder_of(tmp_path))
    assert len(shards) == 5 and len(RecordShards(tmp_path / "out", "validation")) == 0
    for number, (shard, own) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]):
        found = shards[number]
        assert members_of(found) == members_of(record(f"train{shard:05}_{own:03}", seed=10 * shard + own))
    assert shards[-1].key == "train00001_001" and [found.key for found in shards] == [shards[i].key for i in range(5)]
    for number in (5, -6):
        with pytest.raises(IndexError):
            shards[number]


def test_equal_records_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder_of(tmp_path, name=name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["manifest.json", *(f"train0000{i}.{end}" for i in range(2) for end in ("index.json", "tar"))]
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_any_tar_reader_can_read_a_shard_as_webdataset_groups_it(tmp_path: Path) -> None:
    with tarfile.open(folder_of(tmp_path) / "train00000.tar") as tar:
        members = tar.getmembers()
        contents = {member.name: tar.extractfile(member).read() for member in members}
    assert contents == dict(pair for i in range(3) for pair in members_of(record(f"train00000_{i:03}", seed=i)))
    assert [name.split(".", 1)[0] for name in contents] == sorted(name.split(".", 1)[0] for name in contents)
    assert {(member.mtime, member.uid, member.uname, member.mode) for member in members} == {(0, 0, "", 0o644)}


def keys_of(batch: list) -> list[str]:
    return [found.key for found in batch]


def test_loaders_in_other_processes_read_the_same(tmp_path: Path) -> None:
    shards = RecordShards(folder_of(tmp_path))
    shards[0]
    assert pickle.loads(pickle.dumps(shards))[4].key == shards[4].key
    loader = DataLoader(shards, batch_size=2, num_workers=1, collate_fn=keys_of)  # type: ignore[arg-type]
    assert [key for batch in loader for key in batch] == [found.key for found in shards]


def refusal(folder: Path, number: int = 1) -> str:
    with pytest.raises(InputError) as caught:
        RecordShards(folder)[number]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_cut_and_foreign_shards(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    shard, index = folder / "train00000.tar", folder / "train00000.index.json"
    content, edges = shard.read_bytes(), index.read_bytes()
    shard.write_bytes(content[:-512])
    assert "train00000.tar" in refusal(folder) and "cut" in refusal(folder)
    shard.unlink()
    assert "train00000.tar" in refusal(folder) and "No such file" in refusal(folder)
    shard.write_bytes(content)
    index.unlink()
    assert "no index beside it" in refusal(folder)
    index.write_bytes((folder / "train00001.index.json").read_bytes())
    assert "another shard" in refusal(folder)
    index.write_bytes(edges)
    assert RecordShards(folder)[1].key == "train00000_001"


def test_a_shard_cut_after_it_was_opened(tmp_path: Path) -> None:
    shards = RecordShards(folder_of(tmp_path))
    os.truncate(tmp_path / "out" / "train00000.tar", 5000)
    with pytest.raises(InputError, match="cut"):
        shards[2]


def test_damage_inside_a_shard_names_shard_and_record(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    shard = folder / "train00000.tar"
    content = shard.read_bytes()
    edges = json.loads((folder / "train00000.index.json").read_text())["edges"]
    for place in range(edges[1], edges[2], 997):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        shard.write_bytes(damaged)
        try:
            assert members_of(RecordShards(folder)[1]) == members_of(record("train00000_001", seed=1))  # the padding of a member
        except InputError as error:
            assert "train00000.tar" in str(error) and "train00000_001" in str(error) and "\n" not in str(error)
        with pytest.raises(InputError, match="SHA-256"):
            RecordShards(folder).verify()


@pytest.mark.parametrize(
    "change",
    [
        lambda edges: [0, 2**62, 2**63 - 1, edges[3]],
        lambda edges: [*edges[:2], 2**70, edges[3]],
        lambda edges: [-512, *edges[1:]],
        lambda edges: [0, edges[2], edges[1], edges[3]],
        lambda edges: edges[:-1],
        lambda edges: [*edges[:-1], 10**15],
        lambda edges: "x",
        lambda edges: [0, edges[1] + 512, *edges[2:]],
        lambda edges: [0, edges[1] + 7, *edges[2:]],
        lambda edges: [0, edges[1] - 512, *edges[2:]],
        lambda edges: [0, edges[1], edges[3] - 512, edges[3]],
    ],
)
def test_wrong_indices(tmp_path: Path, change) -> None:
    folder = folder_of(tmp_path)
    path = folder / "train00000.index.json"
    content = json.loads(path.read_text())
    content["edges"] = change(content["edges"])
    path.write_text(json.dumps(content))
    assert "train00000" in refusal(folder)


def hostile(folder: Path, member: tarfile.TarInfo, content: bytes = b"") -> str:
    """What is said of a shard whose only record holds this member, with an index and a manifest that fit it."""
    data = member.tobuf(tarfile.USTAR_FORMAT if member.size < 8**11 else tarfile.GNU_FORMAT) + content
    folder.mkdir(exist_ok=True)
    (folder / "train00000.tar").write_bytes(data + bytes(1024))
    entry = {"name": "train00000", "num_records": 1, "num_bytes": len(data) + 1024, "sha256": "0" * 64}
    (folder / "train00000.index.json").write_text(json.dumps({"shard": entry, "edges": [0, len(data)]}))
    Manifest.model_validate({"num_segments": 4, "train": [entry], "validation": []}).write(folder)
    return refusal(folder, 0)


def test_hostile_members(tmp_path: Path) -> None:
    large = tarfile.TarInfo("train00000_000.json")
    large.size = 10**15
    assert "cut" in hostile(tmp_path / "a", large)
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_SPARSE):
        other = tarfile.TarInfo("train00000_000.json")
        other.type, other.linkname = kind, "/etc/passwd"
        assert "no plain file" in hostile(tmp_path / "a", other)
    for name in ("../../evil", "/etc/passwd", "other.json"):
        stray = tarfile.TarInfo(name)
        assert "train00000_000" in hostile(tmp_path / "a", stray)


def test_a_record_larger_than_any_is_not_read(tmp_path: Path) -> None:
    size = 3 << 30
    with (tmp_path / "train00000.tar").open("wb") as file:
        file.truncate(size)  # a hole, which takes no disk
    entry = {"name": "train00000", "num_records": 1, "num_bytes": size, "sha256": "0" * 64}
    (tmp_path / "train00000.index.json").write_text(json.dumps({"shard": entry, "edges": [0, size - 1024]}))
    Manifest.model_validate({"num_segments": 4, "train": [entry], "validation": []}).write(tmp_path)
    assert "at most" in refusal(tmp_path, 0)


@pytest.mark.parametrize("name", ["../train00000", "train00000/../../x", "train1", "test00000", "train00000\n"])
def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path)
    content = json.loads((folder / "manifest.json").read_text())
    content["train"][0]["name"] = name
    (folder / "manifest.json").write_text(json.dumps(content))
    assert "manifest.json" in refusal(folder)


def test_no_or_a_foreign_manifest(tmp_path: Path) -> None:
    assert "finished" in refusal(tmp_path)
    for text in ("", "[]", '{"format": "other"}', "[" * 10**5, json.dumps({"version": 9})):
        (tmp_path / "manifest.json").write_text(text)
        assert "manifest.json" in refusal(tmp_path)
    with pytest.raises(InputError, match="'test'"):
        RecordShards(tmp_path, "test")  # type: ignore[arg-type]


def test_videos_are_split_by_their_id_as_released() -> None:
    numbers = [split_number(f"video{i}") for i in range(20_000)]
    assert min(numbers) == 0 and max(numbers) == 999 and 60 < sum(number < 5 for number in numbers) < 140
