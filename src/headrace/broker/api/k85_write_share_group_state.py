"""WriteShareGroupState (key 85), versions 0–1 (KIP-932).

1 counts the records that are done with (KIP-1226). Fenced by the leader's and the state's epoch.
"""

from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.messages import WRITE
from headrace.broker.share.state.serving import serve

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: Any,
    context: RequestContext,  # noqa: ARG001
) -> Any | Promise[Any]:
    return serve(WRITE, request, broker.share_coordinator.write)
