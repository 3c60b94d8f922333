"""Topics with three replicas, as librdkafka's clients and Kafka's own tools meet them."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata
from tests.faults.topic_load import open_connection
from tests.interop.confluent import PATIENCE, admin_of, consume, consumer_of, produce, producer_of
from tests.interop.consumer_script import ConsumerScript
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.client.cluster import Cluster
from headrace.client.leader_epochs import epoch_end_offsets
from headrace.testing.local_cluster import LocalCluster
from headrace.wire.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

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


def partitions_of(admin: AdminClient, topic: str) -> list[PartitionMetadata]:
    try:
        return list(admin.list_topics(topic, timeout=5).topics[topic].partitions.values())
    except KafkaException:
        return []  # the broker that was asked went away


def await_isr(admin: AdminClient, topic: str, wanted: set[int]) -> list[PartitionMetadata]:
    """The answer that has it: the next question may be another broker's, who is behind."""

    def reached() -> list[PartitionMetadata]:
        told = partitions_of(admin, topic)
        return told if all(set(each.isrs) == wanted for each in told) else []

    found: list[PartitionMetadata] = until(reached, WAIT_S)
    return found


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
    described = await_isr(admin, topic, BROKERS)
    assert all(set(partition.replicas) == BROKERS for partition in described)
    leaders = [partition.leader for partition in described]
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
    await_under_replicated(java, cluster, topic, {})
    absent = int(cluster.node("broker-2")["id"])
    cluster.stop_node("broker-2")
    described = await_isr(admin, topic, BROKERS - {absent})
    assert {partition.leader for partition in described} == BROKERS - {absent}
    write(producer, topic, range(20, 40))  # two are enough
    lacking = {index: BROKERS - {absent} for index in range(3)}
    await_under_replicated(java, cluster, topic, lacking)
    cluster.start_node("broker-2")
    await_isr(admin, topic, BROKERS)
    write(producer, topic, range(40, 60))
    await_under_replicated(java, cluster, topic, {})
    expected = {f"{partition}-{number}".encode() for partition in range(3) for number in range(60)}
    found = values_in(cluster, topic, 180)
    assert len(found) == 180
    assert set(found) == expected


def await_under_replicated(
    java: JavaTools, cluster: LocalCluster, topic: str, wanted: dict[int, set[int]]
) -> None:
    """The tool may ask any broker, and they learn of changes one after the other."""
    until(lambda: under_replicated(java, cluster, topic) == wanted, WAIT_S)


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
    described = await_isr(admin, topic, BROKERS)
    leaders = {partition.leader for partition in described}
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


# -- a log that was cut, as consumers meet it --------------------------------------------------

BEFORE, CUT, AFTER = range(10), range(10, 20), range(100, 115)
"""Of what was written: on both replicas, on the first alone, by the second. At the end the log is
longer than when it was read: who looks at offsets alone misses records and learns nothing."""


class Members:
    """Members of Kafka's Java client, each of a group of its own, and all they ever read."""

    def __init__(self, script: ConsumerScript, topic: str) -> None:
        self._script, self._topic = script, topic
        self._values: dict[str, list[str]] = {}

    def open(self, name: str, policy: str) -> None:
        """Its place in the group is there before the policy may forbid to choose one."""
        for settings in ({}, {"auto_offset_reset": policy}):
            self._script.open(name, name, self._topic, **settings)
            self.await_read(name, named(BEFORE))
            if not settings:
                self._script.close(name)

    def read(self, name: str) -> list[str]:
        values = self._values.setdefault(name, [])
        values += self._script.values(name)
        return values

    def await_read(self, name: str, wanted: list[str]) -> None:
        self._script.until(f"{name} reads {wanted}", lambda: self.read(name) == wanted, name)

    def await_error(self, name: str) -> str:
        self._script.until(f"{name} ends", lambda: bool(self._script.show(name).error), name)
        return self._script.show(name).error


def told_of_truncation(consumer: Consumer) -> list[int]:
    """What it is given, up to the error that says so."""
    offsets: list[int] = []

    def is_told() -> bool:
        message = consumer.poll(0.2)
        if message is None:
            return False
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._AUTO_OFFSET_RESET, error
            assert "log truncation detected at offset 20" in error.str(), error
            assert "broker end offset is 10" in error.str(), error
            return True
        offsets.append(message.offset())
        return False

    until(is_told, WAIT_S)
    return offsets


