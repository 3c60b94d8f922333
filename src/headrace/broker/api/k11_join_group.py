"""JoinGroup (key 11), versions 0–9.

1 a rebalance timeout of its own (KIP-62) · 2 throttle time · 4 MEMBER_ID_REQUIRED first (KIP-394)
· 5 static members (KIP-345) · 6 flexible · 7 protocol type in the answer (KIP-559) · 8 a reason
(KIP-800) · 9 skip_assignment (KIP-814).
The answer waits until the group's members have joined or the rebalance timeout is over.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.member import JoinAnswer, JoinQuestion, Protocol
from headrace.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_KNOWN_MEMBER_ID = 4
FIRST_VERSION_WITH_NULL_PROTOCOL = 7
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9


def handle(
    broker: "Broker", request: JoinGroupRequest, context: RequestContext
) -> Promise[JoinGroupResponse]:
    version = context.api_version
    question = JoinQuestion(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host="/" + context.peer.rpartition(":")[0],
        protocol_type=request.protocol_type,
        protocols=tuple(
            Protocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols
        ),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        requires_known_member_id=version >= FIRST_VERSION_WITH_KNOWN_MEMBER_ID,
        can_skip_assignment=version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )

    def respond(answer: JoinAnswer) -> JoinGroupResponse:
        return _response(answer, version)

    return broker.groups.join(request.group_id, question).map(respond)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has none, and reads as its default: the session timeout then serves for both."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def _response(answer: JoinAnswer, version: int) -> JoinGroupResponse:
    protocol_name = answer.protocol_name
    if protocol_name is None and version < FIRST_VERSION_WITH_NULL_PROTOCOL:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=int(answer.error),
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type,
        protocol_name=protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
