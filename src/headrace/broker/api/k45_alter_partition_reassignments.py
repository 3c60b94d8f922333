"""AlterPartitionReassignments (key 45), versions 0–1.

0 flexible from the start (KIP-455) · 1 whether the replication factor may change (KIP-860).

Decided by the active controller (`cluster.reassignments`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Promise[AlterPartitionReassignmentsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
