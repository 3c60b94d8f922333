"""InitProducerId (key 22), versions 0–5.

2 flexible · 3 resume an epoch (KIP-360) · 4 PRODUCER_FENCED · 5 transactions v2 (KIP-890).
Missing: transactional ids (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as FindCoordinator says).

Idempotent producers get an id of this broker's block, epoch 0. A producer that names its old id
to recover gets a fresh one too, as Kafka does without a transactional id.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: InitProducerIdRequest,
    context: RequestContext,  # noqa: ARG001
) -> InitProducerIdResponse | Promise[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if not request.transactional_id:
            return InitProducerIdResponse(error_code=int(ErrorCode.INVALID_REQUEST))
        return InitProducerIdResponse(
            error_code=int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        )
    return broker.producer_ids.next().map(_granted)


def _granted(producer_id: int) -> InitProducerIdResponse:
    if producer_id < 0:
        return InitProducerIdResponse(error_code=int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
