"""Topics with three replicas, as librdkafka's clients and Kafka's own tools meet them."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.confluent import PATIENCE, admin_of, consume, consumer_of, produce, producer_of
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.testing.local_cluster import LocalCluster

Unique = Callable[[str], str]
WAIT_S = 60.0
ASK_S = 5.0
BROKERS = {1, 2, 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
    }
    with LocalCluster(brokers=3, settings=settings) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> AdminClient:
    return admin_of(cluster.bootstrap_servers)


def create(admin: AdminClient, topic: str, partitions: int, replicas: int = 3) -> None:
    created = admin.create_topics([NewTopic(topic, partitions, replicas)], request_timeout=WAIT_S)
    created[topic].result(WAIT_S)


def isr_of(admin: AdminClient, topic: str) -> list[set[int]]:
    try:
        told = admin.list_topics(topic, timeout=5).topics[topic]
    except KafkaException:
        return []  # the broker that was asked went away
    return [set(partition.isrs) for partition in told.partitions.values()]


def await_isr(admin: AdminClient, topic: str, wanted: set[int]) -> None:
    def is_reached() -> bool:
        told = isr_of(admin, topic)
        return bool(told) and all(each == wanted for each in told)

    until(is_reached, WAIT_S)


def write(producer: Producer, topic: str, values: range, partitions: int = 3) -> None:
    """Acknowledged by all in-sync replicas, or it fails."""
    for partition in range(partitions):
        records = [(None, f"{partition}-{number}".encode()) for number in values]
        sent = produce(producer, topic, records, partition=partition)
        assert len(sent) == len(values)


def values_in(cluster: LocalCluster, topic: str, count: int, partitions: int = 3) -> list[bytes]:
    reader = consumer_of(cluster.bootstrap_servers, "unused", enable_auto_commit=False)
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    try:
        return [message.value() or b"" for message in consume(reader, count, WAIT_S)]
    finally:
        reader.close()


def test_replicas_lie_on_all_brokers_and_each_leads_some(
    cluster: LocalCluster, admin: AdminClient, unique: Unique
) -> None:
    topic = unique("spread")
    create(admin, topic, 6)
    await_isr(admin, topic, BROKERS)
    described = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    assert all(set(partition.replicas) == BROKERS for partition in described.values())
    leaders = [partition.leader for partition in described.values()]
    assert {leaders.count(broker) for broker in BROKERS} == {2}
    write(producer_of(cluster.bootstrap_servers, acks="all"), topic, range(20), 6)
    assert len(set(values_in(cluster, topic, 120, 6))) == 120


@pytest.mark.parametrize("replicas", [4, 100])
def test_more_replicas_than_brokers_are_refused(
    admin: AdminClient, unique: Unique, replicas: int
) -> None:
    topic = unique("too-many")
    with pytest.raises(KafkaException) as refused:
        create(admin, topic, 1, replicas)
    assert refused.value.args[0].name() == "INVALID_REPLICATION_FACTOR"
    assert topic not in admin.list_topics(timeout=WAIT_S).topics


@pytest.mark.java
def test_a_broker_that_is_stopped_leaves_the_in_sync_replicas_and_comes_back(
    cluster: LocalCluster, admin: AdminClient, unique: Unique, java: JavaTools
) -> None:
    topic = unique("stopped")
    create(admin, topic, 3)
    await_isr(admin, topic, BROKERS)
    producer = producer_of(cluster.bootstrap_servers, enable_idempotence=True)
    write(producer, topic, range(20))
    assert under_replicated(java, cluster, topic) == {}
    absent = int(cluster.node("broker-2")["id"])
    cluster.stop_node("broker-2")
    await_isr(admin, topic, BROKERS - {absent})
    leaders = {
        p.leader for p in admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.values()
    }
    assert leaders == BROKERS - {absent}
    write(producer, topic, range(20, 40))  # two are enough
    told = under_replicated(java, cluster, topic)
    assert told == {index: BROKERS - {absent} for index in range(3)}
    cluster.start_node("broker-2")
    await_isr(admin, topic, BROKERS)
    write(producer, topic, range(40, 60))
    assert under_replicated(java, cluster, topic) == {}
    expected = {f"{partition}-{number}".encode() for partition in range(3) for number in range(60)}
    found = values_in(cluster, topic, 180)
    assert len(found) == 180
    assert set(found) == expected


def under_replicated(java: JavaTools, cluster: LocalCluster, topic: str) -> dict[int, set[int]]:
    """Partition and ISR, as `kafka-topics` lists those that lack a replica."""
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--describe", "--topic", topic]
    told = java.run("kafka-topics", *words, "--under-replicated-partitions").check().stdout
    rows = re.findall(r"Partition: (\d+)\s.*?Isr: ([\d,]*)", told)
    return {int(index): {int(each) for each in isr.split(",")} for index, isr in rows}


def test_group_offsets_survive_the_kill_of_their_coordinator(
    cluster: LocalCluster, admin: AdminClient, unique: Unique
) -> None:
    topic, group = unique("read"), unique("group")
    create(admin, topic, 3)
    write(producer_of(cluster.bootstrap_servers), topic, range(10))
    consumer = consumer_of(cluster.bootstrap_servers, group, enable_auto_commit=False)
    consumer.subscribe([topic])
    consume(consumer, 30, WAIT_S)
    consumer.commit(asynchronous=False)
    coordinator = coordinator_of(admin, group)
    await_isr(admin, "__consumer_offsets", BROKERS)
    victim = cluster.name_of(coordinator)
    cluster.kill(victim)
    try:
        other = until(lambda: other_coordinator(cluster, group, coordinator), WAIT_S)
        assert other in BROKERS - {coordinator}
        asked = [TopicPartition(topic, index) for index in range(3)]
        again = consumer_of(cluster.bootstrap_servers, group, enable_auto_commit=False)
        committed = until(lambda: committed_by(again, asked), WAIT_S)
        assert committed == [10, 10, 10]
        again.close()
    finally:
        cluster.start_node(victim)
    # The member that was there before goes on where it was.
    write(producer_of(cluster.bootstrap_servers), topic, range(10, 12))
    assert {message.offset() for message in consume(consumer, 6, WAIT_S)} == {10, 11}
    consumer.close()
    await_isr(admin, "__consumer_offsets", BROKERS)


def coordinator_of(admin: AdminClient, group: str) -> int:
    described = admin.describe_consumer_groups([group], request_timeout=ASK_S)[group]
    return int(described.result(2 * ASK_S).coordinator.id)


def other_coordinator(cluster: LocalCluster, group: str, before: int) -> int | None:
    """A client of its own for each question. Story of one that lasts: 1. librdkafka remembers the
    coordinator; 2. the broker dies, and after its fence Metadata names it no more, as Kafka's does
    not; 3. librdkafka gives the broker up for good but keeps it as the group's coordinator, and
    waits for a change of its state that never comes: each question about the group times out
    (`debug=broker,admin`: "Handle is terminating in state INIT", while other clients are told of
    the new one at once)."""
    try:
        found = coordinator_of(admin_of(cluster.bootstrap_servers), group)
    except (KafkaException, TimeoutError):
        return None
    return found if found != before else None


def committed_by(consumer: Consumer, asked: list[TopicPartition]) -> list[int] | None:
    try:
        return [part.offset for part in consumer.committed(asked, timeout=5)]
    except KafkaException:
        return None  # its coordinator is still loading


def test_a_transaction_over_brokers_is_seen_whole(
    cluster: LocalCluster, admin: AdminClient, unique: Unique
) -> None:
    topic, group = unique("whole"), unique("copier")
    create(admin, topic, 3)
    await_isr(admin, topic, BROKERS)
    leaders = {
        p.leader for p in admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.values()
    }
    assert leaders == BROKERS, "every marker goes to another broker"
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": group, **PATIENCE}
    )
    producer.init_transactions(WAIT_S)
    reading = consumer_of(cluster.bootstrap_servers, group)
    for number, is_committed in enumerate([True, False, True]):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, f"{partition}-{number}".encode(), partition=partition)
        assert producer.flush(WAIT_S) == 0
        offsets = [TopicPartition(topic, 0, number + 1)]
        producer.send_offsets_to_transaction(offsets, reading.consumer_group_metadata(), WAIT_S)
        if is_committed:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    found = values_in(cluster, topic, 6)
    assert sorted(found) == sorted(f"{p}-{n}".encode() for p in range(3) for n in (0, 2))
    (committed,) = reading.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
    assert committed.offset == 3
    reading.close()


@pytest.mark.long
@pytest.mark.java
def test_kafka_topics_shows_who_is_eligible(
    cluster: LocalCluster, admin: AdminClient, unique: Unique, java: JavaTools
) -> None:
    """KIP-966: all three were needed, one is stopped: it still has all that was acknowledged."""
    topic = unique("eligible")
    new = NewTopic(topic, 1, 3, config={"min.insync.replicas": "3"})
    admin.create_topics([new], request_timeout=WAIT_S)[topic].result(WAIT_S)
    await_isr(admin, topic, BROKERS)
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--describe", "--topic", topic]
    absent = int(cluster.node("broker-2")["id"])
    cluster.stop_node("broker-2")
    try:
        await_isr(admin, topic, BROKERS - {absent})
        told = java.run("kafka-topics", *words).check().stdout
        assert re.search(rf"Elr: {absent}\b", told), told
    finally:
        cluster.start_node("broker-2")
    await_isr(admin, topic, BROKERS)
    told = java.run("kafka-topics", *words).check().stdout
    assert not re.search(r"Elr: \d", told), told
