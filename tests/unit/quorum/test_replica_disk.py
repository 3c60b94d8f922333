"""What a replica keeps: what it loads after each kind of end, and what it changes."""

from random import Random

import pytest

from headrace.base.errors import CorruptionError, StorageError
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.batches import Batch, stamped, voters_batch
from headrace.quorum.election_state import ElectionState, ReplicaKey
from headrace.quorum.events import SnapshotChunk
from headrace.quorum.log_view import SnapshotId
from headrace.quorum.replica_disk import ReplicaDisk
from headrace.quorum.snapshot_files import SnapshotWriter, publish, snapshot_name
from headrace.quorum.voters import VoterSet
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.records import build_batch, read_batches

FOLDER = "d/log-0"


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id]) * 16)


ONE, TWO = VoterSet.of(key(1)), VoterSet.of(key(1), key(2))


def opened(storage: SimulatedDisk, segment_bytes: int = 1 << 20) -> ReplicaDisk:
    storage.make_directory("d")
    storage.sync_directory("/")
    log = PartitionLog.open(
        storage,
        FOLDER,
        "log",
        0,
        LogConfig(
            retention_ms=-1, delete=False, segment_bytes=segment_bytes, file_delete_delay_ms=0
        ),
        SimulatedClock(),
        topic_id=bytes(16),
        files=FileBudget(storage),
    )
    storage.sync_directory("d")
    return ReplicaDisk(log, storage)


def entry(offset: int, epoch: int) -> Batch:
    return stamped(build_batch([(None, b"value", (), 0)]), offset, epoch)


def snapshot(storage: SimulatedDisk, id_: SnapshotId, voters: VoterSet = ONE) -> None:
    writer = SnapshotWriter(storage, FOLDER, id_, voters, 0)
    writer.finish()
    publish(storage, FOLDER, id_, writer.file, lambda _error: None)


def reopened(storage: SimulatedDisk) -> ReplicaDisk:
    storage.kill()
    return opened(storage)


def with_entries(*epochs: int, segment_bytes: int = 1 << 20) -> ReplicaDisk:
    disk = opened(SimulatedDisk(), segment_bytes)
    for offset, epoch in enumerate(epochs):
        disk.append([entry(offset, epoch)])
        disk.write()
    return disk


def test_an_empty_disk_has_the_voters_it_is_told() -> None:
    loaded = opened(SimulatedDisk()).load(TWO)
    assert loaded.election == ElectionState()
    assert loaded.voters.latest == TWO
    assert loaded.log.end_offset == 0


def test_voters_that_formatting_wrote_come_first() -> None:
    disk = opened(SimulatedDisk())
    snapshot(disk.storage, SnapshotId(0, 0), TWO)  # type: ignore[arg-type]
    assert disk.load(ONE).voters.latest == TWO


def test_voters_in_the_log_come_before_all_others() -> None:
    disk = with_entries(1, 1)
    disk.append([stamped(voters_batch(TWO, 0), 2, 1)])
    disk.write()
    loaded = disk.load(ONE)
    assert loaded.voters.latest == TWO
    assert loaded.voters.at(2) == ONE


def test_epochs_come_from_the_entries() -> None:
    disk = with_entries(1, 1, 3, 3, 4)
    loaded = disk.load(ONE)
    assert [loaded.log.epoch_before(offset) for offset in range(6)] == [0, 1, 1, 3, 3, 4]
    assert loaded.log.is_synced
    assert loaded.election == ElectionState(4)


def test_what_is_loaded_is_durable() -> None:
    disk = with_entries(1, 1, 1)
    storage = disk.storage
    assert isinstance(storage, SimulatedDisk)
    again = reopened(storage)
    assert again.load(ONE).log.end_offset == 3
    storage.crash(Random(1))
    assert opened(storage).load(ONE).log.end_offset == 3


def test_a_log_that_ends_before_the_newest_snapshot_is_reset_to_it() -> None:
    disk = with_entries(1, 1, 5)
    storage = disk.storage
    assert isinstance(storage, SimulatedDisk)
    snapshot(storage, SnapshotId(10, 2), TWO)
    loaded = reopened(storage).load(ONE)
    assert (loaded.log.start_offset, loaded.log.end_offset) == (10, 10)
    assert loaded.log.last_epoch == 2
    assert loaded.voters.latest == TWO


