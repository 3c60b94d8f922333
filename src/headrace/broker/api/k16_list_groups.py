"""ListGroups (key 16), versions 0–5.

1 throttle time · 3 flexible · 4 states, and a filter by them (KIP-518) · 5 types, and a filter by
them (KIP-848). Filters ignore case; a name nobody knows filters everything out.
Missing: types other than "classic".
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

CLASSIC = "classic"


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
    if types and CLASSIC not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in groups
            if not states or group.state.value.lower() in states
        ]
    )
