"""Which replica a consumer had better read from: one in its own rack (KIP-392).

Owns: the choice. Must not know: requests, logs. Spec: Kafka's RackAwareReplicaSelector.

The leader is asked first, always; it names a follower, and the consumer goes there until that one
does not serve it any more. A follower gives what it knows to be committed, which it hears with its
own fetches: it lags a little.

Invariant: only a living in-sync replica that has the offset is named.
"""

from typing import TYPE_CHECKING

from headrace.broker.partition import Partition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER = "org.apache.kafka.common.replica.LeaderSelector"
NOBODY = -1


def nearest_replica(broker: "Broker", partition: Partition, rack_id: str, offset: int) -> int:
    """The follower to read from; `NOBODY` if the leader, which we are, is as near as any."""
    in_sync = partition.in_sync
    if in_sync is None or broker.config["broker.rack"] == rack_id:
        return NOBODY
    brokers = broker.image.brokers
    near = [
        follower
        for follower in in_sync.followers.values()
        if follower.broker_id in in_sync.isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and (known := brokers.get(follower.broker_id)) is not None
        and known.rack == rack_id
        and known.is_usable
    ]
    if not near:
        return NOBODY
    best = max(near, key=lambda each: (each.log_end_offset, each.caught_up_ms, -each.broker_id))
    return best.broker_id
