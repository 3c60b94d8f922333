"""A partition that is led: what waits in it, and what lets it go."""

from dataclasses import replace

import pytest

from headrace.base.errors import StorageError
from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.broker.replication.in_sync import InSync
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.records import build_batch

NOW_MS = 1_700_000_000_000
LAG_MS = 1_000


class Waiting:
    """A fetch that counts what it is told of."""

    def __init__(self) -> None:
        self.bytes_told = 0
        self.is_gone = False

    def on_appended(self, byte_count: int) -> None:
        self.bytes_told += byte_count

    def on_gone(self) -> None:
        self.is_gone = True


def batch() -> bytearray:
    return build_batch([(None, b"value", (), NOW_MS)])


def partition(end_offset: int = 0, **config: int) -> Partition:
    disk = SimulatedDisk(defer_syncs=True)
    log = PartitionLog.open(
        disk,
        "/t-0",
        "t",
        0,
        LogConfig(**config),
        SimulatedClock(),
        topic_id=bytes(16),
        files=FileBudget(disk),
    )
    for _ in range(end_offset):
        log.append(batch(), 0, NOW_MS)
    made = Partition("t", 0, bytes(16), log, TopicConfig(), 0)
    made.high_watermark = 0
    return made


def disk_of(led: Partition) -> SimulatedDisk:
    storage = led.log.files.storage
    assert isinstance(storage, SimulatedDisk)
    return storage


def lead(led: Partition, isr: tuple[int, ...] = (1, 2)) -> InSync:
    in_sync = InSync(1, 10, (1, 2, 3), isr, 1, 1, led.log.log_end_offset, LAG_MS, 0)
    led.lead(1, in_sync)
    return in_sync


def fetch(led: Partition, follower: int, now_ms: int = 1) -> None:
    assert led.in_sync is not None
    end = led.log.log_end_offset
    led.in_sync.on_fetch(follower, 20, end, 0, end, now_ms)
    led.advance_high_watermark()


