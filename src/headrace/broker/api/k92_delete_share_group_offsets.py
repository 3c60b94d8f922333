"""DeleteShareGroupOffsets (key 92), version 0 (KIP-932).

What a share group without members knows of topics is forgotten: it begins there anew. With
members it is NON_EMPTY_GROUP.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.offsets import TopicOutcome
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DeleteShareGroupOffsetsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DeleteShareGroupOffsetsResponse | Promise[DeleteShareGroupOffsetsResponse]:
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        error = ErrorCode.UNSUPPORTED_VERSION
        return DeleteShareGroupOffsetsResponse(error_code=int(error), error_message=error.message)
    names = [topic.topic_name for topic in request.topics]
    return broker.groups.share.offsets.delete(request.group_id, names).map(_response)


def _response(outcomes: list[TopicOutcome] | Refused) -> DeleteShareGroupOffsetsResponse:
    if isinstance(outcomes, Refused):
        return DeleteShareGroupOffsetsResponse(
            error_code=int(outcomes.error), error_message=outcomes.message
        )
    return DeleteShareGroupOffsetsResponse(
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=outcome.topic,
                topic_id=outcome.topic_id,
                error_code=int(outcome.error),
                error_message=outcome.message,
            )
            for outcome in outcomes
        ]
    )
