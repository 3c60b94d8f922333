"""OffsetDelete (key 47), version 0 (KIP-496).

Forgets committed offsets of topics that no member reads; others are GROUP_SUBSCRIBED_TO_TOPIC.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.commits import Deletion
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: OffsetDeleteRequest,
    context: RequestContext,  # noqa: ARG001
) -> Promise[OffsetDeleteResponse]:
    known = broker.image.topics_by_name
    keys = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        if topic.name in known
        for partition in topic.partitions
        if 0 <= partition.partition_index < len(known[topic.name].partitions)
    ]

    def respond(deletion: Deletion) -> OffsetDeleteResponse:
        return _response(request, deletion)

    return broker.groups.commits.delete_offsets(request.group_id, keys).map(respond)


def _response(request: OffsetDeleteRequest, deletion: Deletion) -> OffsetDeleteResponse:
    if deletion.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=int(deletion.error))
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=int(
                            deletion.outcomes.get((topic.name, partition.partition_index), missing)
                        ),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
