"""AddOffsetsToTxn (key 25), versions 0–4.

1 throttle time · 2 PRODUCER_FENCED · 3 flexible · 4 TRANSACTION_ABORTABLE (KIP-890).
Missing: nothing.

What is added is the partition of `__consumer_offsets` that holds the group: its marker makes the
offsets count that TxnOffsetCommit writes there.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.transactions.metadata import VERSION_OLD
from headrace.cluster.image import OFFSETS_TOPIC
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_PRODUCER_FENCED = 2


def handle(
    broker: "Broker", request: AddOffsetsToTxnRequest, context: RequestContext
) -> Promise[AddOffsetsToTxnResponse]:
    response: Promise[AddOffsetsToTxnResponse] = Promise()

    def respond(told: Promise[ErrorCode]) -> None:
        error = told.value()
        if (
            error is ErrorCode.PRODUCER_FENCED
            and context.api_version < FIRST_VERSION_WITH_PRODUCER_FENCED
        ):
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        response.resolve(AddOffsetsToTxnResponse(error_code=int(error)))

    def on_topic(created: Promise[int]) -> None:
        # A marker needs a partition to go to: the topic must be there before it is added.
        if created.error is not None or created.value():
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            response.resolve(AddOffsetsToTxnResponse(error_code=int(error)))
            return
        broker.transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))],
            VERSION_OLD,
        ).then(respond)

    broker.groups.ensure_topic().then(on_topic)
    return response
