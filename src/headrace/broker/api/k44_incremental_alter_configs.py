"""IncrementalAlterConfigs (key 44), versions 0–1.

0 set, delete, append, subtract (KIP-339) · 1 flexible.
Missing: resources other than topics, brokers and client metrics.

Decided by the controller (`cluster.configs`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Promise[IncrementalAlterConfigsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
