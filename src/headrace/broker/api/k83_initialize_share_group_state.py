"""InitializeShareGroupState (key 83), versions 0 (KIP-932).

The group's coordinator says where share-partitions begin, with a new state epoch. An older epoch is
FENCED_STATE_EPOCH.
"""

from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.messages import INITIALIZE
from headrace.broker.share.state.serving import serve

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: Any,
    context: RequestContext,  # noqa: ARG001
) -> Any | Promise[Any]:
    return serve(INITIALIZE, request, broker.share_coordinator.initialize)
