"""DeleteShareGroupState (key 86), versions 0 (KIP-932).

Share-partitions are forgotten; deleting what is not there is no error.
"""

from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.messages import DELETE
from headrace.broker.share.state.serving import serve

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: Any,
    context: RequestContext,  # noqa: ARG001
) -> Any | Promise[Any]:
    return serve(DELETE, request, broker.share_coordinator.delete)
