"""LeaveGroup (key 13), versions 0–5.

1 throttle time · 3 several members, each by id or instance id (KIP-345) · 4 flexible · 5 a
reason (KIP-800).
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.groups.member import MemberIdentity
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_MEMBERS = 3


def handle(
    broker: "Broker", request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse:
    has_members = context.api_version >= FIRST_VERSION_WITH_MEMBERS
    identities = [MemberIdentity(request.member_id, None)]
    if has_members:
        identities = [
            MemberIdentity(member.member_id, member.group_instance_id) for member in request.members
        ]
    outcomes = broker.groups.leave(request.group_id, identities)
    if isinstance(outcomes, ErrorCode):
        return LeaveGroupResponse(error_code=int(outcomes))
    if not has_members:
        return LeaveGroupResponse(error_code=int(outcomes[0]))
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=int(outcome),
            )
            for identity, outcome in zip(identities, outcomes, strict=True)
        ]
    )
