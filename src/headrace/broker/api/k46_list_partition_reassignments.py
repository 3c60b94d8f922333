"""ListPartitionReassignments (key 46), versions 0–0.

0 flexible from the start (KIP-455).
Missing: nothing.

Told by the active controller (`cluster.reassignments`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: ListPartitionReassignmentsRequest, context: RequestContext
) -> Promise[ListPartitionReassignmentsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
