"""Who reads which partitions: the range assignor, and how it travels in group messages.

Owns: the "consumer" embedded protocol (a version, then ConsumerProtocolSubscription or
ConsumerProtocolAssignment) and Java's range rule: per topic, members in the order of their
ids, the first ones get one partition more. Must not know: connections.

    | version int16 | subscription or assignment in that version |
"""

import struct
from collections.abc import Mapping, Sequence

from headrace.base.errors import ProtocolError
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from headrace.wire.kafka.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)

PROTOCOL_TYPE = "consumer"
RANGE = "range"
VERSION = 0
"""What we write. Range needs neither owned partitions (1) nor generations (2) nor racks (3)."""

Assignment = dict[str, list[int]]

_VERSION = struct.Struct(">h")


def range_assign(
    subscriptions: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]
) -> dict[str, Assignment]:
    """Topics to partitions for every member id, by Java's RangeAssignor."""
    assigned: dict[str, Assignment] = {member: {} for member in subscriptions}
    topics = sorted({topic for wanted in subscriptions.values() for topic in wanted})
    for topic in topics:
        members = sorted(member for member, wanted in subscriptions.items() if topic in wanted)
        each, extra = divmod(partition_counts.get(topic, 0), len(members))
        first = 0
        for index, member in enumerate(members):
            count = each + (1 if index < extra else 0)
            if count:
                assigned[member][topic] = list(range(first, first + count))
            first += count
    return assigned


def encode_subscription(topics: Sequence[str]) -> bytes:
    message = ConsumerProtocolSubscription(topics=list(topics))
    return _VERSION.pack(VERSION) + encode(message, VERSION)


def decode_subscription(data: bytes) -> list[str]:
    version = _version_of(data, ConsumerProtocolSubscription.VERSIONS[1])
    message, _ = decode(ConsumerProtocolSubscription, data, version, _VERSION.size)
    return list(message.topics)


def encode_assignment(assignment: Assignment) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in assignment.items()
        ]
    )
    return _VERSION.pack(VERSION) + encode(message, VERSION)


def decode_assignment(data: bytes) -> Assignment:
    """Empty bytes are an empty assignment, as Java reads them."""
    if not data:
        return {}
    version = _version_of(data, ConsumerProtocolAssignment.VERSIONS[1])
    message, _ = decode(ConsumerProtocolAssignment, data, version, _VERSION.size)
    return {each.topic: list(each.partitions) for each in message.assigned_partitions}


def _version_of(data: bytes, version_max: int) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError("a group member's metadata is too short to hold a version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"a group member's metadata has version {version}")
    # Newer versions only append fields: the known ones read the same (KIP-429).
    return min(int(version), version_max)
