"""What consumers of the classic protocol tell each other inside JoinGroup and SyncGroup.

    ConsumerProtocolSubscription    version int16 | topics … owned partitions … rack
    ConsumerProtocolAssignment      version int16 | partitions, by topic name

Owns: reading and writing both, with topic ids instead of names on our side.
Must not know: groups, members. Spec: Kafka's ConsumerProtocol.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.base.errors import ProtocolError
from headrace.broker.groups.consumer.member import Target, TopicIdPartition
from headrace.broker.groups.consumer.topics import Topics
from headrace.wire.kafka.codec import decode, encode_into
from headrace.wire.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from headrace.wire.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Subscription:
    version: int
    topics: frozenset[str]
    owned: Target
    rack_id: str | None


def read_subscription(metadata: bytes, topics: Topics) -> Subscription:
    """A `ProtocolError` where the bytes are none."""
    version = _version(metadata)
    known = min(version, ConsumerProtocolSubscription.VERSIONS[1])
    subscription, _ = decode(ConsumerProtocolSubscription, metadata, known, _VERSION.size)
    return Subscription(
        version,
        frozenset(subscription.topics),
        _by_id(((each.topic, each.partitions) for each in subscription.owned_partitions), topics),
        subscription.rack_id,
    )


def read_assignment(assignment: bytes, topics: Topics) -> Target:
    """What was assigned; nothing where nothing was."""
    if not assignment:
        return frozenset()
    known = min(_version(assignment), ConsumerProtocolAssignment.VERSIONS[1])
    decoded, _ = decode(ConsumerProtocolAssignment, assignment, known, _VERSION.size)
    return _by_id(((each.topic, each.partitions) for each in decoded.assigned_partitions), topics)


def write_assignment(
    partitions: Iterable[TopicIdPartition], subscription_version: int, topics: Topics
) -> bytes:
    """In the version that the member itself speaks."""
    by_name: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        name = topics.name_of(topic_id)
        if name is not None:
            by_name.setdefault(name, []).append(partition)
    version = min(subscription_version, ConsumerProtocolAssignment.VERSIONS[1])
    out = bytearray(_VERSION.pack(version))
    encode_into(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                TopicPartition(topic=name, partitions=found) for name, found in by_name.items()
            ]
        ),
        version,
        out,
    )
    return bytes(out)


def subscription_version(metadata: bytes) -> int:
    return _version(metadata)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError("the embedded consumer protocol is cut short")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError("the embedded consumer protocol has a negative version")
    return int(version)


def _by_id(named: Iterable[tuple[str, list[int]]], topics: Topics) -> Target:
    found: set[TopicIdPartition] = set()
    for name, partitions in named:
        topic = topics.by_name(name)
        if topic is not None:
            found.update((topic.topic_id, partition) for partition in partitions)
    return frozenset(found)
