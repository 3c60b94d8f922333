"""Images made by hand for the tests of single decisions, and what decides on them."""

from collections.abc import Sequence
from random import Random
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.cluster.decision import DecisionContext
from headrace.cluster.image import ClusterImage, PartitionImage
from headrace.cluster.sessions import BrokerSessions
from headrace.wire.kafka.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

TOPIC_ID = b"0123456789abcdef"
TIMEOUT_MS = 3000
LEVELS = {
    "metadata.version": 30,
    "transaction.version": 2,
    "group.version": 1,
    "share.version": 1,
    "eligible.leader.replicas.version": 1,
}
"""Of a new cluster."""


def directory_of(broker_id: int) -> bytes:
    return bytes([broker_id]) * 16


def incarnation_of(broker_id: int) -> bytes:
    return bytes([100 + broker_id]) * 16


def image_of(
    *partitions: dict[str, Any],
    brokers: Sequence[int] = (1, 2, 3),
    fenced: Sequence[int] = (),
    stopping: Sequence[int] = (),
    topic: str = "t",
    keeps_eligible: bool = False,
) -> ClusterImage:
    """Brokers with the epochs 100 + id, and one topic with these partitions."""
    image = ClusterImage()
    if keeps_eligible:
        name = "eligible.leader.replicas.version"
        image.replay(FeatureLevelRecord(name=name, feature_level=1))
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    for broker_id in brokers:
        image.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                broker_epoch=100 + broker_id,
                incarnation_id=incarnation_of(broker_id),
                rack=None,
                fenced=broker_id in fenced,
                in_controlled_shutdown=broker_id in stopping,
                log_dirs=[directory_of(broker_id)],
            )
        )
    if partitions:
        image.replay(TopicRecord(name=topic, topic_id=TOPIC_ID))
    for index, fields in enumerate(partitions):
        replicas = fields.get("replicas", [1, 2, 3])
        values = {"isr": replicas, "leader": replicas[0], "leader_epoch": 5, "partition_epoch": 7}
        record = PartitionRecord(
            partition_id=index, topic_id=TOPIC_ID, **{**values, **fields, "replicas": replicas}
        )
        image.replay(record)
    image.last_offset = 1000
    return image


def context_of(
    api_version: int = 0, *, heard: Sequence[int] = (), now_ms: int = 0, **flags: str
) -> DecisionContext:
    """`heard` are the brokers that have just sent a heartbeat, up to offset 1000."""
    sessions = BrokerSessions(TIMEOUT_MS)
    for broker_id in heard:
        sessions.touch(broker_id, 1000, now_ms)
    settings = {key.replace("_", "."): value for key, value in flags.items()}
    return DecisionContext(
        BrokerConfig.of(settings),
        Random(1),
        api_version,
        now_ms=now_ms,
        sessions=sessions,
        cluster_id="c",
    )


def replayed(image: ClusterImage, records: Sequence[Any]) -> ClusterImage:
    """The image after the records; the one given stays as it is."""
    after = image.copy()
    for record in records:
        after.replay(record)
    after.last_offset += len(records)
    return after


def partition_of(image: ClusterImage, index: int = 0) -> PartitionImage:
    partition = image.partition(TOPIC_ID, index)
    assert partition is not None
    return partition
