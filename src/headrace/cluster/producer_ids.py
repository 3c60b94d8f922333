"""Deciding on producer ids: AllocateProducerIds hands a broker the next block.

Owns: the decision. Pure. Spec: KIP-730.
Invariant: no two blocks ever overlap, restarts included: the next id is in the metadata log
before the block is answered.
"""

from headrace.base.config import LONG_MAX
from headrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from headrace.cluster.broker_epochs import broker_refusal
from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headrace.wire.kafka.messages.metadata_records import ProducerIdsRecord


def decide_allocate_producer_ids(
    image: ClusterImage, request: AllocateProducerIdsRequest, _context: DecisionContext
) -> tuple[Records, AllocateProducerIdsResponse]:
    error = broker_refusal(image, request.broker_id, request.broker_epoch)
    if error is not None:
        return [], AllocateProducerIdsResponse(error_code=error)
    first = image.next_producer_id
    if first > LONG_MAX - PRODUCER_ID_BLOCK_SIZE:
        return [], AllocateProducerIdsResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=image.brokers[request.broker_id].broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    return [record], AllocateProducerIdsResponse(
        producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
    )