def test_a_log_with_another_past_than_the_newest_snapshot_is_reset_to_it() -> None:
    disk = with_entries(1, 1, 1, 1)
    storage = disk.storage
    assert isinstance(storage, SimulatedDisk)
    snapshot(storage, SnapshotId(3, 2))
    again = reopened(storage)
    assert again.load(ONE).log.start_offset == 3
    assert again.load(ONE).log.end_offset == 3
    # Epochs of the old log, which may be newer than those to come, are forgotten.
    again.append([entry(3, 2), entry(4, 2)])
    again.write()
    assert again.log.epochs.entries == [(2, 3)]
    loaded = reopened(storage).load(ONE)
    assert (loaded.log.start_offset, loaded.log.end_offset, loaded.log.last_epoch) == (3, 5, 2)


def test_a_log_that_runs_past_its_own_snapshot_stays() -> None:
    disk = with_entries(1, 1, 2, 2)
    storage = disk.storage
    assert isinstance(storage, SimulatedDisk)
    snapshot(storage, SnapshotId(3, 2))
    loaded = reopened(storage).load(ONE)
    assert (loaded.log.start_offset, loaded.log.end_offset) == (0, 4)


def test_trimmed_entries_go_with_their_segments_when_the_rest_is_synced() -> None:
    disk = with_entries(*[1] * 40, segment_bytes=600)
    storage = disk.storage
    assert isinstance(storage, SimulatedDisk)
    count = len(disk.log.segments)
    assert count > 3
    snapshot(storage, SnapshotId(30, 1))
    disk.log.flusher.lower(0)
    disk.start_at(30)
    assert len(disk.log.segments) == count, "not synced so far"
    disk.log.flush_now()
    disk.maybe_trim()
    assert len(disk.log.segments) < count
    loaded = reopened(storage).load(ONE)
    assert (loaded.log.start_offset, loaded.log.end_offset) == (30, 40)


def test_a_log_that_starts_late_without_a_snapshot_is_damage() -> None:
    disk = opened(SimulatedDisk())
    disk.reset_to(SnapshotId(7, 1))
    with pytest.raises(CorruptionError):
        disk.load(ONE)


def test_entries_are_read_before_they_are_synced() -> None:
    disk = with_entries(1)
    disk.append([entry(1, 1), entry(2, 1)])
    offsets = [header.base_offset for header, _ in read_batches(disk.read(1, 1 << 20))]
    assert offsets == [1, 2]
    assert len(list(read_batches(disk.read(0, 1)))) == 1
    assert disk.read(3, 1 << 20) == b""


def fetched(disk: ReplicaDisk, content: bytes, id_: SnapshotId) -> list[StorageError | None]:
    half = len(content) // 2
    disk.write_chunk(SnapshotChunk(id_, 0, content[:half], False))
    disk.write_chunk(SnapshotChunk(id_, half, content[half:], True))
    outcomes: list[StorageError | None] = []
    disk.finish_fetched(id_, lambda error, _voters, _size: outcomes.append(error))
    return outcomes


def test_a_fetched_snapshot_is_judged_before_it_has_a_name() -> None:
    storage = SimulatedDisk()
    source = opened(storage)
    id_ = SnapshotId(9, 3)
    snapshot(storage, id_, TWO)
    content = storage.read_file(f"{FOLDER}/{snapshot_name(id_)}")
    target_storage = SimulatedDisk()
    target = opened(target_storage)
    damaged = bytearray(content)
    damaged[-3] ^= 1
    (error,) = fetched(target, bytes(damaged), id_)
    assert isinstance(error, CorruptionError)
    assert not target_storage.exists(f"{FOLDER}/{snapshot_name(id_)}")
    assert fetched(target, content, id_) == [None]
    assert target.voters_of(id_) == TWO
    assert target.read_snapshot_chunk(id_, 5, 10) == source.read_snapshot_chunk(id_, 5, 10)
    target.delete_snapshots([id_, SnapshotId(1, 1)])
    assert not target_storage.exists(f"{FOLDER}/{snapshot_name(id_)}")
