"""Replay: each record does what it says and nothing else."""

import pytest

from headrace.cluster.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ClusterImage,
    UnservedRecord,
)
from headrace.wire.kafka.messages.metadata_records import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from headrace.wire.kafka.metadata_records import RECORD_TYPES

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


def quota(value: float = 1.0, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [
        EntityData(entity_type="user", entity_name="u"),
        EntityData(entity_type="client-id", entity_name=None),
    ]
    return ClientQuotaRecord(entity=entity, key="consumer_byte_rate", value=value, remove=remove)


EVERYTHING: list[object] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    RegisterControllerRecord(
        controller_id=3000,
        incarnation_id=ID,
        end_points=[ControllerEndpoint(name="CONTROLLER", host="c", port=9093)],
        features=[ControllerFeature(name="metadata.version", max_supported_version=30)],
    ),
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=ID,
        broker_epoch=7,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9, security_protocol=1)],
        features=[BrokerFeature(name="metadata.version", max_supported_version=30)],
        rack="r",
        fenced=False,
        in_controlled_shutdown=True,
        log_dirs=[b"d" * 16],
        cordoned_log_dirs=[b"e" * 16],
    ),
    RegisterBrokerRecord(broker_id=2, rack=None),
    *topic_records("a.b"),
    PartitionRecord(
        partition_id=2,
        topic_id=ID,
        replicas=[1, 2, 3],
        isr=[2],
        removing_replicas=[1],
        adding_replicas=[3],
        leader=2,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=9,
        directories=[b"d" * 16, b"f" * 16, bytes(16)],
        eligible_leader_replicas=[1],
        last_known_elr=[3],
    ),
    TopicRecord(name="empty", topic_id=b"E" * 16),
    ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="a.b", name="retention.ms", value="5"),
    ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="x", value=""),
    ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=3000),
    UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096),
    AccessControlEntryRecord(id=b"a" * 16, principal="User:u"),
    DelegationTokenRecord(token_id="t", owner="User:u"),
    quota(),
]


def test_told_again_an_image_is_the_same() -> None:
    image = image_of(*EVERYTHING)
    assert image_of(*image.to_records()) == image


def test_what_is_kept_aside_can_be_changed_and_removed() -> None:
    image = image_of(*EVERYTHING)
    image.replay(quota(2.0))
    told = [record for record in image.to_records() if isinstance(record, ClientQuotaRecord)]
    assert told == [quota(2.0)]
    for removal in (
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        RemoveAccessControlEntryRecord(id=b"a" * 16),
        RemoveDelegationTokenRecord(token_id="t"),
        quota(remove=True),
    ):
        image.replay(removal)
    assert image == image_of(*EVERYTHING[:-4])


def test_a_copy_goes_its_own_way() -> None:
    image = image_of(*EVERYTHING)
    twin = image.copy()
    assert twin == image
    told = list(image.to_records())
    for record in (
        PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2, replicas=[2, 1]),
        PartitionRecord(partition_id=3, topic_id=ID, replicas=[1], isr=[1], leader=1),
        ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="y", value="1"),
        RegisterBrokerRecord(broker_id=9),
        RegisterControllerRecord(controller_id=9),
        FeatureLevelRecord(name="f", feature_level=1),
        TopicRecord(name="a-b", topic_id=b"Z" * 16),
        RemoveTopicRecord(topic_id=b"E" * 16),
        quota(5.0),
        ProducerIdsRecord(next_producer_id=4000),
    ):
        twin.replay(record)
    assert list(image.to_records()) == told
    assert twin != image
    assert image.collision_with("a_b") == "a.b"


def test_shared_partitions_are_the_same_objects() -> None:
    image = image_of(*topic_records())
    partitions = image.copy().topics_by_name["orders"].partitions
    assert partitions[0] is image.topics_by_name["orders"].partitions[0]


def test_the_first_replicas_are_counted() -> None:
    image = image_of(*topic_records(), *topic_records("other", b"o" * 16, 1))
    assert image.preferred_counts == {1: 3}
    image.replay(PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[2, 1]))
    assert image.preferred_counts == {1: 2, 2: 1}
    image.replay(RemoveTopicRecord(topic_id=ID))
    assert image.preferred_counts == {1: 1}


def test_a_partition_is_found_by_id_and_index() -> None:
    image = image_of(*topic_records())
    assert image.partition(ID, 1) is image.topics_by_name["orders"].partitions[1]
    assert image.partition(ID, 2) is None
    assert image.partition(ID, -1) is None
    assert image.partition(b"?" * 16, 0) is None


@pytest.mark.parametrize("name", ["", "a.b"])
def test_eligible_leaders_are_cleared(name: str) -> None:
    image = image_of(*EVERYTHING, ClearElrRecord(topic_name=name))
    partition = image.partition(ID, 2)
    assert partition is not None
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())
    assert partition.partition_epoch == 10


def test_metadata_transactions_are_refused_in_words() -> None:
    with pytest.raises(UnservedRecord, match="BeginTransactionRecord"):
        image_of(BeginTransactionRecord(name="t"))


def test_every_kind_of_record_has_its_replay() -> None:
    from headrace.cluster.image import _REPLAY

    assert set(RECORD_TYPES.values()) == set(_REPLAY)
    assert image_of(ZkMigrationStateRecord()) == ClusterImage()
