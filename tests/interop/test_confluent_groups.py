"""librdkafka consumer groups: eager, cooperative-sticky, static members, commits, restarts."""

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
)
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import NewPartitions
from tests.interop.confluent import (
    TIMEOUT_S,
    admin_of,
    consume,
    consumer_of,
    create_topic,
    poll_until,
    produce,
    producer_of,
)
from tests.interop.conftest import Target, start_target
from tests.interop.coordinators import GROUP, coordinator_name
from tests.interop.nodes import until
from tests.interop.ownerships import Ownerships

from headrace.testing import checkers
from headrace.testing.history import (
    Commit,
    CommittedOffset,
    History,
    Outcome,
    Ownership,
    TopicPartition,
)
from headrace.testing.local_cluster import LocalCluster

Unique = Callable[[str], str]


def owned(consumer: Consumer) -> set[int]:
    return {part.partition for part in consumer.assignment()}


def is_shared(consumers: list[Consumer], partitions: int) -> Callable[[], bool]:
    """Everyone holds something and together they hold each partition once."""

    def ready() -> bool:
        held = [owned(consumer) for consumer in consumers]
        return all(held) and sorted(p for each in held for p in each) == list(range(partitions))

    return ready


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_and_take_over(target: Target, unique: Unique, strategy: str) -> None:
    topic, group = unique("shared"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=6)
    consumers = [
        consumer_of(
            target.bootstrap_servers,
            group,
            partition_assignment_strategy=strategy,
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )
        for _ in range(3)
    ]
    try:
        for count in (1, 2, 3):
            consumers[count - 1].subscribe([topic])
            poll_until(consumers[:count], is_shared(consumers[:count], 6))
        consumers.pop().close()
        poll_until(consumers, is_shared(consumers, 6))
    finally:
        for consumer in consumers:
            consumer.close()


