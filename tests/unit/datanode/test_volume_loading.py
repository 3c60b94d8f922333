"""What a node finds on its disks when it starts, after every way to go down."""

import itertools
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.base.events import EventLog
from headrace.datanode.block_files import covered_length, truncate_files
from headrace.datanode.chunk_checksums import compute_checksums
from headrace.datanode.dataset import Dataset
from headrace.datanode.loading import load_replicas
from headrace.datanode.replica import ReplicaState
from headrace.datanode.volume import PoolIdentity, Volume, pair_files
from headrace.runtime.clock import SystemClock
from headrace.runtime.disk import DiskStorage
from headrace.wire.hadoop.block_meta import CRC32C_512, encode_meta_header
from headrace.wire.hadoop.transfer import ExtendedBlock

POOL = PoolIdentity("BP-1", 1, "CID", 0)
HEADER = encode_meta_header(CRC32C_512)


def opened(folder: Path, volumes: int = 1) -> tuple[Dataset, list[str]]:
    storage, lines = DiskStorage(), []
    found = [Volume(storage, str(folder / f"v{index}")) for index in range(volumes)]
    for index, volume in enumerate(found):
        storage.make_directory(volume.path)
        volume.format(POOL, "uuid", lambda index=index: str(index))
    dataset = Dataset(storage, found, lambda action: action())
    load_replicas(dataset, EventLog(lines.append, SystemClock()))
    dataset.pool = POOL
    return dataset, lines


def put(folder: str, block_id: int, stamp: int, data: bytes, meta: bytes | None = None) -> None:
    os.makedirs(folder, exist_ok=True)
    Path(folder, f"blk_{block_id}").write_bytes(data)
    if meta is None:
        meta = HEADER + compute_checksums(CRC32C_512, data)
    Path(folder, f"blk_{block_id}_{stamp}.meta").write_bytes(meta)


def test_finalized_replicas_are_found_with_stamp_and_length(tmp_path: Path) -> None:
    dataset, _ = opened(tmp_path)
    volume = dataset.volumes[0]
    put(volume.finalized_folder(5), 5, 1001, b"x" * 700)
    put(volume.finalized_folder(-9), -9, 1002, b"")
    again, _ = opened(tmp_path)
    found = {r.block_id: (r.generation_stamp, r.num_bytes, r.state) for r in _all(again)}
    assert found == {
        5: (1001, 700, ReplicaState.FINALIZED),
        -9: (1002, 0, ReplicaState.FINALIZED),
    }
    assert again.volumes[0].used_bytes == 700
    assert again.volumes[0].storage_id == volume.storage_id


def _all(dataset: Dataset) -> list:  # type: ignore[type-arg]
    return list(dataset.replicas.values())


DATA = os.urandom(1300)
SUMS = compute_checksums(CRC32C_512, DATA)


@pytest.mark.parametrize(
    ("data", "meta", "length"),
    [
        pytest.param(DATA, HEADER + SUMS, 1300, id="whole"),
        pytest.param(DATA, HEADER + SUMS[:8], 1024, id="data ahead of its checksums"),
        pytest.param(DATA[:600], HEADER + SUMS, 512, id="data behind its checksums"),
        pytest.param(DATA, HEADER, 0, id="no checksums"),
        pytest.param(DATA, HEADER[:3], 0, id="half a header"),
        pytest.param(DATA, b"", 0, id="an empty meta file"),
        pytest.param(DATA, b"\x00\x09" + HEADER[2:] + SUMS, 0, id="a header of another version"),
        pytest.param(
            DATA,
            HEADER + SUMS[:8] + compute_checksums(CRC32C_512, DATA[1024:1100]),
            1100,
            id="an older checksum of the last chunk",
        ),
        pytest.param(
            DATA[:1290] + b"garbage!!!", HEADER + SUMS, 1024, id="a last chunk that is wrong"
        ),
        pytest.param(b"", HEADER, 0, id="empty"),
    ],
)
def test_what_was_being_written_waits_for_recovery_with_what_is_sure(
    tmp_path: Path, data: bytes, meta: bytes, length: int
) -> None:
    dataset, _ = opened(tmp_path)
    put(dataset.volumes[0].rbw, 5, 1001, data, meta)
    again, _ = opened(tmp_path)
    replica = again.replicas[5]
    assert (replica.state, replica.num_bytes) == (ReplicaState.RWR, length)
    assert replica.visible_length == -1
    assert Path(replica.data_path).read_bytes() == data[:length]
    if length:
        left = Path(replica.meta_path).read_bytes()
        assert left[: len(HEADER)] == HEADER
        expected = compute_checksums(CRC32C_512, data[:length])
        assert left[len(HEADER) : len(HEADER) + len(expected)] == expected


def test_copies_on_their_way_in_are_gone_and_strays_are_told(tmp_path: Path) -> None:
    dataset, _ = opened(tmp_path)
    volume = dataset.volumes[0]
    put(volume.tmp, 1, 1001, b"half")
    put(volume.finalized_folder(2), 2, 1001, b"data")
    os.remove(f"{volume.finalized_folder(2)}/blk_2_1001.meta")
    again, lines = opened(tmp_path)
    assert not again.replicas
    assert not os.listdir(volume.tmp)
    assert any("stray_file" in line for line in lines)


