"""EndTxn (key 26), versions 0–5.

1 throttle time · 2 PRODUCER_FENCED · 3 flexible · 4 TRANSACTION_ABORTABLE · 5 the epoch (and, when
epochs are used up, the producer id) to go on with (KIP-890).
Missing: nothing.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.transactions.metadata import VERSION_EPOCH_BUMP, VERSION_OLD
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_VERSION_THAT_BUMPS = 5


def handle(
    broker: "Broker", request: EndTxnRequest, context: RequestContext
) -> Promise[EndTxnResponse]:
    version = context.api_version

    def respond(answer: ProducerAnswer) -> EndTxnResponse:
        error = answer.error
        if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(
            error_code=int(error),
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
        )

    is_bumping = version >= FIRST_VERSION_THAT_BUMPS
    return broker.transactions.end_transaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        is_commit=request.committed,
        client_version=VERSION_EPOCH_BUMP if is_bumping else VERSION_OLD,
    ).map(respond)
