"""Share groups (KIP-932) with librdkafka's share consumer."""

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer
from tests.interop.confluent import PATIENCE, TIMEOUT_S, create_topic, producer_of
from tests.interop.confluent import produce as produce_records
from tests.interop.conftest import Target, start_target

from headrace.client.cluster import Cluster
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Unique = Callable[[str], str]

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
RESOURCE_GROUP = 32


@pytest.fixture(scope="module")
def target(target_name: str) -> Iterator[Target]:
    with start_target(target_name, **SETTINGS) as broker:
        yield broker


@pytest.fixture
def stage(target: Target, unique: Unique) -> tuple[str, str]:
    """A topic with one partition and a group that begins at its start."""
    topic, group = unique("topic"), unique("group")
    create_topic(target.bootstrap_servers, topic)
    configure(target, group, "share.auto.offset.reset", "earliest")
    return topic, group


def configure(target: Target, group: str, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(
        resource_type=RESOURCE_GROUP, resource_name=group, configs=[change]
    )
    with Cluster(target.bootstrap_servers) as cluster:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = cluster.call(request, IncrementalAlterConfigsResponse).responses
    assert answer.error_code == 0, answer.error_message


def produce(target: Target, topic: str, *values: str) -> None:
    records = [(None, value.encode()) for value in values]
    produce_records(producer_of(target.bootstrap_servers), topic, records)


def consumer_of(
    target: Target, group: str, topic: str, mode: str = "explicit", **settings: int
) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "group.id": group,
            "share.acknowledgement.mode": mode,
            **PATIENCE,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    consumer.subscribe([topic])
    return consumer


def take(consumer: ShareConsumer) -> list[Message]:
    """The next records that there are."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        found = consumer.poll(0.5).records()
        assert [message.error() for message in found if message.error()] == []
        if found:
            return found
    return pytest.fail("no records came")


def take_all(consumer: ShareConsumer, count: int, how: AcknowledgeType) -> list[tuple[str, int]]:
    """So many records, each acknowledged like that: their values and delivery counts."""
    seen: list[tuple[str, int]] = []
    while len(seen) < count:
        for message in take(consumer):
            seen.append(told(message))
            consumer.acknowledge(message, how)
        done(consumer)
    assert len(seen) == count
    return sorted(seen)


def done(consumer: ShareConsumer) -> None:
    outcomes = consumer.commit_sync(TIMEOUT_S)
    assert outcomes
    assert set(outcomes.values()) == {None}


def told(message: Message) -> tuple[str, int]:
    return (message.value() or b"").decode(), message.delivery_count() or 0


def test_what_is_accepted_is_done_with(target: Target, stage: tuple[str, str]) -> None:
    """As an application does that says nothing: its next poll accepts the last one's records."""
    topic, group = stage
    produce(target, topic, "a", "b", "c")
    with consumer_of(target, group, topic, "implicit") as consumer:
        seen: list[tuple[str, int]] = []
        while len(seen) < 3:
            seen += map(told, take(consumer))
        assert seen == [("a", 1), ("b", 1), ("c", 1)]
        done(consumer)
    produce(target, topic, "d")
    with consumer_of(target, group, topic, "implicit") as other:
        assert [told(message) for message in take(other)] == [("d", 1)]


def test_each_record_may_have_an_end_of_its_own(target: Target, stage: tuple[str, str]) -> None:
    topic, group = stage
    produce(target, topic, "accepted", "released", "rejected")
    ends = {"accepted": ACCEPT, "released": RELEASE, "rejected": REJECT}
    with consumer_of(target, group, topic) as consumer:
        seen = 0
        while seen < 3:
            for message in take(consumer):
                consumer.acknowledge(message, ends[told(message)[0]])
                seen += 1
            done(consumer)
        assert take_all(consumer, 1, RELEASE) == [("released", 2)]
        produce(target, topic, "next")
        assert take_all(consumer, 2, ACCEPT) == [("next", 1), ("released", 3)]


def test_a_record_is_given_up_after_so_many_deliveries(
    target: Target, stage: tuple[str, str]
) -> None:
    topic, group = stage
    configure(target, group, "share.delivery.count.limit", "2")
    produce(target, topic, "poison")
    with consumer_of(target, group, topic) as consumer:
        assert take_all(consumer, 1, RELEASE) == [("poison", 1)]
        assert take_all(consumer, 1, RELEASE) == [("poison", 2)]
        produce(target, topic, "good")
        assert take_all(consumer, 1, ACCEPT) == [("good", 1)]


def test_a_lock_ends_and_another_gets_the_records(target: Target, stage: tuple[str, str]) -> None:
    topic, group = stage
    configure(target, group, "share.record.lock.duration.ms", "1000")
    produce(target, topic, "a", "b")
    with consumer_of(target, group, topic) as slow, consumer_of(target, group, topic) as quick:
        held = take(slow)
        again = take(quick)
        assert [told(each) for each in again] == [(told(each)[0], 2) for each in held]
        for message in held:
            slow.acknowledge(message, ACCEPT)
        (outcome,) = slow.commit_sync(TIMEOUT_S).values()
        assert outcome is not None, "too late"
        assert outcome.args[0].code() == ErrorCode.INVALID_RECORD_STATE
        for message in again:
            quick.acknowledge(message, RELEASE)


def test_two_consumers_share_one_partition(target: Target, stage: tuple[str, str]) -> None:
    topic, group = stage
    count = 300
    with consumer_of(target, group, topic) as one, consumer_of(target, group, topic) as two:
        for start in range(0, count, 10):
            produce(target, topic, *(str(number) for number in range(start, start + 10)))
        seen: Counter[str] = Counter()
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(seen) < count:
            assert time.monotonic() < deadline_s, f"{len(seen)} of {count} came"
            for consumer in (one, two):
                messages = consumer.poll(0.2).records()
                for message in messages:
                    seen[told(message)[0]] += 1
                    consumer.acknowledge(message, ACCEPT)
                if messages:
                    done(consumer)
    assert seen == Counter(str(number) for number in range(count)), "each once"


@pytest.mark.long
def test_nothing_accepted_comes_again_when_the_broker_dies(
    target_name: str, unique: Unique
) -> None:
    topic, group, count = unique("topic"), unique("group"), 400
    with start_target(target_name, **SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, topic)
        configure(broker, group, "share.auto.offset.reset", "earliest")
        for start in range(0, count, 20):  # whole batches are handed out
            produce(broker, topic, *map(str, range(start, start + 20)))
        accepted: Counter[str] = Counter()
        with (
            consumer_of(broker, group, topic, max_poll_records=20) as one,
            consumer_of(broker, group, topic, max_poll_records=20) as two,
        ):
            deadline_s = time.monotonic() + 5 * TIMEOUT_S
            kills = [count // 3, 2 * count // 3]
            while len(accepted) < count:
                assert time.monotonic() < deadline_s, f"{len(accepted)} of {count} were accepted"
                if kills and len(accepted) >= kills[0]:
                    kills.pop(0)
                    broker.kill()
                    broker.start()
                for consumer in (one, two):
                    accepted.update(_accepted(consumer))
        assert not kills
        assert accepted == Counter(map(str, range(count))), "each was accepted once"


def _accepted(consumer: ShareConsumer) -> list[str]:
    """What it was given now and could accept."""
    messages = [message for message in consumer.poll(0.3).records() if message.error() is None]
    for message in messages:
        consumer.acknowledge(message, ACCEPT)
    if not messages:
        return []
    outcomes = consumer.commit_sync(TIMEOUT_S)
    is_kept = set(outcomes.values()) == {None}
    return [told(message)[0] for message in messages] if is_kept else []
