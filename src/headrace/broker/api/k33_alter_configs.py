"""AlterConfigs (key 33), versions 0–2.

2 flexible.
Missing: resources other than topics and brokers.

The given configs replace all that the resource has; newer clients send IncrementalAlterConfigs.
Decided by the controller (`cluster.configs`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: AlterConfigsRequest, context: RequestContext
) -> Promise[AlterConfigsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