def test_cooperative_members_keep_what_they_hold(target: Target, unique: Unique) -> None:
    topic, group = unique("sticky"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    revoked: list[set[int]] = []
    first, second = (
        consumer_of(
            target.bootstrap_servers,
            group,
            partition_assignment_strategy="cooperative-sticky",
            heartbeat_interval_ms=200,
        )
        for _ in range(2)
    )

    def on_revoke(_: Consumer, parts: list[Part]) -> None:
        revoked.append({part.partition for part in parts})

    try:
        first.subscribe([topic], on_revoke=on_revoke)
        poll_until([first], is_shared([first], 4))
        before = owned(first)
        second.subscribe([topic])
        poll_until([first, second], is_shared([first, second], 4))
        # Cooperative: only what moves is given up, the rest is never let go.
        assert owned(first) < before
        assert revoked == [before - owned(first)]
    finally:
        first.close()
        second.close()


def test_static_member_returns_without_a_rebalance(target: Target, unique: Unique) -> None:
    topic, group = unique("static"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    assigned: dict[str, int] = {"a": 0, "b": 0}

    def member(name: str) -> Consumer:
        consumer = consumer_of(
            target.bootstrap_servers,
            group,
            group_instance_id=f"instance-{name}",
            session_timeout_ms=30_000,
            heartbeat_interval_ms=200,
        )

        def on_assign(_: Consumer, _parts: list[Part]) -> None:
            assigned[name] += 1

        consumer.subscribe([topic], on_assign=on_assign)
        return consumer

    first, second = member("a"), member("b")
    poll_until([first, second], is_shared([first, second], 4))
    first_assignments, held = assigned["a"], owned(second)
    second.close()  # a static member that closes does not leave
    second = member("b")
    try:
        poll_until([first, second], is_shared([first, second], 4))
        assert owned(second) == held
        assert assigned["a"] == first_assignments
    finally:
        first.close()
        second.close()


def test_second_owner_of_an_instance_id_fences_the_first(target: Target, unique: Unique) -> None:
    topic, group = unique("fenced"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    settings = {"group_instance_id": "the-one", "heartbeat_interval_ms": 200}
    first = consumer_of(target.bootstrap_servers, group, **settings)
    second = consumer_of(target.bootstrap_servers, group, **settings)
    errors: list[str] = []

    def is_fenced() -> bool:
        try:
            message = first.poll(0.05)
        except KafkaException as error:
            errors.append(error.args[0].name())
        else:
            if message is not None and message.error() is not None:
                errors.append(message.error().name())
        return "FENCED_INSTANCE_ID" in errors or "_FATAL" in errors

    try:
        first.subscribe([topic])
        poll_until([first], is_shared([first], 1))
        second.subscribe([topic])
        poll_until([second], is_fenced)
        poll_until([second], is_shared([second], 1))
    finally:
        first.close()
        second.close()


def test_committed_offsets_are_where_the_next_member_starts(target: Target, unique: Unique) -> None:
    topic, group = unique("commit"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    where, history = TopicPartition(topic, 0), History()
    produce(
        producer_of(target.bootstrap_servers),
        topic,
        [(None, str(number).encode()) for number in range(30)],
    )
    for start in (0, 10, 20):
        consumer = consumer_of(target.bootstrap_servers, group, enable_auto_commit=False)
        consumer.subscribe([topic])
        received = consume(consumer, 10)
        assert [message.offset() for message in received] == list(range(start, start + 10))
        offset = Part(topic, 0, start + 10, metadata=f"after {start}")
        (done,) = consumer.commit(offsets=[offset], asynchronous=False)
        assert done.error is None
        history.add(Commit(group, where, start + 10, Outcome.OK))
        (read,) = consumer.committed([Part(topic, 0)], TIMEOUT_S)
        history.add(CommittedOffset(group, where, read.offset))
        assert read.metadata == f"after {start}"
        consumer.close()
    assert checkers.check(history) == []


def test_auto_commit_at_close(target: Target, unique: Unique) -> None:
    topic, group = unique("auto-commit"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    produce(producer_of(target.bootstrap_servers), topic, [(None, b"v")] * 7)
    consumer = consumer_of(target.bootstrap_servers, group)
    consumer.subscribe([topic])
    consume(consumer, 7)
    consumer.close()
    reader = consumer_of(target.bootstrap_servers, group)
    (read,) = reader.committed([Part(topic, 0)], TIMEOUT_S)
    assert read.offset == 7
    reader.close()


def test_commit_by_a_stranger_is_refused(target: Target, unique: Unique) -> None:
    topic, group = unique("stranger"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    member = consumer_of(target.bootstrap_servers, group)
    member.subscribe([topic])
    poll_until([member], is_shared([member], 1))
    stranger = consumer_of(target.bootstrap_servers, group)
    with pytest.raises(KafkaException) as refused:
        stranger.commit(offsets=[Part(topic, 0, 1)], asynchronous=False)
    assert refused.value.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    stranger.close()
    member.close()


MEMBERS = {
    "range": {"partition_assignment_strategy": "range", "heartbeat_interval_ms": 200},
    "cooperative": {
        "partition_assignment_strategy": "cooperative-sticky",
        "heartbeat_interval_ms": 200,
    },
    "consumer": {"group_protocol": "consumer"},
}
"""Settings of members by how their group is rebalanced."""

QUICK = {
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
}

STEPS = ["join", "join", "join", "leave", "kill", "join", "leave"]


@pytest.fixture(scope="module")
def own_target(target_name: str) -> Iterator[Target]:
    """A broker that may be killed, whose groups of the new protocol are quick."""
    with start_target(target_name, **QUICK) as broker:
        yield broker


def test_two_owners_are_noticed() -> None:
    history = History()
    owners = Ownerships("group", history, {"a": set(), "b": set()})
    parts = [TopicPartition("topic", partition) for partition in range(3)]
    owners.assign("a", 4, {parts[0], parts[1]})
    owners.assign("b", 4, {parts[2]})
    assert (owners.doubled, checkers.check(history)) == ([], [])
    owners.assign("b", 5, {parts[1]})
    assert len(owners.doubled) == 1
    assert checkers.check(history) == [], "another generation"
    owners.assign("a", 5, set())
    assert [each.counter for each in checkers.check(history)] == ["double-owner"]


long_kinds = [pytest.param(kind, marks=pytest.mark.long) for kind in ("cooperative", "consumer")]


@pytest.mark.parametrize("kind", ["range", *long_kinds])
def test_no_partition_has_two_owners_while_members_come_and_go(
    own_target: Target, unique: Unique, kind: str
) -> None:
    """Of all that members were told, in the order in which they were told it: at no time and in no
    generation are there two owners, not even when the broker dies by kill -9 in between."""
    topic, group = unique(f"churn-{kind}"), unique(f"group-{kind}")
    create_topic(own_target.bootstrap_servers, topic, partitions=8)
    history = History()
    owners = Ownerships(group, history)
    consumers: list[Consumer] = []
    joined = 0
    try:
        for step in STEPS:
            if step == "join":
                joined += 1
                consumers.append(consumer_of(own_target.bootstrap_servers, group, **MEMBERS[kind]))
                owners.subscribe(consumers[-1], f"member-{joined}", topic)
            elif step == "leave":
                consumers.pop(0).close()
            else:
                own_target.kill()
                own_target.start()
            poll_until(consumers, is_shared(consumers, 8), 60)
            held = sorted(part.partition for each in owners.held.values() for part in each)
            assert held == list(range(8)), "the callbacks told of all that is owned"
    finally:
        for consumer in consumers:
            consumer.close()
    assert owners.doubled == []
    assert checkers.check(history) == []
    # Everybody who came or went made a generation that somebody was told of; a kill need not.
    assert len(owners.generations) >= len(STEPS) - 1
    assert min(owners.generations) > 0
    assert {event.member for event in history.events(Ownership)} == set(owners.held)


def test_new_partitions_reach_the_group(target: Target, unique: Unique) -> None:
    topic, group = unique("grow"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    consumer = consumer_of(target.bootstrap_servers, group, topic_metadata_refresh_interval_ms=300)
    consumer.subscribe([topic])
    poll_until([consumer], is_shared([consumer], 1))
    admin = admin_of(target.bootstrap_servers)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
    poll_until([consumer], is_shared([consumer], 3))
    consumer.close()


def test_admin_sees_members_and_offsets(target: Target, unique: Unique) -> None:
    topic, group = unique("described"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    admin = admin_of(target.bootstrap_servers)
    member = consumer_of(target.bootstrap_servers, group, client_id="the-member")
    member.subscribe([topic])
    poll_until([member], is_shared([member], 2))
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert [each.client_id for each in described.members] == ["the-member"]
    assert described.partition_assignor == "range"
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert group in {each.group_id for each in listed.valid}
    member.commit(offsets=[Part(topic, 1, 5)], asynchronous=False)
    member.close()

    asked = ConsumerGroupTopicPartitions(group)
    answer = admin.list_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
    assert {(p.partition, p.offset) for p in answer.topic_partitions} == {(1, 5)}
    changed = ConsumerGroupTopicPartitions(group, [Part(topic, 1, 2)])
    admin.alter_consumer_group_offsets([changed])[group].result(TIMEOUT_S)
    answer = admin.list_consumer_group_offsets([asked])[group].result(TIMEOUT_S)
    assert {(p.partition, p.offset) for p in answer.topic_partitions} == {(1, 2)}
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert group not in {each.group_id for each in listed.valid}


@pytest.mark.long
def test_offsets_expire_where_nobody_reads_and_stay_where_somebody_does(
    target_name: str, unique: Unique
) -> None:
    """Of groups that are empty, or never had a member; not of those with members."""
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    topic, left, lone = unique("kept"), unique("left"), unique("lone")
    with start_target(target_name, **settings) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, topic)
        members = {
            unique(f"stays-{protocol}"): consumer_of(
                servers, unique(f"stays-{protocol}"), group_protocol=protocol
            )
            for protocol in ("classic", "consumer")
        }
        leaving, alone = consumer_of(servers, left), consumer_of(servers, lone)
        began_s = time.monotonic()
        for member in (*members.values(), leaving):
            member.subscribe([topic])
            poll_until([member], lambda member=member: owned(member) == {0})
        for member in (*members.values(), leaving, alone):
            member.commit(offsets=[Part(topic, 0, 2)], asynchronous=False)
        leaving.close()
        alone.close()
        readers = {group: consumer_of(servers, group) for group in (*members, left, lone)}

        def committed(group: str) -> int:
            (found,) = readers[group].committed([Part(topic, 0)], TIMEOUT_S)
            return int(found.offset)

        assert {committed(group) for group in readers} == {2}
        poll_until(
            [*members.values()],
            lambda: committed(left) < 0 and committed(lone) < 0,
            timeout_s=180,
        )
        assert time.monotonic() - began_s > 59, "not before their time"
        assert {committed(group) for group in members} == {2}
        admin = admin_of(servers)  # held: the answer dies with the client
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        names = {each.group_id for each in listed.valid}
        assert names.isdisjoint({left, lone})
        assert names >= set(members)
        for consumer in (*members.values(), *readers.values()):
            consumer.close()


@pytest.mark.long
def test_offsets_go_with_a_topic_that_is_deleted_while_nobody_coordinates(unique: Unique) -> None:
    """The coordinator sleeps, and the topic is deleted before another broker takes over."""
    gone, kept, group = unique("gone"), unique("kept"), "g"
    settings = {
        "offsets.topic.num.partitions": 1,
        "offsets.retention.check.interval.ms": 500,
        "broker.session.timeout.ms": 5000,
    }
    with LocalCluster(brokers=3, settings=settings) as cluster:
        servers = cluster.bootstrap_servers
        for topic in (gone, kept):
            create_topic(servers, topic)
        reader = consumer_of(servers, group, socket_timeout_ms=2_000)
        parts = [Part(gone, 0, 3), Part(kept, 0, 4)]
        reader.commit(offsets=parts, asynchronous=False)

        def committed() -> list[int]:
            with contextlib.suppress(KafkaException):  # nobody coordinates
                return [int(each.offset) for each in reader.committed(parts, 5.0)]
            return []

        until(lambda: committed() == [3, 4])
        name = coordinator_name(cluster, group, GROUP)
        cluster.pause(name)
        admin = admin_of(servers)
        admin.delete_topics([gone])[gone].result(TIMEOUT_S)
        until(lambda: committed() == [OFFSET_INVALID, 4], timeout_s=60)
        cluster.resume(name)
        reader.close()
