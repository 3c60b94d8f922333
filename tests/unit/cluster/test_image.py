"""Replay: each record does what it says and nothing else."""

import pytest

from headrace.cluster.image import NO_LEADER, RESOURCE_BROKER, RESOURCE_TOPIC, ClusterImage
from headrace.wire.kafka.messages.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

ID = b"0123456789abcdef"


def image_of(*records: object) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.replay(record)
    return image


def topic_records(name: str = "orders", topic_id: bytes = ID, partitions: int = 2) -> list[object]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1, 2],
                isr=[1, 2],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ),
    ]


def test_a_topic_with_its_partitions() -> None:
    image = image_of(*topic_records())
    topic = image.topics_by_name["orders"]
    assert image.topics_by_id[ID] is topic
    assert [partition.index for partition in topic.partitions] == [0, 1]
    assert topic.partitions[1].replicas == (1, 2)
    assert image.partition_count == 2
    assert not topic.is_internal


def test_partitions_come_in_order() -> None:
    with pytest.raises(AssertionError):
        image_of(TopicRecord(name="t", topic_id=ID), PartitionRecord(partition_id=1, topic_id=ID))


def test_a_new_leader_begins_a_new_epoch() -> None:
    image = image_of(*topic_records(), PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2))
    partition = image.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (2, 1, 1)
    assert partition.isr == (1, 2)


def test_a_smaller_isr_keeps_the_leader_epoch() -> None:
    image = image_of(*topic_records(), PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1]))
    partition = image.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)
    assert partition.isr == (1,)


def test_a_partition_without_a_leader() -> None:
    image = image_of(
        *topic_records(), PartitionChangeRecord(partition_id=0, topic_id=ID, leader=NO_LEADER)
    )
    assert image.topics_by_name["orders"].partitions[0].leader == NO_LEADER
    assert [p.index for _, p in image.partitions_led_by(1)] == [1]


def test_a_removed_topic_leaves_nothing() -> None:
    config = ConfigRecord(
        resource_type=RESOURCE_TOPIC, resource_name="orders", name="retention.ms", value="5"
    )
    image = image_of(*topic_records(), config, RemoveTopicRecord(topic_id=ID))
    assert image == ClusterImage()


def test_configs_are_set_changed_and_unset() -> None:
    def config(value: str | None) -> ConfigRecord:
        return ConfigRecord(
            resource_type=RESOURCE_BROKER, resource_name="", name="log.retention.ms", value=value
        )

    image = image_of(config("5"), config("6"))
    assert image.broker_configs(1) == ({"log.retention.ms": "6"}, {})
    image.replay(config(None))
    image.replay(config(None))
    assert image.configs == {}


def test_names_that_differ_in_dots_collide() -> None:
    image = image_of(*topic_records("a.b"), *topic_records("c", b"x" * 16))
    assert image.collision_with("a_b") == "a.b"
    assert image.collision_with("a.b") is None
    assert image.collision_with("a-b") is None
    image.replay(RemoveTopicRecord(topic_id=ID))
    assert image.collision_with("a_b") is None


def test_a_brokers_life() -> None:
    image = image_of(
        RegisterBrokerRecord(
            broker_id=1,
            incarnation_id=ID,
            broker_epoch=7,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9)],
            rack="r",
        )
    )
    broker = image.brokers[1]
    assert broker.fenced
    assert (broker.endpoints[0].host, broker.rack, broker.broker_epoch) == ("h", "r", 7)
    assert image.usable_brokers() == []
    image.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1))
    assert image.usable_brokers() == [1]
    image.replay(FenceBrokerRecord(id=1, epoch=7))
    assert image.usable_brokers() == []
    image.replay(UnfenceBrokerRecord(id=1, epoch=7))
    image.replay(BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1))
    assert image.usable_brokers() == []
    image.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=7))
    assert image.brokers == {}


def test_offline_replicas_are_those_of_unknown_or_fenced_brokers() -> None:
    image = image_of(*topic_records(), RegisterBrokerRecord(broker_id=1, fenced=False))
    assert image.offline_replicas(image.topics_by_name["orders"].partitions[0]) == [2]


def test_features_producer_ids_and_nothing() -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        NoOpRecord(),
    )
    assert image.features == {"metadata.version": 30}
    assert image.next_producer_id == 1000


def test_a_record_of_the_future_is_no_silent_thing() -> None:
    with pytest.raises(KeyError):
        image_of(object())
