"""Snapshots as files: what is written is read, what is damaged is told."""

from random import Random

import pytest

from headrace.base.errors import CorruptionError, StorageError
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.snapshot_files import (
    BATCH_BYTES,
    SnapshotWriter,
    find_snapshots,
    publish,
    read_snapshot,
    read_snapshot_voters,
    snapshot_name,
    write_bootstrap_snapshot,
)
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.records import read_records

ID = SnapshotId(1_234, 7)
VOTERS = VoterSet([Voter(ReplicaKey(1, b"1" * 16), (Endpoint("C", "h", 9093),))])
FOLDER = "log"
PATH = f"{FOLDER}/00000000000000001234-0000000007.checkpoint"


def written(values: list[bytes], disk: SimulatedDisk | None = None) -> SimulatedDisk:
    disk = disk or SimulatedDisk()
    disk.make_directory(FOLDER)
    writer = SnapshotWriter(disk, FOLDER, ID, VOTERS, now_ms=5)
    writer.append(values)
    writer.finish()
    errors: list[StorageError | None] = []
    publish(disk, FOLDER, ID, writer.file, errors.append)
    disk.complete_syncs()
    disk.complete_syncs()
    assert errors == [None]
    return disk


def values_in(disk: SimulatedDisk) -> list[bytes | None]:
    batches = read_snapshot(disk.open(PATH))
    return [r.value for header, b in batches if not header.is_control for r in read_records(b)]


@pytest.mark.parametrize("count", [0, 1, 1_000])
def test_what_is_written_is_read(count: int) -> None:
    values = [f"record {index}".encode() * 10 for index in range(count)]
    disk = written(values)
    assert values_in(disk) == values
    assert find_snapshots(disk, FOLDER) == {ID: disk.size(PATH)}
    assert read_snapshot_voters(disk, FOLDER, ID) == VOTERS


def test_offsets_go_on_through_all_batches() -> None:
    disk = written([b"x" * 1_000] * 100)
    headers = [header for header, _ in read_snapshot(disk.open(PATH))]
    assert len(headers) > 100_000 // (BATCH_BYTES + 1_000)
    assert [h.base_offset for h in headers[1:]] == [h.next_offset for h in headers[:-1]]
    assert {h.partition_leader_epoch for h in headers} == {ID.epoch}


def test_a_snapshot_has_no_name_before_it_is_synced() -> None:
    disk = SimulatedDisk(defer_syncs=True)
    disk.make_directory(FOLDER)
    writer = SnapshotWriter(disk, FOLDER, ID, VOTERS, now_ms=5)
    writer.finish()
    done: list[StorageError | None] = []
    publish(disk, FOLDER, ID, writer.file, done.append)
    assert not disk.exists(PATH)
    disk.complete_syncs(1)
    assert disk.exists(PATH)
    assert done == []
    disk.complete_syncs(1)
    assert done == [None]


def test_a_failed_sync_is_told_and_names_nothing() -> None:
    disk = SimulatedDisk()
    disk.make_directory(FOLDER)
    disk.plan(Fault("sync", path_part="checkpoint"))
    writer = SnapshotWriter(disk, FOLDER, ID, VOTERS, now_ms=5)
    writer.finish()
    done: list[StorageError | None] = []
    publish(disk, FOLDER, ID, writer.file, done.append)
    assert isinstance(done[0], StorageError)
    assert find_snapshots(disk, FOLDER) == {}


def test_what_was_never_finished_goes() -> None:
    disk = SimulatedDisk()
    disk.make_directory(FOLDER)
    SnapshotWriter(disk, FOLDER, ID, VOTERS, now_ms=5)
    disk.open(f"{PATH}.3.fetched", create=True)
    disk.open(f"{FOLDER}/00000000000000000000.log", create=True)
    assert find_snapshots(disk, FOLDER) == {}
    assert disk.list(FOLDER) == ["00000000000000000000.log"]


def test_every_flipped_bit_is_damage() -> None:
    disk = written([b"some value", b"another"])
    content = disk.read_file(PATH)
    for position in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[position] ^= 0x10
        disk.overwrite(PATH, bytes(damaged))
        # Offset and epoch of a batch are outside of its checksum; nobody reads them here.
        at = position
        for header, batch in _batches(content):
            if at < len(batch):
                break
            at -= header
        if at < 8 or 12 <= at < 16:
            continue
        with pytest.raises(CorruptionError):
            list(read_snapshot(disk.open(PATH)))


def _batches(content: bytes) -> list[tuple[int, bytes]]:
    found, position = [], 0
    while position < len(content):
        size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
        found.append((size, content[position : position + size]))
        position += size
    return found


@pytest.mark.parametrize("cut", range(1, 400, 7))
def test_a_snapshot_that_is_cut_short_is_damage(cut: int) -> None:
    disk = written([b"v" * 40] * 20)
    content = disk.read_file(PATH)
    disk.overwrite(PATH, content[:-cut])
    with pytest.raises(CorruptionError):
        list(read_snapshot(disk.open(PATH)))


def test_a_formatted_disk_knows_its_voters_after_a_power_cut() -> None:
    disk = SimulatedDisk()
    disk.make_directory(FOLDER)
    disk.sync_directory("/")
    id_ = write_bootstrap_snapshot(disk, FOLDER, VOTERS, 5)
    disk.crash(Random(1))
    assert snapshot_name(id_) == "00000000000000000000-0000000000.checkpoint"
    assert read_snapshot_voters(disk, FOLDER, id_) == VOTERS
