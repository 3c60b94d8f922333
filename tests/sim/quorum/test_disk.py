"""The simulated disk: what a crash leaves."""

import random

from headrace.quorum.batches import Batch, stamped
from headrace.quorum.election_state import ElectionState
from headrace.quorum.log_view import SnapshotId
from headrace.testing.quorum.disk import ReplicaDisk, Reset, Start, Truncate
from headrace.wire.kafka.records import build_batch


def batch(offset: int, epoch: int = 1) -> Batch:
    return stamped(build_batch([(None, b"v", (), 0)]), offset, epoch)


def disk_with(synced: int, written: int) -> ReplicaDisk:
    disk = ReplicaDisk(bytes(16))
    for offset in range(synced):
        disk.write(batch(offset))
    disk.sync(disk.pending_count)
    for offset in range(synced, written):
        disk.write(batch(offset))
    return disk


def test_a_power_cut_keeps_what_was_synced_and_a_prefix_of_the_rest() -> None:
    ends = set()
    for seed in range(60):
        disk = disk_with(3, 6)
        disk.power_cut(random.Random(seed))
        assert [b.base_offset for b in disk.log.batches] == list(range(disk.log.end_offset))
        assert disk.log.end_offset == disk.durable.end_offset
        ends.add(disk.log.end_offset)
    assert ends == {3, 4, 5, 6}


def test_the_end_of_a_process_keeps_all_and_makes_nothing_durable() -> None:
    disk = disk_with(3, 6)
    disk.process_end()
    assert (disk.log.end_offset, disk.durable.end_offset) == (6, 3)
    disk.recover()
    assert disk.durable.end_offset == 6


def test_a_truncation_that_was_not_synced_may_come_undone() -> None:
    ends = set()
    for seed in range(40):
        disk = disk_with(5, 5)
        disk.write(Truncate(2))
        disk.write(batch(2, epoch=2))
        disk.power_cut(random.Random(seed))
        ends.add((disk.log.end_offset, disk.log.batches[-1].epoch))
    assert ends == {(5, 1), (2, 1), (3, 2)}


def test_the_newest_snapshot_decides_at_recovery() -> None:
    disk = disk_with(3, 3)
    disk.snapshots[SnapshotId(2, 1)] = b""
    disk.recover()
    assert disk.log.end_offset == 3
    disk.snapshots[SnapshotId(9, 1)] = b""
    disk.recover()
    assert (disk.log.start, disk.log.batches) == (SnapshotId(9, 1), [])


def test_a_snapshot_that_a_log_may_start_at_is_known() -> None:
    disk = disk_with(4, 4)
    disk.write(Start(SnapshotId(2, 1)))
    disk.write(Start(SnapshotId(3, 1)))
    assert all(disk.may_start_at(SnapshotId(at, 1)) for at in (2, 3))
    disk.sync(disk.pending_count)
    assert not disk.may_start_at(SnapshotId(2, 1))
    disk.write(Reset(SnapshotId(9, 4)))
    assert disk.may_start_at(SnapshotId(3, 1)), "after a power cut"
    assert disk.election == ElectionState()
