"""A partition's high watermark, who waits for it, and how it goes out of service."""

import pytest
from tests.unit.broker.dialogue import NOW_MS, batch

from headrace.base.errors import CorruptionError, StorageError
from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.outcomes import Staged
from headrace.log.partition_log import PartitionLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import Fault, SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.record_batch import read_header

TOPIC_ID = bytes(range(16))


class Waiter:
    def __init__(self) -> None:
        self.heard: list[int | str] = []

    def on_appended(self, byte_count: int) -> None:
        self.heard.append(byte_count)

    def on_gone(self) -> None:
        self.heard.append("gone")


def partition_on(disk: SimulatedDisk, config: LogConfig | None = None) -> Partition:
    log = PartitionLog.open(
        disk,
        "/t-0",
        "t",
        0,
        config or LogConfig(),
        SimulatedClock(),
        topic_id=TOPIC_ID,
        files=FileBudget(disk),
    )
    return Partition("t", 0, TOPIC_ID, log, TopicConfig(), leader_epoch=3)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def stage(partition: Partition, whole: bytes) -> Staged:
    return partition.stage(memoryview(bytearray(whole)), read_header(whole), NOW_MS)


def test_nothing_staged_is_visible_before_its_commit(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    writes = disk.write_count
    for expected in (0, 2):
        assert stage(partition, batch("a", "b")).base_offset == expected
    assert (partition.high_watermark, partition.last_stable_offset) == (0, 0)
    partition.commit()
    assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)
    assert partition.staged_bytes == 0
    # The checkpoint of the leader epoch (a cut and a write) and the batches.
    assert disk.write_count == writes + 3


def test_waiters_hear_how_much_came(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    first, second = Waiter(), Waiter()
    partition.wait(first)
    partition.wait(second)
    whole = batch("a", producer=(1, 0, 0))
    stage(partition, whole)
    stage(partition, batch("b"))
    partition.commit()
    assert first.heard == second.heard == [len(whole) + len(batch("b"))]
    partition.forget(first)
    partition.forget(first)
    assert stage(partition, whole).duplicate
    partition.commit()
    stage(partition, batch("c"))
    partition.commit()
    assert len(first.heard) == 1
    assert second.heard[1:] == [len(batch("c"))]


def test_one_who_waits_anew_from_within_is_not_called_at_once(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)

    class Again(Waiter):
        def on_appended(self, byte_count: int) -> None:
            super().on_appended(byte_count)
            partition.forget(self)
            partition.wait(self)

    waiter = Again()
    partition.wait(waiter)
    stage(partition, batch("a"))
    partition.commit()
    assert len(waiter.heard) == 1


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_leader_epochs(disk: SimulatedDisk, current: int, expected: ErrorCode) -> None:
    assert partition_on(disk).leader_epoch_refusal(current) == expected


def test_a_failed_write_ends_all_service(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    waiter = Waiter()
    partition.wait(waiter)
    stage(partition, batch("a"))
    disk.plan(Fault("write", path_part="/t-0/"))
    partition.commit()
    assert partition.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.high_watermark == 0
    assert waiter.heard == ["gone"]
    outcome = stage(partition, batch("b"))
    assert outcome.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.append(bytearray(batch("c")), NOW_MS).value() == partition.error


def test_a_roll_that_fails_refuses_the_batch(disk: SimulatedDisk) -> None:
    partition = partition_on(disk, LogConfig(segment_bytes=300))
    stage(partition, batch("a" * 100))
    partition.commit()
    disk.plan(Fault("open", path_part=".log"))
    assert stage(partition, batch("b" * 200)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.error == ErrorCode.KAFKA_STORAGE_ERROR


def test_failing_twice_tells_the_first_reason_once(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    heard: list[StorageError] = []
    partition.log.on_failure = heard.append
    first, second = CorruptionError("/t-0/x", 5, "bits"), StorageError("/t-0/y", "gone")
    partition.fail(first)
    partition.fail(second)
    assert heard == [first]
    assert partition.log.failure is first


def test_a_topic_that_is_gone_keeps_that_answer(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    partition.take_out(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition.fail(StorageError("/t-0", "late"))
    assert partition.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_appends_of_our_own_come_behind_what_is_staged(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    waiter = Waiter()
    partition.wait(waiter)
    stage(partition, batch("a"))
    assert partition.append(bytearray(batch("b")), NOW_MS).value() == ErrorCode.NONE
    assert partition.high_watermark == 2
    assert waiter.heard == [len(batch("a")), len(batch("b"))]
    assert partition.log.epochs.latest == 3


def test_flush_messages_counts_records(disk: SimulatedDisk) -> None:
    partition = partition_on(disk, LogConfig(flush_messages=3))
    disk.defer_syncs = True
    stage(partition, batch("a", "b"))
    partition.commit()
    assert not partition.waits_for_sync
    assert partition.flushed_as_configured().settled
    stage(partition, batch("c"))
    partition.commit()
    assert partition.waits_for_sync
    promise = partition.flushed_as_configured()
    assert not promise.settled
    disk.complete_syncs()
    assert promise.value() == ErrorCode.NONE
    stage(partition, batch("d"))
    partition.commit()
    assert not partition.waits_for_sync


def test_a_failed_sync_is_told_to_everyone_who_waits(disk: SimulatedDisk) -> None:
    partition = partition_on(disk, LogConfig(flush_messages=1))
    disk.defer_syncs = True
    stage(partition, batch("a"))
    partition.commit()
    promises = [partition.flushed_as_configured() for _ in range(3)]
    disk.plan(Fault("sync"))
    for _ in range(3):
        disk.complete_syncs()
    assert [promise.value() for promise in promises] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3


def test_whoever_asked_hears_of_the_failure_once(disk: SimulatedDisk) -> None:
    partition = partition_on(disk)
    heard: list[StorageError] = []
    partition.on_failure = heard.append
    error = CorruptionError("/t-0/x", 5, "bits")
    partition.fail(error)
    partition.fail(StorageError("/t-0/y", "later"))
    assert heard == [error]
