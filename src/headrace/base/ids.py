"""Names for the numbers that must not be mixed up, and how ids are written for people."""

import base64
from typing import NewType

NodeId = NewType("NodeId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", bytes)
"""Sixteen bytes, as on the wire."""

NO_TOPIC_ID = TopicId(bytes(16))
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
"""The fixed id of `__cluster_metadata`, as Kafka's."""

NO_PRODUCER_ID = -1
NO_LEADER_EPOCH = -1


def uuid_text(uuid: bytes) -> str:
    """As Kafka prints ids: base64url without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The reverse of `uuid_text`; ValueError if it is no id."""
    uuid = base64.urlsafe_b64decode(text + "==")
    if len(uuid) != 16:
        raise ValueError(f"not an id: {text!r}")
    return uuid
