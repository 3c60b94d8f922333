"""Is this broker the one that is registered? Every decision that a broker asks for begins here.

Spec: KIP-631. A broker of an older epoch is a process that was replaced: nothing it asks counts.
"""

from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

ANY_EPOCH = -1
"""A caller in the same process that has no epoch to show."""


def broker_refusal(image: ClusterImage, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if broker_epoch not in (ANY_EPOCH, broker.broker_epoch):
        return ErrorCode.STALE_BROKER_EPOCH
    return None
