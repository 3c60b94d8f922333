"""ConsumerGroupHeartbeat (key 68), versions 0–1 (KIP-848).

1 patterns in RE2's syntax that the broker looks up (SubscribedTopicRegex), and member ids made
by the client (KIP-1082). librdkafka asks for exactly version 1.
A member joins with epoch 0, lives with its own, leaves with -1, or with -2 if it is static and will
be back. Refused with UNSUPPORTED_VERSION where the cluster's `group.version` is 0.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.consumer.member import (
    HeartbeatAnswer,
    HeartbeatQuestion,
    Target,
    partitions_by_topic,
)
from headrace.cluster.features import GROUP_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_MEMBER_IDS = 1


def handle(
    broker: "Broker", request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Promise[ConsumerGroupHeartbeatResponse]:
    if broker.image.features.get(GROUP_VERSION, 0) < 1:
        return ConsumerGroupHeartbeatResponse(
            error_code=int(ErrorCode.UNSUPPORTED_VERSION),
            error_message="The cluster does not use the consumer group protocol.",
        )
    names = request.subscribed_topic_names
    question = HeartbeatQuestion(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        client_id=context.client_id or "",
        client_host="/" + context.peer.rpartition(":")[0],
        subscribed_topic_names=None if names is None else frozenset(names),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
    )
    return broker.groups.consumer.heartbeat(
        request.group_id,
        question,
        requires_member_id=context.api_version >= FIRST_VERSION_WITH_MEMBER_IDS,
    ).map(_response)


def _owned(topics: list[TopicPartitions] | None) -> Target | None:
    if topics is None:
        return None
    return frozenset(
        (topic.topic_id, partition) for topic in topics for partition in topic.partitions
    )


def _response(answer: HeartbeatAnswer) -> ConsumerGroupHeartbeatResponse:
    response = ConsumerGroupHeartbeatResponse(
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
