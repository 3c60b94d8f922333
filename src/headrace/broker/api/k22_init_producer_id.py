"""InitProducerId (key 22), versions 0–5.

2 flexible · 3 resume an epoch (KIP-360) · 4 PRODUCER_FENCED · 5 transactions v2 (KIP-890).
Missing: version 6 (two-phase commit), which Kafka 4.3 calls unstable.

Idempotent producers get an id of this broker's block, epoch 0. A producer that names its old id
to recover gets a fresh one too, as Kafka does without a transactional id.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

FIRST_VERSION_WITH_PRODUCER_FENCED = 4


def handle(
    broker: "Broker", request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return broker.producer_ids.next().map(_granted)
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)

    def respond(answer: ProducerAnswer) -> InitProducerIdResponse:
        error = answer.error
        if error is ErrorCode.NONE:
            return InitProducerIdResponse(
                producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
            )
        if (
            error is ErrorCode.PRODUCER_FENCED
            and context.api_version < FIRST_VERSION_WITH_PRODUCER_FENCED
        ):
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        return _refused(error)

    return broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    ).map(respond)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=int(error), producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


def _granted(producer_id: int) -> InitProducerIdResponse:
    if producer_id < 0:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