def test_of_two_volumes_with_a_block_the_newer_stamp_wins(tmp_path: Path) -> None:
    dataset, _ = opened(tmp_path, 2)
    first, second = dataset.volumes
    put(first.finalized_folder(5), 5, 1001, b"older but longer")
    put(second.finalized_folder(5), 5, 1002, b"newer")
    again, lines = opened(tmp_path, 2)
    assert again.replicas[5].volume.path == second.path
    assert any("duplicate_replica" in line for line in lines)
    assert os.path.exists(f"{first.finalized_folder(5)}/blk_5"), "nothing is deleted"


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    dataset, _ = opened(tmp_path)
    other = PoolIdentity("BP-2", 2, "CID-other", 0)
    with pytest.raises(UsageError, match="belongs to cluster CID"):
        Volume(DiskStorage(), dataset.volumes[0].path).format(other, "uuid", lambda: "x")


@pytest.mark.parametrize("version", ["-58", "-56", "x"])
def test_a_directory_of_another_layout_is_refused(tmp_path: Path, version: str) -> None:
    dataset, _ = opened(tmp_path)
    path = Path(dataset.volumes[0].path)
    file = path / "current" / "VERSION"
    file.write_text(file.read_text().replace("layoutVersion=-57", f"layoutVersion={version}"))
    words = f"Unexpected version of storage directory {path}. Reported: {version}. Expecting = -57."
    with pytest.raises(UsageError) as caught:
        Volume(DiskStorage(), str(path)).format(POOL, "uuid", lambda: "x")
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (replace(POOL, ctime=5), ""),
        (replace(POOL, ctime=3), "CTime = 4 is newer than the namespace state: CTime = 3"),
        (replace(POOL, namespace_id=7), "namespaceID = 7; datanode namespaceID = 1"),
    ],
    ids=str,
)
def test_a_directory_of_another_life_of_the_namespace(
    tmp_path: Path, pool: PoolIdentity, words: str
) -> None:
    volume = Volume(DiskStorage(), str(tmp_path / "v"))
    volume.format(replace(POOL, ctime=4), "uuid", lambda: "x")
    if not words:
        volume.format(pool, "uuid", lambda: "x")
        return
    with pytest.raises(UsageError, match=words):
        volume.format(pool, "uuid", lambda: "x")


def test_pairs_of_files() -> None:
    names = ["blk_1", "blk_1_5.meta", "blk_1_4.meta", "blk_2", "blk_3_9.meta", "note.txt"]
    pairs, strays = pair_files(names)
    assert pairs == [(1, 5)]
    assert sorted(strays) == ["blk_1_4.meta", "blk_2", "blk_3_9.meta", "note.txt"]


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 1299])
def test_a_cut_leaves_data_and_checksums_in_step(tmp_path: Path, length: int) -> None:
    storage = DiskStorage()
    put(str(tmp_path), 1, 1, DATA)
    data = storage.open(str(tmp_path / "blk_1"))
    meta = storage.open(str(tmp_path / "blk_1_1.meta"))
    truncate_files(data, meta, CRC32C_512, length)
    assert covered_length(data, meta) == length == data.size()
    assert meta.read(7, 1000) == compute_checksums(CRC32C_512, DATA[:length])
    assert struct.unpack(">hbi", meta.read(0, 7)) == (1, 2, 512)


def test_volumes_take_turns_and_a_failed_one_takes_only_its_replicas(tmp_path: Path) -> None:
    dataset, _ = opened(tmp_path, 3)
    for number in range(6):
        block = ExtendedBlock("BP-1", number, 1001)
        dataset.finalize(dataset.create_rbw(block, CRC32C_512))
    by_volume = [sum(1 for _ in dataset.of_volume(volume)) for volume in dataset.volumes]
    assert by_volume == [2, 2, 2]
    from headrace.base.errors import StorageError

    failed: list[str] = []
    dataset.on_volume_failed = lambda volume, _error: failed.append(volume.path)
    lost = dataset.volumes[1]
    dataset.volume_failed(lost, StorageError(lost.path, "gone"))
    dataset.volume_failed(lost, StorageError(lost.path, "gone"))
    assert failed == [lost.path]
    assert len(dataset.replicas) == 4
    replica = dataset.create_rbw(ExtendedBlock("BP-1", 99, 1001), CRC32C_512)
    assert replica.volume is not lost


def test_a_volume_with_more_room_has_more_turns(tmp_path: Path) -> None:
    class Roomy(Volume):
        def free_bytes(self) -> int:
            return int(self.path.rpartition("-")[2])

    storage = DiskStorage()
    volumes = [Roomy(storage, str(tmp_path / f"v-{room}")) for room in (100, 200, 600)]
    for volume in volumes:
        storage.make_directory(volume.path)
        volume.format(POOL, "uuid", lambda path=volume.path: path)  # type: ignore[misc]
    dataset = Dataset(storage, list(volumes), lambda action: action())
    dataset.pool = POOL
    taken = [
        dataset.create_rbw(ExtendedBlock("BP-1", block_id, 1001), CRC32C_512).volume.path
        for block_id in range(90)
    ]
    assert [taken.count(volume.path) for volume in volumes] == [10, 20, 60]
    assert max(len(list(run)) for _, run in itertools.groupby(taken)) <= 3
