"""ReadShareGroupState (key 84), versions 0 (KIP-932).

The leader of a partition reads what became of its records. An older leader is
FENCED_LEADER_EPOCH; a newer one's epoch is kept before it is answered. What was never initialised
is INVALID_REQUEST.
"""

from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.messages import READ
from headrace.broker.share.state.serving import serve

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: Any,
    context: RequestContext,  # noqa: ARG001
) -> Any | Promise[Any]:
    return serve(READ, request, broker.share_coordinator.read)