def test_a_follower_that_dies_while_it_is_about_to_join_is_not_waited_for_long() -> None:
    led = partition()
    lead(led)
    led.append(batch(), NOW_MS)
    fetch(led, 2)
    fetch(led, 3)  # caught up, and about to be proposed
    answer = led.append(batch(), NOW_MS, timeout_ms=60_000)
    fetch(led, 2)
    assert led.high_watermark == 1
    led.on_time(LAG_MS // 2)
    assert not answer.settled
    led.on_time(LAG_MS + 2)
    assert answer.value() is ErrorCode.NONE
    assert led.high_watermark == 2


def test_the_time_that_a_producer_gave_counts_from_now() -> None:
    """Nobody has fetched for a while: the last fetch is not the beginning."""
    led = partition()
    lead(led)
    led.on_time(5_000)
    answer = led.append(batch(), NOW_MS, timeout_ms=1_000)
    led.on_time(5_900)
    assert not answer.settled
    led.on_time(6_000)
    assert answer.value() is ErrorCode.REQUEST_TIMED_OUT


def below_its_minimum(led: Partition) -> InSync:
    """Two of three are in sync, as many as must be; a write waits when one of them leaves."""
    led.config = replace(led.config, min_insync_replicas=2)
    in_sync = lead(led, (1, 2))
    fetch(led, 2)
    return in_sync


def test_a_write_that_waits_while_too_few_are_in_sync_is_not_acknowledged() -> None:
    """Those that are left have it all: committed it is not before they are enough again."""
    led = partition()
    in_sync = below_its_minimum(led)
    answer = led.append(batch(), NOW_MS, timeout_ms=1_000)
    led.on_isr_decided((1,), leader_epoch=1, partition_epoch=2)
    fetch(led, 2)
    led.on_time(500)
    assert not answer.settled
    assert led.high_watermark == 0
    assert led.append(batch(), NOW_MS).value() is ErrorCode.NOT_ENOUGH_REPLICAS
    led.on_time(1_001)
    assert answer.value() is ErrorCode.REQUEST_TIMED_OUT, "its time is up; what it wrote stays"
    assert led.log.log_end_offset == 1
    assert not in_sync.is_proposing


def test_a_write_that_waits_is_acknowledged_when_enough_are_back_in_time() -> None:
    led = partition()
    below_its_minimum(led)
    answer = led.append(batch(), NOW_MS, timeout_ms=60_000)
    led.on_isr_decided((1,), leader_epoch=1, partition_epoch=2)
    fetch(led, 3)
    assert not answer.settled
    led.on_isr_decided((1, 3), leader_epoch=1, partition_epoch=3)
    assert answer.value() is ErrorCode.NONE
    assert led.high_watermark == 1


def test_after_a_failed_write_nobody_waits() -> None:
    led = partition()
    lead(led)
    led.fail(StorageError("/t-0", "the disk is gone"))
    assert led.committed(7, 60_000).value() is ErrorCode.KAFKA_STORAGE_ERROR


def test_an_append_of_our_own_is_as_durable_as_the_topic_asks_for() -> None:
    led = partition(flush_messages=1)
    lead(led, (1, 2))
    answer = led.append(batch(), NOW_MS)
    fetch(led, 2)
    assert led.high_watermark == 1
    assert not answer.settled, "committed, and not yet on disk"
    disk_of(led).complete_syncs()
    assert answer.value() is ErrorCode.NONE


def test_consumers_are_woken_when_what_was_taken_over_is_committed() -> None:
    led = partition(end_offset=3)
    lead(led)
    consumer = Waiting()
    led.wait(consumer)
    fetch(led, 2)
    assert led.high_watermark == 3
    assert consumer.bytes_told > 0


def test_followers_hear_of_a_new_log_start_at_once() -> None:
    led = partition(end_offset=3)
    lead(led)
    follower = Waiting()
    led.wait(follower, follower=True)
    led.on_log_start_moved()
    assert follower.bytes_told > 0


def test_the_low_watermark_is_the_smallest_start_of_the_living() -> None:
    led = partition(end_offset=3)
    in_sync = lead(led)
    led.log.delete_records(2)
    assert led.low_watermark == -1, "the follower has not told"
    in_sync.on_fetch(2, 20, 3, 1, 3, 1)
    in_sync.on_fetch(3, 20, 3, 1, 3, 1)
    assert led.low_watermark == 1
    in_sync.on_fetch(2, 20, 3, 2, 3, 2)
    in_sync.on_fetch(3, 20, 3, 2, 3, 2)
    assert led.low_watermark == 2


def test_a_smaller_minimum_lets_go_what_waited() -> None:
    led = partition()
    led.config = replace(led.config, min_insync_replicas=2)
    lead(led, (1,))
    led.stage(memoryview(batch()), header_of(batch()), NOW_MS)
    led.commit()
    assert led.high_watermark == 0
    led.config = replace(led.config, min_insync_replicas=1)
    led.advance_high_watermark()
    assert led.high_watermark == 1


def header_of(data: bytearray) -> object:
    from headrace.wire.kafka.record_batch import read_header

    return read_header(data)


def test_an_epoch_begins_when_it_is_on_disk() -> None:
    led = partition(end_offset=2)
    begun: list[int] = []
    led.begin_epoch(4, lambda: begun.append(4))
    assert begun == []
    assert disk_of(led).complete_syncs()
    assert begun == [4]
    assert led.log.epochs.entries[-1] == (4, 2)
    syncs = disk_of(led).sync_count
    led.begin_epoch(4, lambda: begun.append(4))
    assert begun == [4, 4], "nothing is written twice"
    assert disk_of(led).sync_count == syncs


def test_two_epochs_that_begin_at_once_are_written_one_after_the_other() -> None:
    led = partition(end_offset=2)
    begun: list[int] = []
    led.begin_epoch(4, lambda: begun.append(4))
    led.begin_epoch(6, lambda: begun.append(6))
    disk_of(led).complete_syncs()
    assert begun == [4]
    disk_of(led).complete_syncs()
    assert begun == [4, 6]


def test_an_epoch_that_cannot_be_written_takes_the_partition_out() -> None:
    from headrace.testing.disk import Fault

    led = partition(end_offset=2)
    disk = disk_of(led)
    disk.plan(Fault("sync"))
    begun: list[int] = []
    led.begin_epoch(4, lambda: begun.append(4))
    disk.complete_syncs()
    assert begun == [4]
    assert led.error is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("leads", [True, False])
def test_time_passes_also_for_who_does_not_lead(leads: bool) -> None:
    one = partition()
    if leads:
        lead(one)
    else:
        one.follow(3)
    one.on_time(10)
    assert one.high_watermark == 0
