"""One member of a share group, and the values it sends and is answered with.

Owns: what a member told of itself, its epoch, and what it reads. Must not know: the other
members, records, the wire.
Spec: KIP-932; Kafka's ShareGroupMember. A member is a value: a change is another value, made by
`replay` alone. Partitions are shared, so that nobody waits for another to let go: a member is at
its target as soon as it is told.
"""

from dataclasses import dataclass

from headrace.broker.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOTHING,
    HeartbeatAnswer,
    Refused,
    Target,
    TopicIdPartition,
)

__all__ = [
    "JOIN_EPOCH",
    "LEAVE_EPOCH",
    "NOTHING",
    "HeartbeatAnswer",
    "Refused",
    "ShareMember",
    "ShareQuestion",
    "Target",
    "TopicIdPartition",
]


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = JOIN_EPOCH
    assigned: Target = NOTHING


@dataclass(frozen=True, slots=True)
class ShareQuestion:
    """A ShareGroupHeartbeat request. None: as it was told before."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] | None = None
