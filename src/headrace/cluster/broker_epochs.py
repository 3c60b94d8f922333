"""Is this broker the one that is registered? Every decision that a broker asks for begins here.

Spec: KIP-631. A broker of an older epoch is a process that was replaced: nothing it asks counts.
"""

from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

ANY_EPOCH = -1
"""No epoch to show: of a broker that is not registered yet, which is refused; of a member of a new
ISR, which its leader does not know, and is not checked (KIP-903)."""


def broker_refusal(image: ClusterImage, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if broker_epoch != broker.broker_epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None
