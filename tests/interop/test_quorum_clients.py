"""Several brokers as processes, as librdkafka's clients meet them."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.interop.nodes import until

from headrace.testing.local_cluster import LocalCluster

Unique = Callable[[str], str]
WAIT_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers that are controllers as well."""
    settings = {"offsets.topic.num.partitions": 9}
    with LocalCluster(brokers=3, settings=settings) as running:
        yield running


def admin_of(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    created = admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=WAIT_S)
    created[topic].result(WAIT_S)


def test_every_broker_creates_and_every_broker_knows(cluster: LocalCluster, unique: Unique) -> None:
    servers = cluster.bootstrap_servers.split(",")
    for index, server in enumerate(servers):
        topic = unique(f"by-{index}")
        admin = admin_of(server)
        create(admin, topic, 6)
        # The broker that answered knows it at once, the others soon.
        assert len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 6
        for other in servers:
            until(lambda at=other, t=topic: t in admin_of(at).list_topics(timeout=WAIT_S).topics)


def test_records_over_three_brokers(cluster: LocalCluster, unique: Unique) -> None:
    topic = unique("records")
    create(admin_of(cluster.bootstrap_servers), topic, 9)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
    )
    sent = {f"value {number}".encode() for number in range(900)}
    for number, value in enumerate(sorted(sent)):
        producer.produce(topic, value, partition=number % 9)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(9)])
    assert received(consumer, len(sent)) == sent
    consumer.close()


def test_groups_live_on_different_brokers(cluster: LocalCluster, unique: Unique) -> None:
    topic = unique("groups")
    admin = admin_of(cluster.bootstrap_servers)
    create(admin, topic, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    values = {f"v{number}".encode() for number in range(30)}
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    groups = [unique(f"group-{number}") for number in range(6)]
    for group in groups:
        consumer = subscribed(cluster, group, topic)
        assert received(consumer, len(values)) == values
        consumer.commit(asynchronous=False)
        consumer.close()
        again = subscribed(cluster, group, topic)
        committed = again.committed([TopicPartition(topic, p) for p in range(3)], timeout=WAIT_S)
        assert sum(max(0, each.offset) for each in committed) == len(values)
        again.close()
    described = admin.describe_consumer_groups(groups, request_timeout=WAIT_S)
    coordinators = {described[group].result(WAIT_S).coordinator.id for group in groups}
    assert len(coordinators) > 1, "six groups of nine partitions are not all on one broker"


def test_configs_through_any_broker_hold_on_all(cluster: LocalCluster, unique: Unique) -> None:
    topic = unique("configs")
    servers = cluster.bootstrap_servers.split(",")
    create(admin_of(servers[0]), topic, 3)
    for number, server in enumerate(servers):
        value = str(100_000 + number)
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin = admin_of(server)  # kept: its answers end with it
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        for other in servers:
            until(lambda at=other, v=value: retention_at(at, topic) == v)


def retention_at(server: str, topic: str) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = admin_of(server)
    entries: dict[str, Any] = admin.describe_configs([resource])[resource].result(WAIT_S)
    found: str | None = entries["retention.ms"].value
    return found


def subscribed(cluster: LocalCluster, group: str, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    return consumer


def received(consumer: Consumer, count: int) -> set[bytes]:
    found: set[bytes] = set()

    def poll() -> bool:
        for message in consumer.consume(count, timeout=0.5):
            assert message.error() is None, message.error()
            found.add(message.value())
        return len(found) >= count

    until(poll)
    return found
