"""A group's coordinator dies by kill -9 in a cluster of three: the group lives on elsewhere.

Two groups of two librdkafka members each, one of the classic protocol and one of KIP-848, read
and commit the same topic while it is written. Their one partition of `__consumer_offsets` moves
to another broker with its leader; no committed offset is lost or goes back, every partition
has one owner, and every record is read.
"""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import NewTopic
from tests.interop.confluent import TIMEOUT_S, admin_of, consumer_of, producer_of
from tests.interop.coordinators import GROUP, coordinator_name
from tests.interop.ownerships import Ownerships

from headrace.testing import checkers
from headrace.testing.history import (
    Commit,
    CommittedOffset,
    History,
    Outcome,
    TopicPartition,
)
from headrace.testing.local_cluster import LocalCluster

Unique = Callable[[str], str]

PARTITIONS = 4
DEADLINE_S = 90.0
COMMIT_PATIENCE_S = 30.0
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "broker.heartbeat.interval.ms": 300,
    "broker.session.timeout.ms": 1500,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
PROTOCOLS = {
    "classic": {"heartbeat_interval_ms": 300},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, settings=SETTINGS) as running:
        yield running


class Group:
    """Two members, what they read, and what they committed."""

    def __init__(self, servers: str, topic: str, group: str, protocol: str) -> None:
        self.group, self.topic = group, topic
        self.history = History()
        self.owners = Ownerships(group, self.history)
        self.values: set[bytes] = set()
        self.commits_after: dict[int, int] = {}
        """By partition: the offset last committed for certain since it was last cleared."""
        settings = {**PROTOCOLS[protocol], "enable_auto_commit": False}
        settings |= {"topic_metadata_refresh_interval_ms": 1_000}
        self.members = {name: consumer_of(servers, group, **settings) for name in "ab"}
        for name, member in self.members.items():
            self.owners.subscribe(member, name, topic)

    def turn(self) -> None:
        """Each member reads what there is and commits where it stands."""
        for name, member in self.members.items():
            messages = [m for m in member.consume(100, 0.02) if m.error() is None]
            self.values |= {message.value() or b"" for message in messages}
            ends = {message.partition(): message.offset() + 1 for message in messages}
            for partition, offset in ends.items():
                if TopicPartition(self.topic, partition) in self.owners.held[name]:
                    self._commit(member, partition, offset)

    def _commit(self, member: Consumer, partition: int, offset: int) -> None:
        outcome = Outcome.OK
        try:
            member.commit(offsets=[Part(self.topic, partition, offset)], asynchronous=False)
            self.commits_after[partition] = offset
        except KafkaException:
            outcome = Outcome.INFO
        where = TopicPartition(self.topic, partition)
        # Who takes over a partition after an unknown commit may start and commit behind it.
        self.history.add(Commit(self.group, where, offset, outcome))

    @property
    def is_shared(self) -> bool:
        held = list(self.owners.held.values())
        every = sorted(part.partition for each in held for part in each)
        return all(held) and every == list(range(PARTITIONS))

    def look(self) -> None:
        """What the coordinator says was committed."""
        asked = [Part(self.topic, partition) for partition in range(PARTITIONS)]
        member = self.members["a"]
        deadline_s = time.monotonic() + COMMIT_PATIENCE_S
        while True:
            try:
                told = member.committed(asked, TIMEOUT_S)
                break
            except KafkaException:
                assert time.monotonic() < deadline_s, "committed offsets cannot be read"
        for read in told:
            where = TopicPartition(read.topic, read.partition)
            offset = read.offset if read.offset >= 0 else None
            self.history.add(CommittedOffset(self.group, where, offset))

    def close(self) -> None:
        for member in self.members.values():
            member.close()


class Traffic:
    """Records to every partition, and groups that read them all."""

    def __init__(self, producer: Producer, topic: str, groups: list[Group]) -> None:
        self._producer, self._topic, self.groups = producer, topic, groups
        self.sent: set[bytes] = set()

    def turn(self) -> None:
        for partition in range(PARTITIONS):
            value = b"%d" % len(self.sent)
            self._producer.produce(self._topic, value, partition=partition)
            self.sent.add(value)
        self._producer.poll(0)
        for group in self.groups:
            group.turn()

    def is_at_work(self) -> bool:
        """Every partition has one owner in each group, who committed something."""
        return all(
            group.is_shared and len(group.commits_after) == PARTITIONS for group in self.groups
        )

    def until(self, what: str, reached: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not reached():
            held = [group.owners.held for group in self.groups]
            assert time.monotonic() < deadline_s, f"not in time: {what}; {held}"
            self.turn()

    def until_read(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0
        deadline_s = time.monotonic() + DEADLINE_S
        while any(group.values != self.sent for group in self.groups):
            missing = [len(self.sent - group.values) for group in self.groups]
            assert time.monotonic() < deadline_s, f"{missing} records were never read"
            for group in self.groups:
                group.turn()


def fail_over(cluster: LocalCluster, unique: Unique, kills: int) -> None:
    topic, servers = unique("failover"), cluster.bootstrap_servers
    admin = admin_of(servers)
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(TIMEOUT_S)
    groups = [Group(servers, topic, unique(protocol), protocol) for protocol in PROTOCOLS]
    traffic = Traffic(producer_of(servers, topic_metadata_refresh_interval_ms=1_000), topic, groups)
    try:
        for _ in range(kills):
            traffic.until("both groups read and commit", traffic.is_at_work)
            kill_coordinator(cluster, traffic)
        traffic.until_read()
        for group in groups:
            group.look()
    finally:
        for group in groups:
            group.close()
    for group in groups:
        assert checkers.check(group.history) == []
        assert group.owners.doubled == []
        assert min(group.owners.generations) > 0


def kill_coordinator(cluster: LocalCluster, traffic: Traffic) -> None:
    groups = traffic.groups
    (victim,) = {coordinator_name(cluster, group.group, GROUP) for group in groups}
    cluster.kill(victim)
    try:
        for group in groups:
            # What the new coordinator says before anybody commits to it: nothing was lost.
            group.look()
            group.commits_after.clear()
            assert coordinator_name(cluster, group.group, GROUP, but=victim) != victim
        # While the broker is still down.
        traffic.until("both groups read and commit without it", traffic.is_at_work)
    finally:
        cluster.start_node(victim)


def test_groups_live_on_when_their_coordinator_is_killed(
    cluster: LocalCluster, unique: Unique
) -> None:
    fail_over(cluster, unique, kills=1)


@pytest.mark.long
def test_coordinators_are_killed_again_and_again(cluster: LocalCluster, unique: Unique) -> None:
    fail_over(cluster, unique, kills=8)
