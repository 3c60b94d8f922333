"""Heartbeat (key 12), versions 0–4.

1 throttle time · 3 static members (KIP-345) · 4 flexible.
REBALANCE_IN_PROGRESS tells a member to join again.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: HeartbeatRequest,
    context: RequestContext,  # noqa: ARG001
) -> HeartbeatResponse:
    error = broker.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=int(error))