@pytest.mark.long
@pytest.mark.java
def test_consumers_are_told_of_a_log_that_was_cut(unique: Unique, java: JavaTools) -> None:
    """1. A follower stops, its leader writes on alone and is read; 2. the leader dies, and the
    follower leads without what it never had; 3. others are written in its place (KIP-320).

    Who may reset goes back to where the logs part. Who may not is told of a truncation.
    """
    del java  # its jars and classes are there
    topic = unique("cut")
    settings = {"offsets.topic.num.partitions": 1, "group.initial.rebalance.delay.ms": 0}
    with LocalCluster(brokers=3, controllers=1, settings=settings) as cluster:
        admin = admin_of(cluster.bootstrap_servers)
        first, second = (int(cluster.node(f"broker-{each}")["id"]) for each in (1, 2))
        config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        new = NewTopic(topic, 1, replica_assignment=[[first, second]], config=config)
        admin.create_topics([new], request_timeout=WAIT_S)[topic].result(WAIT_S)
        await_isr(admin, topic, {first, second})
        write(producer_of(cluster.bootstrap_servers, acks="all"), topic, BEFORE, 1)
        readers = {
            policy: consumer_of(
                cluster.bootstrap_servers,
                unique(policy),
                auto_offset_reset=policy,
                enable_auto_commit=False,
            )
            for policy in ("error", "earliest")
        }
        for reader in readers.values():
            reader.assign([TopicPartition(topic, 0, 0)])
        with ConsumerScript(cluster.bootstrap_servers) as script:
            members = Members(script, topic)
            strict, lenient = unique("strict"), unique("lenient")
            members.open(strict, "none")
            members.open(lenient, "earliest")
            cluster.stop_node("broker-2")
            await_isr(admin, topic, {first})
            write(producer_of(cluster.bootstrap_servers, acks="all"), topic, CUT, 1)
            for reader in readers.values():
                assert len(consume(reader, 20, WAIT_S)) == 20
            for name in (strict, lenient):
                members.await_read(name, named(BEFORE) + named(CUT))
            cluster.kill("broker-1")
            cluster.start_node("broker-2")
            until(lambda: leader_in(admin, topic) == second, WAIT_S)
            write(producer_of(cluster.bootstrap_servers, acks="all"), topic, AFTER, 1)

            assert told_of_truncation(readers["error"]) == []
            assert diverging_epoch(cluster.node("broker-2")["listen"], topic) == (0, 10)
            with Cluster(cluster.bootstrap_servers) as client:
                assert epoch_end_offsets(client, {(topic, 0): 0}) == {(topic, 0): 10}
            # From where the logs part: what was cut was read, and can't be taken back.
            going_on = [message.value() for message in consume(readers["earliest"], 15, WAIT_S)]
            assert [str(value, "ascii") for value in going_on] == named(AFTER)
            members.await_read(lenient, named(BEFORE) + named(CUT) + named(AFTER))
            assert members.await_error(strict) == "LogTruncationException"
            assert members.read(strict) == named(BEFORE) + named(CUT)

        cluster.start_node("broker-1")
        await_isr(admin, topic, {first, second})
        found = values_in(cluster, topic, 25, 1)
        assert [str(value, "ascii") for value in found] == named(BEFORE) + named(AFTER)
        for reader in readers.values():
            reader.close()


def diverging_epoch(address: str, topic: str) -> tuple[int, int]:
    """Epoch and end offset, as Fetch tells a consumer that has read up to 20 in epoch 0."""
    connection = open_connection(address, timeout_ms=5_000)
    try:
        named_topic = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        topic_id = connection.call(named_topic, MetadataResponse).topics[0].topic_id
        wanted = FetchPartition(
            partition=0, fetch_offset=20, last_fetched_epoch=0, partition_max_bytes=1 << 20
        )
        asked = FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])
        fetched = connection.call(FetchRequest(max_wait_ms=100, topics=[asked]), FetchResponse)
    finally:
        connection.close()
    (row,) = fetched.responses[0].partitions
    assert (row.error_code, bytes(row.records or b"")) == (0, b"")
    return row.diverging_epoch.epoch, row.diverging_epoch.end_offset


def named(numbers: range) -> list[str]:
    return [f"0-{number}" for number in numbers]


def leader_in(admin: AdminClient, topic: str) -> int:
    try:
        return int(admin.list_topics(topic, timeout=ASK_S).topics[topic].partitions[0].leader)
    except KafkaException:
        return -1
