"""UnregisterBroker (key 64), versions 0–0.

0 flexible from the start (KIP-500).
Missing: nothing.

Decided by the active controller (`cluster.brokers`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: UnregisterBrokerRequest, context: RequestContext
) -> Promise[UnregisterBrokerResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
