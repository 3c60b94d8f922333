"""ReadShareGroupStateSummary (key 87), versions 0–1 (KIP-932).

1 counts the records that are done with (KIP-1226). Nothing is fenced or changed: the group's
coordinator only looks. What was never initialised begins at -1.
"""

from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.state.messages import SUMMARY
from headrace.broker.share.state.serving import serve

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: Any,
    context: RequestContext,  # noqa: ARG001
) -> Any | Promise[Any]:
    return serve(SUMMARY, request, broker.share_coordinator.read_summary)
