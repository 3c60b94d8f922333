"""DescribeProducers (key 61), version 0.

What a partition's leader knows of those who write to it: `kafka-transactions` finds open and
hanging transactions by it (KIP-664). Missing: nothing.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.log.producers import ProducerEntry
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DescribeProducersRequest,
    context: RequestContext,  # noqa: ARG001
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _partition(broker, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _partition(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    partition = broker.partitions.find(topic, index)
    error = broker.partitions.missing(topic, index) if partition is None else partition.error
    if error or partition is None:
        return PartitionResponse(
            partition_index=index, error_code=int(error), error_message=ErrorCode.of(error).message
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[_state(entry) for entry in partition.log.producers.entries.values()],
    )


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
