"""ShareGroupHeartbeat (key 76), version 1 (KIP-932).

A member joins with epoch 0, lives with its own, leaves with -1; its id is made by the client.
The first answer waits a moment until its partitions are initialised, so that it can name them.
Refused with UNSUPPORTED_VERSION where the cluster's `share.version` is 0.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.consumer.member import partitions_by_topic
from headrace.broker.groups.share.member import HeartbeatAnswer, ShareQuestion
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse | Promise[ShareGroupHeartbeatResponse]:
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        return ShareGroupHeartbeatResponse(
            error_code=int(ErrorCode.UNSUPPORTED_VERSION),
            error_message="The cluster does not use the share group protocol.",
        )
    names = request.subscribed_topic_names
    question = ShareQuestion(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        client_id=context.client_id or "",
        client_host="/" + context.peer.rpartition(":")[0],
        subscribed_topic_names=None if names is None else frozenset(names),
    )
    return broker.groups.share.heartbeat(request.group_id, question).map(_response)


def _response(answer: HeartbeatAnswer) -> ShareGroupHeartbeatResponse:
    response = ShareGroupHeartbeatResponse(
        error_code=int(answer.error),
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
    )
    if answer.assignment is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in partitions_by_topic(answer.assignment).items()
            ]
        )
    return response
