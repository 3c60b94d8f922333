"""Names for the numbers that must not be mixed up. They cost nothing at run time."""

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
