"""ListGroups (key 16), versions 0–5.

1 throttle time · 3 flexible · 4 states, and a filter by them (KIP-518) · 5 types, and a filter by
them (KIP-848). Filters ignore case; a name nobody knows filters everything out.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.groups.coordinator import CONSUMER, SHARE, type_of
from headrace.broker.groups.group import Group
from headrace.broker.groups.shards import AnyGroup
from headrace.broker.groups.subscription import CONSUMER_PROTOCOL_TYPE
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_PROTOCOL_TYPES = {CONSUMER: CONSUMER_PROTOCOL_TYPE, SHARE: "share"}


def handle(
    broker: "Broker",
    request: ListGroupsRequest,
    context: RequestContext,  # noqa: ARG001
) -> ListGroupsResponse:
    groups = broker.groups.groups()
    if isinstance(groups, ErrorCode):
        return ListGroupsResponse(error_code=int(groups))
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    return ListGroupsResponse(
        groups=[
            listed
            for listed in map(_listed, groups)
            if (not states or listed.group_state.lower() in states)
            and (not types or listed.group_type in types)
        ]
    )


def _listed(group: AnyGroup) -> ListedGroup:
    group_type = type_of(group)
    if isinstance(group, Group):
        protocol_type = group.protocol_type or ""
    else:
        protocol_type = _PROTOCOL_TYPES[group_type]
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=protocol_type,
        group_state=group.state.value,
        group_type=group_type,
    )
