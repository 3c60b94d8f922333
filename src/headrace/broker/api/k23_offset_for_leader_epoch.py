"""OffsetForLeaderEpoch (key 23), versions 2–4.

2 current leader epoch (KIP-320) · 3 replica id · 4 flexible.
Where an epoch ends in this log: a client that read further has read what was cut off.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: OffsetForLeaderEpochRequest,
    context: RequestContext,  # noqa: ARG001
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(broker, topic.topic, one) for one in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(broker: "Broker", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition = broker.partitions.find(topic, asked.partition)
    if partition is None:
        error = broker.partitions.missing(topic, asked.partition)
    else:
        error = partition.refusal or partition.leader_epoch_refusal(asked.current_leader_epoch)
    if error or partition is None:
        return EpochEndOffset(partition=asked.partition, error_code=int(error))
    epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
