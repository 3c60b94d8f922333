"""IncrementalAlterConfigs (key 44), versions 0–1.

0 set, delete, append, subtract (KIP-339) · 1 flexible.
Missing: resources other than topics, brokers and client metrics.

Decided by the controller (`cluster.configs`), but for what only this broker knows of itself: which
log directories it has.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.config_alterations import alter
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Promise[IncrementalAlterConfigsResponse]:
    return alter(broker, request, context, AlterConfigsResourceResponse)
