"""SyncGroup (key 14), versions 0–5.

1 throttle time · 3 static members (KIP-345) · 4 flexible · 5 protocol type and name, which must
be given, are checked and told (KIP-559).
The answer waits until the leader's assignment is kept in the log. What others than the
leader assign is ignored.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.groups.member import SyncAnswer, SyncQuestion
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(
    broker: "Broker",
    request: SyncGroupRequest,
    context: RequestContext,
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and not has_protocol:
        return SyncGroupResponse(error_code=int(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    question = SyncQuestion(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={
            assigned.member_id: bytes(assigned.assignment) for assigned in request.assignments
        },
    )
    return broker.groups.sync(request.group_id, question).map(_response)


def _response(answer: SyncAnswer) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=int(answer.error),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
