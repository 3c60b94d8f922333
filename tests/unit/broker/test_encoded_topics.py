"""Cached topics are byte for byte what the codec makes of the image, whatever happened before."""

from random import Random
from typing import Any

import pytest

from headrace.broker.encoded_topics import EncodedTopics
from headrace.cluster.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from headrace.wire.kafka.codec import encode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_metadata import EncodedMetadataResponse, TopicLayout
from headrace.wire.kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.kafka.messages.metadata_records import (
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

VERSIONS = range(14)
OPERATIONS = 3400
DIRECTORIES = [bytes(16), b"a" * 16, b"b" * 16, b"c" * 16]


class Cluster:
    """An image under random records, and what the codec says of it."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.image = ClusterImage()
        self.cache = EncodedTopics()
        for broker_id in range(1, 6):
            self.register(broker_id)

    def register(self, broker_id: int) -> None:
        self.image.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                fenced=self.rng.random() < 0.3,
                log_dirs=self.rng.sample(DIRECTORIES, 2),
            )
        )

    def change(self) -> None:
        rng = self.rng
        names = sorted(self.image.topics_by_name)
        kind = rng.choice(("create", "alter", "alter", "alter", "grow", "remove", "broker"))
        if kind == "create" or not names:
            self.create(f"{rng.choice('abc')}{rng.randrange(10**9)}" * rng.choice((1, 1, 20)))
        elif kind == "remove":
            topic = self.image.topics_by_name[rng.choice(names)]
            self.image.replay(RemoveTopicRecord(topic_id=topic.topic_id))
            if rng.random() < 0.5:
                self.create(topic.name)
        elif kind == "broker":
            self.change_broker()
        elif kind == "grow":
            topic = self.image.topics_by_name[rng.choice(names)]
            self.add_partitions(topic, len(topic.partitions), rng.randint(1, 3))
        else:
            topic = self.image.topics_by_name[rng.choice(names)]
            self.alter(topic)

    def create(self, name: str) -> None:
        topic_id = self.rng.randbytes(16)
        self.image.replay(TopicRecord(name=name, topic_id=topic_id))
        topic = self.image.topics_by_name[name]
        self.add_partitions(topic, 0, self.rng.choice((1, 2, 3, 70, 200)))

    def add_partitions(self, topic: TopicImage, first: int, count: int) -> None:
        for index in range(first, first + count):
            replicas = self.rng.sample(range(1, 6), self.rng.randint(1, 5))
            isr = self.rng.sample(replicas, self.rng.randint(1, len(replicas)))
            self.image.replay(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic.topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=self.rng.choice([NO_LEADER, *isr]),
                    leader_epoch=self.rng.randrange(1 << 31),
                    directories=self.rng.choices(DIRECTORIES, k=len(replicas)),
                )
            )

    def alter(self, topic: TopicImage) -> None:
        index = self.rng.randrange(len(topic.partitions))
        partition = topic.partitions[index]
        record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
        record.isr = self.rng.sample(partition.replicas, 1)
        if self.rng.random() < 0.5 and partition.leader_epoch < (1 << 31) - 1:
            record.leader = self.rng.choice([NO_LEADER, *partition.replicas])
        self.image.replay(record)

    def change_broker(self) -> None:
        broker_id = self.rng.randint(1, 5)
        if broker_id not in self.image.brokers:
            self.register(broker_id)
            return
        record = self.rng.choice(
            (
                FenceBrokerRecord(id=broker_id),
                UnfenceBrokerRecord(id=broker_id),
                UnregisterBrokerRecord(broker_id=broker_id),
            )
        )
        self.image.replay(record)

    # -- two encodings -----------------------------------------------------------------

    def cached(self, version: int, listener: str, reachable: frozenset[int]) -> bytes:
        view = self.cache.view(self.image, version, listener, reachable)
        end = view.layout.topic_end(OPERATIONS)
        topics = self.image.topics_by_name.values()
        encoded = b"".join(view.encoded(topic) + end for topic in topics)
        return encode(
            EncodedMetadataResponse(
                encoded_topics=encoded, topic_count=len(topics), **self.around()
            ),
            version,
        )

    def plain(self, version: int, reachable: frozenset[int]) -> bytes:
        topics = [
            MetadataResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[self.row(p, version, reachable) for p in topic.partitions],
                topic_authorized_operations=OPERATIONS,
            )
            for topic in self.image.topics_by_name.values()
        ]
        return encode(MetadataResponse(topics=topics, **self.around()), version)

    def around(self) -> dict[str, Any]:
        return {
            "brokers": [MetadataResponseBroker(node_id=3, host="h", port=9, rack="r")],
            "cluster_id": "the-cluster",
            "controller_id": 3,
            "cluster_authorized_operations": 77,
        }

    def row(
        self, partition: PartitionImage, version: int, reachable: frozenset[int]
    ) -> MetadataResponsePartition:
        leader, error = partition.leader, ErrorCode.NONE
        if leader == NO_LEADER:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        elif leader not in reachable:
            leader = NO_LEADER
            error = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=int(error),
            partition_index=partition.index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=self.image.offline_replicas(partition),
        )


@pytest.mark.parametrize("seed", range(30))
def test_cached_bytes_are_the_codecs(seed: int) -> None:
    cluster = Cluster(seed)
    rng = cluster.rng
    for _ in range(40):
        for _ in range(rng.randint(1, 4)):
            cluster.change()
        version = rng.choice(VERSIONS)
        listener = rng.choice(("PLAINTEXT", "OTHER"))
        # What a listener reaches may change without a record: another process took its place.
        reachable = (
            frozenset(rng.sample(range(1, 6), 4)) if rng.random() < 0.2 else frozenset((1, 2))
        )
        assert cluster.cached(version, listener, reachable) == cluster.plain(version, reachable)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_image_without_topics(version: int) -> None:
    cluster = Cluster(1)
    nobody: frozenset[int] = frozenset()
    assert cluster.cached(version, "PLAINTEXT", nobody) == cluster.plain(version, nobody)


def test_a_change_of_one_partition_encodes_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(1)
    cluster.image.replay(TopicRecord(name="t", topic_id=b"t" * 16))
    topic = cluster.image.topics_by_name["t"]
    cluster.add_partitions(topic, 0, 500)
    everybody = frozenset(range(1, 6))
    encoded: list[int] = []
    plain = TopicLayout.partition

    def counted(self: TopicLayout, error: int, index: int, *rest: Any) -> bytes:
        encoded.append(index)
        return plain(self, error, index, *rest)

    monkeypatch.setattr(TopicLayout, "partition", counted)
    for expected in (range(500), (), (7,)):
        encoded.clear()
        assert cluster.cached(12, "PLAINTEXT", everybody) == cluster.plain(12, everybody)
        assert encoded == list(expected)
        if expected == ():
            change = PartitionChangeRecord(partition_id=7, topic_id=topic.topic_id)
            change.isr = [topic.partitions[7].replicas[0]]
            cluster.image.replay(change)


def test_encoding_goes_in_steps_and_bears_changes_in_between() -> None:
    cluster = Cluster(1)
    everybody = frozenset(range(1, 6))
    for number in range(60):
        cluster.image.replay(TopicRecord(name=f"t{number}", topic_id=bytes([number] * 16)))
        cluster.add_partitions(cluster.image.topics_by_name[f"t{number}"], 0, 100)
    view = cluster.cache.view(cluster.image, 12, "PLAINTEXT", everybody)
    steps = 0
    for _ in view.encoding(cluster.image):
        steps += 1
        cluster.image.replay(RemoveTopicRecord(topic_id=bytes([steps] * 16)))
        cluster.alter(cluster.image.topics_by_name["t0"])
    assert steps == 3
    assert cluster.cached(12, "PLAINTEXT", everybody) == cluster.plain(12, everybody)
    assert list(view.encoding(cluster.image)) == []


def test_deleted_topics_are_forgotten() -> None:
    cluster = Cluster(1)
    everybody = frozenset(range(1, 6))
    for number in range(3_000):
        topic_id = number.to_bytes(16, "big")
        cluster.image.replay(TopicRecord(name=f"t{number}", topic_id=topic_id))
        cluster.cached(12, "PLAINTEXT", everybody)
        cluster.image.replay(RemoveTopicRecord(topic_id=topic_id))
    view = cluster.cache.view(cluster.image, 12, "PLAINTEXT", everybody)
    assert len(view._entries) <= 1_001


def test_many_listeners_do_not_pile_up() -> None:
    cluster = Cluster(1)
    for number in range(100):
        cluster.cached(12, f"LISTENER{number}", frozenset())
    assert len(cluster.cache._views) == 16
