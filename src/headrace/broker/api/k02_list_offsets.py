"""ListOffsets (key 2), versions 1–11.

1 one offset per partition · 2 isolation level · 4 leader epochs (KIP-320) · 6 flexible
7 max timestamp (KIP-734) · 8 earliest local (KIP-405) · 9 latest tiered (KIP-1005) · 10 time-out
(KIP-1075) · 11 earliest pending upload (KIP-1023).
There is no tier: the local log starts where the log starts, nothing is tiered (offset -1).
"""

from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.broker.context import RequestContext
from headrace.broker.partition import Partition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_SPECIAL_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED = 1


def handle(
    broker: "Broker", request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    asked: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for one in topic.partitions:
            key = (topic.name, one.partition_index)
            (twice if key in asked else asked).add(key)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _refused(one, ErrorCode.INVALID_REQUEST)
                    if (topic.name, one.partition_index) in twice
                    else _answer(broker, topic.name, one, request, context)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


_EARLIEST = -2
_NOT_AVAILABLE_SINCE = 5


def _answer(
    broker: "Broker",
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
) -> ListOffsetsPartitionResponse:
    partition = broker.partitions.find(topic, asked.partition_index)
    if partition is None:
        return _refused(asked, broker.partitions.missing(topic, asked.partition_index))
    error = partition.refusal or partition.leader_epoch_refusal(asked.current_leader_epoch)
    if error:
        return _refused(asked, error)
    if context.api_version < _SPECIAL_SINCE.get(asked.timestamp, 0):
        return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
    is_replica = request.replica_id >= 0
    if not is_replica and asked.timestamp != _EARLIEST and not partition.is_watermark_known:
        known_since = context.api_version >= _NOT_AVAILABLE_SINCE
        error = ErrorCode.OFFSET_NOT_AVAILABLE if known_since else ErrorCode.LEADER_NOT_AVAILABLE
        return _refused(asked, error)
    # A follower that is out of range looks for the end of the log, not for what is committed.
    end_offset = partition.log.log_end_offset if is_replica else partition.high_watermark
    if not is_replica and request.isolation_level == _READ_COMMITTED:
        end_offset = partition.last_stable_offset
    try:
        timestamp, offset, epoch = _find(partition, asked.timestamp, end_offset)
    except StorageError as failure:
        partition.fail(failure)
        return _refused(asked, partition.error)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _find(partition: Partition, timestamp: int, end_offset: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) of what is asked for; -1 where there is none."""
    log = partition.log
    match timestamp:
        case -1:
            return -1, end_offset, partition.leader_epoch
        case -2 | -4 | -6:
            start = log.log_start_offset
            return -1, start, log.epochs.epoch_at(start)
        case -5:
            return -1, -1, -1
        case -3:
            found = log.max_timestamp_offset(end_offset)
        case _:
            found = log.offset_for_timestamp(timestamp, end_offset)
    if found is None:
        return -1, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch


def _refused(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=int(error)
    )
