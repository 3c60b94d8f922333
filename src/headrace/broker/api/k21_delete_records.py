"""DeleteRecords (key 21), versions 0–2. 2 flexible.

Moves the log start offset up; -1 means "up to the high watermark". Refused on topics that only
compact, as Kafka does: POLICY_VIOLATION.
"""

from typing import TYPE_CHECKING

from headrace.base.errors import StorageError
from headrace.broker.context import RequestContext
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
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(broker, topic.name, one) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete(
    broker: "Broker", topic: str, asked: DeleteRecordsPartition
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
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low_watermark
    )


def _refused(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=-1, error_code=int(error)
    )
