"""AlterShareGroupOffsets (key 91), version 0 (KIP-932).

A share group without members begins anew at these offsets; one that does not exist is made so.
With members it is NON_EMPTY_GROUP.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.offsets import PartitionOutcome
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: AlterShareGroupOffsetsRequest,
    context: RequestContext,  # noqa: ARG001
) -> AlterShareGroupOffsetsResponse | Promise[AlterShareGroupOffsetsResponse]:
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        error = ErrorCode.UNSUPPORTED_VERSION
        return AlterShareGroupOffsetsResponse(error_code=int(error), error_message=error.message)
    wanted = {
        (topic.topic_name, row.partition_index): row.start_offset
        for topic in request.topics
        for row in topic.partitions
    }
    return broker.groups.share.offsets.alter(request.group_id, wanted).map(_response)


def _response(outcomes: list[PartitionOutcome] | Refused) -> AlterShareGroupOffsetsResponse:
    if isinstance(outcomes, Refused):
        return AlterShareGroupOffsetsResponse(
            error_code=int(outcomes.error), error_message=outcomes.message
        )
    topics: dict[str, AlterShareGroupOffsetsResponseTopic] = {}
    for outcome in outcomes:
        topic = topics.get(outcome.topic)
        if topic is None:
            topic = topics[outcome.topic] = AlterShareGroupOffsetsResponseTopic(
                topic_name=outcome.topic, topic_id=outcome.topic_id
            )
        topic.partitions.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=outcome.partition,
                error_code=int(outcome.error),
                error_message=outcome.message,
            )
        )
    return AlterShareGroupOffsetsResponse(responses=list(topics.values()))
