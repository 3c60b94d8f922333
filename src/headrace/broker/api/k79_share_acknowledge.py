"""ShareAcknowledge (key 79), versions 1–2 (KIP-932).

2 renewal of locks, and how long they last (KIP-1222)

Answered once the outcome is kept. Goes on with a session that a ShareFetch opened; epoch -1 ends
it. Refused with UNSUPPORTED_VERSION where the cluster's `share.version` is 0.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.acknowledging import Acknowledged, acknowledge, checked
from headrace.broker.share.leaders import Leaders
from headrace.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_RENEW_SINCE = 2


def handle(
    broker: "Broker", request: ShareAcknowledgeRequest, context: RequestContext
) -> ShareAcknowledgeResponse | Promise[ShareAcknowledgeResponse]:
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        return _refused(ErrorCode.UNSUPPORTED_VERSION, "The cluster does not use share groups.")
    if not request.group_id:
        return _refused(ErrorCode.INVALID_REQUEST, "The group id is missing.")
    if not request.member_id:
        return _refused(ErrorCode.INVALID_REQUEST, "The member id is missing.")
    if request.share_session_epoch == INITIAL_EPOCH:
        return _refused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    key = (request.group_id, request.member_id)
    session = broker.shares.sessions.next(key, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return _refused(session)
    may_renew = (
        context.api_version >= _RENEW_SINCE
        and request.is_renew_ack
        and broker.shares.settings(request.group_id).may_renew
    )
    asked = {
        (topic.topic_id, partition.partition_index): checked(
            partition.acknowledgement_batches, may_renew=may_renew
        )
        for topic in request.topics
        for partition in topic.partitions
    }
    is_final = request.share_session_epoch == FINAL_EPOCH
    return acknowledge(broker, key, asked).map(
        lambda errors: _answer(broker, key, errors, context, is_final=is_final)
    )


def _answer(
    broker: "Broker",
    key: SessionKey,
    errors: Acknowledged,
    context: RequestContext,
    *,
    is_final: bool,
) -> ShareAcknowledgeResponse:
    if is_final:
        broker.shares.end_session(key)
    leaders = Leaders(broker, context.listener_name)
    topics: dict[bytes, list[PartitionData]] = {}
    for partition, error in errors.items():
        leader_id, leader_epoch = leaders.of(partition, error) or (0, 0)
        topics.setdefault(partition[0], []).append(
            PartitionData(
                partition_index=partition[1],
                error_code=int(error),
                error_message=error.message if error else None,
                current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
            )
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.shares.settings(key[0]).lock_duration_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in leaders.endpoints.values()
        ],
    )


def _refused(error: ErrorCode, message: str | None = None) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=int(error), error_message=message or error.message)
