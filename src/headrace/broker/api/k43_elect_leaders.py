"""ElectLeaders (key 43), versions 0–2.

1 unclean elections (KIP-460) · 2 flexible.
Missing: nothing.

Decided by the active controller (`cluster.elections`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: ElectLeadersRequest, context: RequestContext
) -> Promise[ElectLeadersResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
