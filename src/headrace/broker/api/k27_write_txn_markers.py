"""WriteTxnMarkers (key 27), versions 1–2.

1 flexible · 2 the transaction's version, for strict epochs (KIP-1228).
From coordinators on other brokers, and from `kafka-transactions abort` over a client's connection.
Missing: nothing.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.transactions.writing import write_markers
from headrace.wire.kafka.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: WriteTxnMarkersRequest,
    context: RequestContext,  # noqa: ARG001
) -> Promise[WriteTxnMarkersResponse]:
    return write_markers(broker, request)
