"""Share groups (KIP-932) with Kafka's own share consumer and the tools made of it."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.interop.confluent import create_topic, producer_of
from tests.interop.conftest import Target, start_target
from tests.interop.java_tools import JavaTools, ToolResult
from tests.interop.share_script import Delivered, ShareScript

pytestmark = pytest.mark.java

Unique = Callable[[str], str]
Console = Callable[..., list[tuple[int, str]]]

SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def target(target_name: str) -> Iterator[Target]:
    with start_target(target_name, **SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def script(target: Target, java: JavaTools) -> Iterator[ShareScript]:  # noqa: ARG001
    with ShareScript(target.bootstrap_servers) as consumers:
        yield consumers


@pytest.fixture
def stage(target: Target, java: JavaTools, unique: Unique) -> tuple[str, str]:
    """A topic with one partition and a group that begins at its start."""
    topic, group = unique("topic"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=1)
    configure(java, target, group, "share.auto.offset.reset=earliest")
    return topic, group


def configure(java: JavaTools, target: Target, group: str, *configs: str) -> ToolResult:
    where = ("--bootstrap-server", target.bootstrap_servers, "--alter", "--entity-type", "groups")
    added = ("--entity-name", group, "--add-config", ",".join(configs))
    return java.run("kafka-configs", *where, *added).check()


def produce(target: Target, topic: str, count: int, *, batch_size: int = 10) -> None:
    """Values are numbers; a flush ends each batch."""
    producer = producer_of(target.bootstrap_servers, linger_ms=1000)
    for number in range(count):
        producer.produce(topic, value=str(number), partition=0)
        if (number + 1) % batch_size == 0:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


def offsets(records: list[Delivered]) -> list[int]:
    return [record.offset for record in records]


@pytest.fixture
def console(target: Target, java: JavaTools) -> Console:
    """Runs kafka-console-share-consumer; the delivery count and value of each record it saw."""

    def run(
        topic: str, group: str, *arguments: str, timeout_ms: int = 20_000
    ) -> list[tuple[int, str]]:
        where = ("--bootstrap-server", target.bootstrap_servers, "--topic", topic)
        told = java.run(
            "kafka-console-share-consumer",
            *where,
            *("--group", group, "--timeout-ms", str(timeout_ms)),
            *("--formatter-property", "print.delivery=true"),
            *arguments,
        ).stdout
        found = re.findall(r"^Delivery:(\d+)\t(.*)$", told, re.MULTILINE)
        return [(int(count), value) for count, value in found]

    return run


# -- the console consumer ------------------------------------------------------------------------


def test_the_console_consumer_accepts(
    target: Target, stage: tuple[str, str], console: Console
) -> None:
    topic, group = stage
    produce(target, topic, 30)
    seen = console(topic, group, "--max-messages", "30")
    assert seen == [(1, str(number)) for number in range(30)]
    produce(target, topic, 1)
    assert console(topic, group, "--max-messages", "1") == [(1, "0")]


def test_the_console_consumer_releases_and_rejects(
    target: Target, stage: tuple[str, str], console: Console
) -> None:
    topic, group = stage
    produce(target, topic, 10)
    released = console(topic, group, "--release", "--max-messages", "10")
    assert released == [(1, str(number)) for number in range(10)]
    rejected = console(topic, group, "--reject", "--max-messages", "10")
    assert sorted(rejected) == sorted((2, str(number)) for number in range(10))
    produce(target, topic, 1)
    assert console(topic, group, "--max-messages", "1") == [(1, "0")]


def test_aborted_records_are_for_nobody_where_a_group_says_so(
    target: Target, stage: tuple[str, str], java: JavaTools, console: Console
) -> None:
    topic, group = stage
    configure(java, target, group, "share.isolation.level=read_committed")
    words = ["init"]
    for number, end in enumerate(["abort", "commit", "abort", "commit"]):
        words += ["begin", f"send:{topic}:0:{end}-{number}", end]
    java.run("TransactionScript", target.bootstrap_servers, topic, "60000", *words).check()
    seen = console(topic, group, "--max-messages", "2")
    assert seen == [(1, "commit-1"), (1, "commit-3")]


# -- the consumer itself -------------------------------------------------------------------------


def test_two_consumers_share_a_partition(
    target: Target, stage: tuple[str, str], script: ShareScript
) -> None:
    topic, group = stage
    count = 200
    produce(target, topic, count)
    names = [f"{group}-a", f"{group}-b"]
    for name in names:
        script.open(name, group, topic, max_poll_records="10")
    seen: dict[str, list[int]] = {name: [] for name in names}
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, seen.values())) < count and time.monotonic() < deadline:
        for name in names:
            found = script.poll(name, 200)
            script.acknowledge(name, found)
            seen[name] += offsets(found)
            assert set(script.commit(name)) <= {"kept 0"}
    for name in names:
        script.close(name)
    assert sorted(seen[names[0]] + seen[names[1]]) == list(range(count))
    assert all(seen.values()), "one got all"


def test_each_record_may_have_an_end_of_its_own(
    target: Target, stage: tuple[str, str], script: ShareScript
) -> None:
    topic, group = stage
    produce(target, topic, 10)
    script.open(group, group, topic)
    found = script.poll_until(group, lambda records: len(records) == 10)
    kinds = {0: "release", 3: "release", 4: "reject", 9: "release"}
    for record in found:
        script.acknowledge(group, [record], kinds.get(record.offset, "accept"))
    assert script.commit(group) == ["kept 0"]
    again = script.poll_until(group, lambda records: len(records) == 3)
    assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (3, 2), (9, 2)]
    script.acknowledge(group, again)
    assert script.commit(group) == ["kept 0"]
    script.close(group)


def test_a_record_that_nobody_can_take_is_given_up(
    target: Target, stage: tuple[str, str], script: ShareScript
) -> None:
    topic, group = stage
    produce(target, topic, 1)
    script.open(group, group, topic)
    for count in range(1, 6):
        (record,) = script.poll_some(group)
        assert record.delivery_count == count
        script.acknowledge(group, [record], "release")
        assert script.commit(group) == ["kept 0"]
    produce(target, topic, 1)
    (record,) = script.poll_some(group)
    assert (record.offset, record.delivery_count) == (1, 1)
    script.acknowledge(group, [record])
    script.close(group)


def test_a_lock_ends_and_another_gets_the_records(
    target: Target, stage: tuple[str, str], java: JavaTools, script: ShareScript
) -> None:
    topic, group = stage
    configure(java, target, group, "share.record.lock.duration.ms=3000")
    produce(target, topic, 5)
    slow, quick = f"{group}-slow", f"{group}-quick"
    script.open(slow, group, topic)
    held = script.poll_until(slow, lambda records: len(records) == 5)
    script.open(quick, group, topic)
    found = script.poll_until(quick, lambda records: len(records) == 5)
    assert [(record.offset, record.delivery_count) for record in found] == [
        (offset, 2) for offset in range(5)
    ]
    script.acknowledge(slow, held)
    assert script.commit(slow) == ["refused InvalidRecordStateException 0"]
    script.acknowledge(quick, found)
    assert script.commit(quick) == ["kept 0"]
    script.close(slow)
    script.close(quick)


def test_a_lock_may_be_renewed(target: Target, stage: tuple[str, str], script: ShareScript) -> None:
    topic, group = stage
    produce(target, topic, 1)
    script.open(group, group, topic)
    (record,) = script.poll_some(group)
    for _ in range(3):
        script.acknowledge(group, [record], "renew")
        assert script.commit(group) == ["kept 0"]
        (record,) = script.poll_some(group)
        assert record.delivery_count == 1
    script.acknowledge(group, [record])
    assert script.commit(group) == ["kept 0"]
    script.close(group)


def test_a_consumer_dies_and_its_records_come_back(
    target: Target, stage: tuple[str, str], script: ShareScript
) -> None:
    topic, group = stage
    produce(target, topic, 20)
    with ShareScript(target.bootstrap_servers) as doomed:
        doomed.open("doomed", group, topic)
        held = doomed.poll_until("doomed", lambda records: len(records) == 20)
        doomed.acknowledge("doomed", held[:7])
        assert doomed.commit("doomed") == ["kept 0"]
        doomed.kill()
    script.open(group, group, topic)
    found = script.poll_until(group, lambda records: len(records) == 13)
    assert offsets(found) == list(range(7, 20))
    script.acknowledge(group, found)
    assert script.commit(group) == ["kept 0"]
    script.close(group)


def test_who_leaves_gives_the_rest_back(
    target: Target, stage: tuple[str, str], script: ShareScript
) -> None:
    topic, group = stage
    produce(target, topic, 6)
    leaver, stayer = f"{group}-leaver", f"{group}-stayer"
    script.open(leaver, group, topic)
    held = script.poll_until(leaver, lambda records: len(records) == 6)
    script.acknowledge(leaver, held[:2])
    script.close(leaver)
    script.open(stayer, group, topic)
    found = script.poll_until(stayer, lambda records: len(records) == 4)
    assert [(record.offset, record.delivery_count) for record in found] == [
        (offset, 2) for offset in range(2, 6)
    ]
    script.acknowledge(stayer, found)
    script.close(stayer)


# -- the broker dies -----------------------------------------------------------------------------


def test_nothing_is_lost_and_nothing_accepted_comes_again_when_the_broker_dies(
    target_name: str, java: JavaTools, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    count = 100
    with start_target(target_name, **SETTINGS) as broker:
        create_topic(broker.bootstrap_servers, topic, partitions=1)
        configure(java, broker, group, "share.auto.offset.reset=earliest")
        produce(broker, topic, count)
        with ShareScript(broker.bootstrap_servers) as script:
            accepted, seen = accept_with_kills(broker, script, topic, group, count)
    assert accepted == set(range(count))
    assert set(seen) == set(range(count))


def accept_with_kills(
    broker: Target, script: ShareScript, topic: str, group: str, count: int
) -> tuple[set[int], Counter[int]]:
    """Accept all, with the broker killed in between while records are held."""
    kills = [50]
    accepted: set[int] = set()
    seen: Counter[int] = Counter()
    script.open("m", group, topic, max_poll_records="10")
    deadline = time.monotonic() + 2 * DEADLINE_S
    while len(accepted) < count and time.monotonic() < deadline:
        found = script.poll("m")
        again = accepted & set(offsets(found))
        assert not again, f"accepted and delivered again: {again}"
        seen.update(offsets(found))
        if kills and len(accepted) >= kills[0] and found:
            kills.pop(0)
            broker.kill()
            broker.start()
        script.acknowledge("m", found)
        if found and script.commit("m") == ["kept 0"]:
            accepted |= set(offsets(found))
    assert not kills
    return accepted, seen


# -- the other tools -----------------------------------------------------------------------------


@pytest.mark.long
def test_the_verifiable_share_consumer(
    target: Target, stage: tuple[str, str], java: JavaTools
) -> None:
    topic, group = stage
    produce(target, topic, 100)
    told = java.run_alone(
        "kafka-verifiable-share-consumer",
        *("--bootstrap-server", target.bootstrap_servers, "--topic", topic),
        *("--group-id", group, "--max-messages", "100", "--verbose"),
    ).stdout
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    seen = [event["offset"] for event in events if event["name"] == "record_data"]
    assert sorted(seen) == list(range(100))
    acknowledged = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert sum(event["count"] for event in acknowledged) == 100
    assert all(event["success"] for event in acknowledged)


def test_the_performance_test(target: Target, stage: tuple[str, str], java: JavaTools) -> None:
    topic, group = stage
    produce(target, topic, 1000, batch_size=100)
    told = java.run(
        "kafka-share-consumer-perf-test",
        *("--bootstrap-server", target.bootstrap_servers, "--topic", topic),
        *("--group", group, "--num-records", "1000", "--timeout", "20000", "--hide-header"),
    ).check()
    assert ", 1000, " in told.stdout, told.stdout
