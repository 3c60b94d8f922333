"""DescribeGroups (key 15), versions 0–6.

1 throttle time · 3 authorized operations (KIP-430) · 4 static members (KIP-345) · 5 flexible · 6
GROUP_ID_NOT_FOUND and an error message for unknown groups (KIP-1043); before, they are "Dead".
Consumer groups (KIP-848) are unknown here: ConsumerGroupDescribe tells of them.
Metadata and assignments are shown of stable groups only.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.group import Group, GroupState
from headrace.broker.groups.member import Member
from headrace.broker.groups.share.group import ShareGroup
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND = 6
AUTHORIZED_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Read, delete, describe, describe and alter configs: all there is while nothing is forbidden."""


def handle(
    broker: "Broker", request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    groups = [_describe(broker, group_id, context.api_version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = AUTHORIZED_OPERATIONS
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: "Broker", group_id: str, version: int) -> DescribedGroup:
    group = broker.groups.group(group_id)
    if group is ErrorCode.GROUP_ID_NOT_FOUND:
        return _unknown(group_id, version, f"Group {group_id} not found.")
    if isinstance(group, ConsumerGroup | ShareGroup):
        return _unknown(group_id, version, f"Group {group_id} is not a classic group.")
    if isinstance(group, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=int(group))
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_member(group, member) for member in group.members.values()],
    )


def _unknown(group_id: str, version: int, message: str) -> DescribedGroup:
    unknown = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND:
        unknown.error_code = int(ErrorCode.GROUP_ID_NOT_FOUND)
        unknown.error_message = message
    return unknown


def _member(group: Group, member: Member) -> DescribedGroupMember:
    described = DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
    if group.state is GroupState.STABLE:
        described.member_metadata = member.metadata_for(group.protocol_name)
        described.member_assignment = member.assignment
    return described
