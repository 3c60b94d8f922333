"""AlterConfigs (key 33), versions 0–2.

2 flexible.
Missing: resources other than topics and brokers.

The given configs replace all that the resource has; newer clients send IncrementalAlterConfigs.
Decided by the controller (`cluster.configs`), but for what only this broker knows of itself: which
log directories it has.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.config_alterations import alter
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: AlterConfigsRequest, context: RequestContext
) -> Promise[AlterConfigsResponse]:
    return alter(broker, request, context, AlterConfigsResourceResponse)
