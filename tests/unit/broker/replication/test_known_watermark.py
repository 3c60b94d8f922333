"""What a new leader says of its end before it has heard from those who are in sync."""

from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.broker.replication.in_sync import InSync
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.records import build_batch

NOW_MS = 1_700_000_000_000


def led(high_watermark: int, end_offset: int) -> Partition:
    """As node 1, with node 2 in sync; the log ends at `end_offset` when we begin to lead."""
    disk = SimulatedDisk()
    log = PartitionLog.open(
        disk,
        "/t-0",
        "t",
        0,
        LogConfig(),
        SimulatedClock(),
        topic_id=bytes(16),
        files=FileBudget(disk),
    )
    for _ in range(end_offset):
        log.append(build_batch([(None, b"value", (), NOW_MS)]), 0, NOW_MS)
    partition = Partition("t", 0, bytes(16), log, TopicConfig(), 0)
    partition.high_watermark = high_watermark
    in_sync = InSync(1, 10, (1, 2), (1, 2), 1, 1, end_offset, 1_000, 0)
    partition.lead(1, in_sync)
    return partition


def test_an_end_that_may_have_been_told_already_is_not_known() -> None:
    assert not led(high_watermark=1, end_offset=3).is_watermark_known


def test_it_is_known_once_all_that_was_taken_over_is_committed() -> None:
    partition = led(high_watermark=1, end_offset=3)
    assert partition.in_sync is not None
    partition.in_sync.on_fetch(2, 20, 3, 0, 3, 1)
    partition.advance_high_watermark()
    assert partition.high_watermark == 3
    assert partition.is_watermark_known


def test_it_is_known_where_nothing_was_open() -> None:
    assert led(high_watermark=3, end_offset=3).is_watermark_known
