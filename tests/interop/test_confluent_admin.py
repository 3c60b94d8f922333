"""librdkafka's admin client: topics, partitions, configs, records, the cluster."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.interop.confluent import (
    TIMEOUT_S,
    admin_of,
    create_topic,
    produce,
    producer_of,
    read_all,
)
from tests.interop.conftest import Target

Unique = Callable[[str], str]


def refusal_of(future: object) -> str:
    with pytest.raises(KafkaException) as refused:
        future.result(TIMEOUT_S)  # type: ignore[attr-defined]
    return str(refused.value.args[0].name())


def test_topic_lives_and_dies(target: Target, unique: Unique) -> None:
    topic = unique("life")
    admin = admin_of(target.bootstrap_servers)
    create_topic(target.bootstrap_servers, topic, partitions=3)
    listed = admin.list_topics(topic, TIMEOUT_S).topics[topic]
    assert sorted(listed.partitions) == [0, 1, 2]
    assert {len(each.replicas) for each in listed.partitions.values()} == {1}
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 5
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_topic_made_again_is_another_topic(target: Target, unique: Unique) -> None:
    topic = unique("again")
    servers = target.bootstrap_servers
    admin = admin_of(servers)
    ids = []
    for _ in range(2):
        create_topic(servers, topic)
        produce(producer_of(servers), topic, [(None, b"v")])
        assert [message.offset() for message in read_all(servers, topic)] == [0]
        asked = admin.describe_topics(TopicCollection([topic]))
        ids.append(str(asked[topic].result(TIMEOUT_S).topic_id))
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (lambda name: NewTopic(f"{name}/slash", 1), "TOPIC_EXCEPTION"),
        (lambda name: NewTopic(f"{name}-{'x' * 250}", 1), "TOPIC_EXCEPTION"),
        (lambda name: NewTopic(name, 0), "INVALID_PARTITIONS"),
        (lambda name: NewTopic(name, 1, 3), "INVALID_REPLICATION_FACTOR"),
        (lambda name: NewTopic(name, 1, config={"no.such.key": "1"}), "INVALID_CONFIG"),
        (lambda name: NewTopic(name, 1, config={"retention.ms": "soon"}), "INVALID_CONFIG"),
        (lambda name: NewTopic(name, 1, replica_assignment=[[77]]), "INVALID_REPLICA_ASSIGNMENT"),
    ],
    ids=["slash", "long", "no-partitions", "too-many-replicas", "key", "value", "replica"],
)
def test_wrong_topic_is_refused_with_its_reason(
    target: Target, unique: Unique, new: Callable[[str], NewTopic], error: str
) -> None:
    admin = admin_of(target.bootstrap_servers)
    wrong = new(unique("wrong"))
    assert refusal_of(admin.create_topics([wrong])[wrong.topic]) == error
    assert wrong.topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_existing_and_missing_topics_are_told(target: Target, unique: Unique) -> None:
    topic, missing = unique("twice"), unique("missing")
    admin = admin_of(target.bootstrap_servers)
    create_topic(target.bootstrap_servers, topic)
    assert refusal_of(admin.create_topics([NewTopic(topic, 1)])[topic]) == "TOPIC_ALREADY_EXISTS"
    assert refusal_of(admin.delete_topics([missing])[missing]) == "UNKNOWN_TOPIC_OR_PART"
    fewer = admin.create_partitions([NewPartitions(topic, 1)])[topic]
    assert refusal_of(fewer) == "INVALID_PARTITIONS"


def test_validate_only_changes_nothing(target: Target, unique: Unique) -> None:
    topic = unique("dry")
    admin = admin_of(target.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1)], validate_only=True)[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def config_of(target: Target, topic: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_of(target.bootstrap_servers)
    entries: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return entries


def test_topic_config_is_complete_and_says_where_it_comes_from(
    target: Target, unique: Unique
) -> None:
    topic = unique("config")
    create_topic(target.bootstrap_servers, topic, config={"retention.ms": "12345"})
    entries = config_of(target, topic)
    assert entries["retention.ms"].value == "12345"
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert entries["segment.bytes"].value == str(1 << 30)
    assert entries["segment.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    expected = {
        "cleanup.policy",
        "compression.type",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "max.message.bytes",
        "message.timestamp.type",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "segment.index.bytes",
        "segment.ms",
        "unclean.leader.election.enable",
    }
    assert expected <= set(entries)


def test_configs_change_by_increments(target: Target, unique: Unique) -> None:
    topic = unique("increments")
    create_topic(target.bootstrap_servers, topic)
    admin = admin_of(target.bootstrap_servers)

    def alter(key: str, value: str, operation: AlterConfigOpType) -> object:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        return admin.incremental_alter_configs([resource])[resource]

    for key, value, operation in [
        ("retention.ms", "1000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
    ]:
        alter(key, value, operation).result(TIMEOUT_S)  # type: ignore[attr-defined]
    entries = config_of(target, topic)
    assert entries["retention.ms"].value == "1000"
    assert entries["cleanup.policy"].value == "delete,compact"
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT).result(  # type: ignore[attr-defined]
        TIMEOUT_S
    )
    alter("retention.ms", "", AlterConfigOpType.DELETE).result(TIMEOUT_S)  # type: ignore[attr-defined]
    entries = config_of(target, topic)
    assert entries["cleanup.policy"].value == "compact"
    assert entries["retention.ms"].value == str(7 * 24 * 3600 * 1000)
    bad = alter("segment.bytes", "-5", AlterConfigOpType.SET)
    assert refusal_of(bad) == "INVALID_CONFIG"


def test_broker_config_is_described(target: Target) -> None:
    admin = admin_of(target.bootstrap_servers)
    (broker,) = admin.list_topics(timeout=TIMEOUT_S).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    entries = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert {"log.segment.bytes", "num.partitions", "auto.create.topics.enable"} <= set(entries)


def test_cluster_is_described(target: Target) -> None:
    admin = admin_of(target.bootstrap_servers)
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert cluster.cluster_id
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [target.bootstrap_servers]
    assert cluster.controller.id == cluster.nodes[0].id


def test_records_are_deleted_up_to_an_offset(target: Target, unique: Unique) -> None:
    topic = unique("delete-records")
    servers = target.bootstrap_servers
    create_topic(servers, topic)
    produce(producer_of(servers), topic, [(None, str(n).encode()) for n in range(20)])
    admin = admin_of(servers)
    (future,) = admin.delete_records([Part(topic, 0, 12)]).values()
    assert future.result(TIMEOUT_S).low_watermark == 12
    assert [message.offset() for message in read_all(servers, topic)] == list(range(12, 20))
    (beyond,) = admin.delete_records([Part(topic, 0, 99)]).values()
    assert refusal_of(beyond) == "OFFSET_OUT_OF_RANGE"


def test_offsets_are_listed(target: Target, unique: Unique) -> None:
    topic = unique("list-offsets")
    servers = target.bootstrap_servers
    create_topic(servers, topic)
    producer = producer_of(servers)
    for timestamp_ms in (5_000, 9_000, 7_000):
        producer.produce(topic, b"v", timestamp=1_700_000_000_000 + timestamp_ms)
        assert producer.flush(TIMEOUT_S) == 0
    admin = admin_of(servers)
    for spec, offset in [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 1),
        (OffsetSpec.for_timestamp(1_700_000_006_000), 1),
    ]:
        (future,) = admin.list_offsets({Part(topic, 0): spec}).values()
        assert future.result(TIMEOUT_S).offset == offset
