"""CreatePartitions (key 37), versions 0–3.

2 flexible · 3 a quota's throttling (KIP-599).
Missing: quotas on mutations.

Decided by the controller (`cluster.partitions`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: CreatePartitionsRequest, context: RequestContext
) -> Promise[CreatePartitionsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
