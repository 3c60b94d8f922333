"""DeleteRecords (key 21), versions 0–2. 2 flexible.

Moves the log start offset up; -1 means "up to the high watermark". Refused on topics that only
compact, as Kafka does: POLICY_VIOLATION. Answered when the log starts there on all replicas that
live, or with REQUEST_TIMED_OUT: it is deleted all the same.
"""

from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.partition import Partition
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_HIGH_WATERMARK = -1


def handle(
    broker: "Broker",
    request: DeleteRecordsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DeleteRecordsResponse | Promise[DeleteRecordsResponse]:
    waits: list[Promise[None]] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, one, request.timeout_ms, waits)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    answer: Promise[DeleteRecordsResponse] = Promise()
    left = len(waits)
    if not left:
        return response

    def on_one(_: Promise[None]) -> None:
        nonlocal left
        left -= 1
        if not left:
            answer.resolve(response)

    for one in waits:
        one.then(on_one)
    return answer


def _delete(
    broker: "Broker",
    topic: str,
    asked: DeleteRecordsPartition,
    timeout_ms: int,
    waits: list[Promise[None]],
) -> DeleteRecordsPartitionResult:
    partition = broker.partitions.find(topic, asked.partition_index)
    if partition is None:
        return _refused(asked, broker.partitions.missing(topic, asked.partition_index))
    if partition.refusal:
        return _refused(asked, partition.refusal)
    if not partition.config.deleted:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    offset = asked.offset
    if offset == _HIGH_WATERMARK:
        offset = partition.high_watermark
    if not 0 <= offset <= partition.high_watermark:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    try:
        low_watermark = partition.log.delete_records(offset)
        broker.partitions.checkpoint_log_start(partition)
    except StorageError as failure:
        partition.fail(failure)
        return _refused(asked, partition.error)
    result = DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark
    )
    if partition.low_watermark < low_watermark:
        partition.on_log_start_moved()
        waits.append(_on_replicas(broker, partition, result, timeout_ms))
    return result


def _on_replicas(
    broker: "Broker",
    partition: Partition,
    result: DeleteRecordsPartitionResult,
    timeout_ms: int,
) -> Promise[None]:
    wanted = result.low_watermark

    def on_settled(low_watermark: int) -> None:
        if partition.refusal:
            result.error_code, result.low_watermark = int(partition.refusal), -1
        elif low_watermark < wanted:
            result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
            result.low_watermark = low_watermark

    return broker.replication.trimmed(partition, wanted, timeout_ms).map(on_settled)


def _refused(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=int(error)
    )
