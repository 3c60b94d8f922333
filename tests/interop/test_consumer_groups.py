"""Consumer groups of the new protocol (KIP-848): librdkafka and the Java clients, alone and with
members of the classic protocol beside them.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import NewPartitions
from tests.interop.confluent import (
    TIMEOUT_S,
    admin_of,
    consumer_of,
    create_topic,
    poll_until,
    produce,
    producer_of,
)
from tests.interop.conftest import Target, start_target
from tests.interop.java_tools import TOOLS, JavaTools, ToolResult, java_command
from tests.interop.test_confluent_groups import is_shared, owned

from headrace.testing.cluster import LocalBroker

Unique = Callable[[str], str]
Tool = Callable[..., ToolResult]

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def target(target_name: str) -> Iterator[Target]:
    """A broker whose consumer groups are quick, of whatever kind."""
    with start_target(target_name, **SETTINGS) as broker:
        yield broker


@pytest.fixture
def tool(target: Target, java: JavaTools) -> Tool:
    def run(name: str, *arguments: str, stdin: str = "") -> ToolResult:
        servers = ("--bootstrap-server", target.bootstrap_servers)
        return java.run(name, *servers, *arguments, stdin=stdin).check()

    return run


def member(target: Target, group: str, **settings: object) -> Consumer:
    return consumer_of(target.bootstrap_servers, group, group_protocol="consumer", **settings)


def classic(target: Target, group: str, strategy: str = "range") -> Consumer:
    return consumer_of(
        target.bootstrap_servers,
        group,
        partition_assignment_strategy=strategy,
        heartbeat_interval_ms=200,
        session_timeout_ms=6_000,
    )


def type_of(target: Target, group: str) -> ConsumerGroupType:
    admin = admin_of(target.bootstrap_servers)
    listed = admin.list_consumer_groups().result(TIMEOUT_S).valid
    return next(each.type for each in listed if each.group_id == group)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_take_over_and_commit(target: Target, unique: Unique, assignor: str) -> None:
    topic, group = unique("new"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=6)
    producer = producer_of(target.bootstrap_servers)
    produce(producer, topic, [(b"%d" % n, b"%d" % n) for n in range(120)])
    consumers = [member(target, group, group_remote_assignor=assignor) for _ in range(3)]
    try:
        for count in (1, 2, 3):
            consumers[count - 1].subscribe([topic])
            poll_until(consumers[:count], is_shared(consumers[:count], 6))
        admin = admin_of(target.bootstrap_servers)
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert described.type is ConsumerGroupType.CONSUMER
        assert described.partition_assignor == assignor
        assert len(described.members) == 3
        consumers.pop().close()
        poll_until(consumers, is_shared(consumers, 6))
        admin.create_partitions([NewPartitions(topic, 8)])[topic].result(TIMEOUT_S)
        poll_until(consumers, is_shared(consumers, 8))
        consumers[0].commit(
            offsets=[Part(topic, index, 7) for index in owned(consumers[0])], asynchronous=False
        )
        found = consumers[0].committed(consumers[0].assignment(), TIMEOUT_S)
        assert {part.offset for part in found} == {7}
    finally:
        for consumer in consumers:
            consumer.close()
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert described.state is ConsumerGroupState.EMPTY


def test_static_member_comes_back(target: Target, unique: Unique) -> None:
    topic, group = unique("new-static"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    first, second = (member(target, group, group_instance_id=f"i-{n}") for n in range(2))
    revoked: list[Part] = []
    first.subscribe([topic])
    second.subscribe([topic])
    poll_until([first, second], is_shared([first, second], 4))
    second.subscribe([topic], on_revoke=lambda _, parts: revoked.extend(parts))
    held = owned(first)
    first.close()
    again = member(target, group, group_instance_id="i-0")
    again.subscribe([topic])
    poll_until([again, second], lambda: owned(again) == held)
    assert not revoked, "the other member noticed"
    again.close()
    second.close()


def test_pattern_is_resolved_by_the_broker(target: Target, unique: Unique) -> None:
    first, second = unique("pattern-a"), unique("pattern-b")
    create_topic(target.bootstrap_servers, first, partitions=2)
    consumer = member(target, unique("group"))
    tag = first.rpartition("-")[2]
    consumer.subscribe([f"^pattern-.*-{tag}"])
    try:
        poll_until([consumer], lambda: len(consumer.assignment()) == 2)
        create_topic(target.bootstrap_servers, second, partitions=3)
        poll_until([consumer], lambda: len(consumer.assignment()) == 5, 40)
    finally:
        consumer.close()


def test_up_to_the_new_protocol_and_down_again(target: Target, unique: Unique) -> None:
    move_up_and_down(target, unique, "range")


def test_up_and_down_with_cooperative_members(unique: Unique) -> None:
    """On ours alone: on Kafka 4.3 librdkafka's cooperative members do not let go in time."""
    with start_target("headrace", **SETTINGS) as broker:
        move_up_and_down(broker, unique, "cooperative-sticky")


def move_up_and_down(target: Target, unique: Unique, strategy: str) -> None:
    """Members are replaced one by one while records flow: each record is read, none lost."""
    topic, group = unique("moving"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    producer = producer_of(target.bootstrap_servers)
    seen: set[bytes] = set()
    sent = 0
    is_over = False
    consumers: list[Consumer] = []

    def turn(ready: Callable[[], bool]) -> None:
        nonlocal sent
        deadline = time.monotonic() + 40
        while not ready():
            assert time.monotonic() < deadline, [owned(each) for each in consumers]
            if not is_over:
                producer.produce(topic, b"%d" % sent, partition=sent % 4)
                sent += 1
                producer.poll(0)
            for consumer in consumers:
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    seen.add(message.value())

    def add(consumer: Consumer) -> None:
        consumer.subscribe([topic])
        consumers.append(consumer)
        turn(is_shared(consumers, 4))

    try:
        add(classic(target, group, strategy))
        add(classic(target, group, strategy))
        assert type_of(target, group) is ConsumerGroupType.CLASSIC
        add(member(target, group))
        assert type_of(target, group) is ConsumerGroupType.CONSUMER
        consumers.pop(0).close()
        add(member(target, group))
        consumers.pop(0).close()
        turn(is_shared(consumers, 4))
        assert type_of(target, group) is ConsumerGroupType.CONSUMER
        add(classic(target, group, strategy))
        consumers.pop(0).close()
        consumers.pop(0).close()
        turn(is_shared(consumers, 4))
        assert type_of(target, group) is ConsumerGroupType.CLASSIC
        assert producer.flush(TIMEOUT_S) == 0
        is_over = True
        turn(lambda: len(seen) == sent)
    finally:
        for consumer in consumers:
            consumer.close()


def test_group_lives_on_over_a_restart_of_the_broker(unique: Unique) -> None:
    with start_target("headrace", **SETTINGS) as broker:
        topic, group = unique("restart"), unique("group")
        create_topic(broker.bootstrap_servers, topic, partitions=4)
        consumers = [member(broker, group) for _ in range(2)]
        revoked: list[Part] = []
        for consumer in consumers:
            consumer.subscribe([topic], on_revoke=lambda _, parts: revoked.extend(parts))
        poll_until(consumers, is_shared(consumers, 4))
        revoked.clear()
        held = [owned(consumer) for consumer in consumers]
        broker.restart()
        produce(producer_of(broker.bootstrap_servers), topic, [(None, b"x")] * 8)
        poll_until(consumers, lambda: is_shared(consumers, 4)(), 30)
        assert [owned(consumer) for consumer in consumers] == held
        assert not revoked
        for consumer in consumers:
            consumer.close()


# The Java clients and tools


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_full_group_refuses_the_next_member(
    full_groups: LocalBroker, unique: Unique, protocol: str
) -> None:
    topic, group = unique("full"), unique("full-group")
    create_topic(full_groups.bootstrap_servers, topic, partitions=2)
    first, second = (
        consumer_of(full_groups.bootstrap_servers, group, group_protocol=protocol) for _ in range(2)
    )
    try:
        first.subscribe([topic])
        poll_until([first], lambda: len(first.assignment()) == 2)
        second.subscribe([topic])
        errors: list[str] = []

        def is_refused() -> bool:
            first.poll(0.05)
            message = second.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append(str(message.error()))  # in the new protocol the code is _FATAL
            return any("group has reached maximum size" in error for error in errors)

        poll_until([], is_refused)
        assert second.assignment() == []
        assert len(first.assignment()) == 2
    finally:
        second.close()
        first.close()


@pytest.fixture(scope="module")
def full_groups() -> Iterator[LocalBroker]:
    """A broker whose groups have one member at most."""
    sizes = {"group.max.size": "1", "group.consumer.max.size": "1"}
    with LocalBroker(settings={**SETTINGS, **sizes}) as broker:
        yield broker


def create(tool: Tool, topic: str, partitions: int) -> None:
    words = ["--create", "--topic", topic, "--partitions", str(partitions)]
    tool("kafka-topics", *words, "--replication-factor", "1")


@pytest.mark.java
def test_console_consumer_and_the_tools_for_groups(
    target: Target, tool: Tool, unique: Unique, tmp_path: Path
) -> None:
    topic, group = unique("jc"), unique("jc-group")
    create(tool, topic, 1)
    text = "".join(f"line {n}\n" for n in range(10))
    tool("kafka-console-producer", "--topic", topic, stdin=text)
    words = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "10")
    new = ("--command-property", "group.protocol=consumer")
    assert tool("kafka-console-consumer", *words, *new).stdout == text
    listed = tool("kafka-groups", "--list").stdout
    assert re.search(rf"{group}\s+Consumer\s+consumer", listed), listed
    assert group in tool("kafka-groups", "--list", "--consumer").stdout
    assert group in tool("kafka-consumer-groups", "--list", "--type", "consumer").stdout
    assert group not in tool("kafka-consumer-groups", "--list", "--type", "classic").stdout
    _check_resets(tool, group, topic, tmp_path)
    _check_resets_by_time(target, tool, group, unique("jc-aged"))
    held = member(target, group)
    held.subscribe([topic])
    try:
        poll_until([held], lambda: len(held.assignment()) == 1)
        describe = ("--describe", "--group", group)
        members = tool("kafka-consumer-groups", *describe, "--members", "--verbose").stdout
        assert f"{topic}:0" in members, members
        assert "CURRENT-EPOCH" in members
        state = tool("kafka-consumer-groups", *describe, "--state", "--verbose").stdout
        assert re.search(r"uniform\s+Stable\s+\d+\s+\d+\s+1", state), state
    finally:
        held.close()
    tool("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    tool("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tool("kafka-groups", "--list").stdout


def _check_resets(tool: Tool, group: str, topic: str, folder: Path) -> None:
    def reset(*how: str) -> str:
        base = ("--group", group, "--reset-offsets", "--execute")
        out = tool("kafka-consumer-groups", *base, *how).stdout
        return next(line.split()[-1] for line in out.splitlines() if topic in line)

    on_topic = ("--topic", topic)
    assert reset(*on_topic, "--to-latest") == "10"
    assert reset(*on_topic, "--to-earliest") == "0"
    assert reset(*on_topic, "--to-offset", "6") == "6"
    assert reset(*on_topic, "--to-current") == "6"
    assert reset(*on_topic, "--shift-by", "-4") == "2"
    plan = folder / "plan.csv"
    plan.write_text(f"{topic},0,7\n")
    assert reset("--from-file", str(plan)) == "7"


def _check_resets_by_time(target: Target, tool: Tool, group: str, topic: str) -> None:
    """Ten records in each of two partitions, the oldest ten hours old, the newest one hour."""
    create(tool, topic, 2)
    now = datetime.now(UTC)
    producer = producer_of(target.bootstrap_servers)
    for number in range(20):
        at = now - timedelta(hours=10 - number // 2)
        time_ms = int(at.timestamp() * 1000)
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=time_ms)
    assert producer.flush(TIMEOUT_S) == 0

    def reset(*how: str, execute: str = "--execute") -> dict[int, int]:
        base = ("--group", group, "--reset-offsets", execute)
        out = tool("kafka-consumer-groups", *base, *how).stdout
        told = [line.split() for line in out.splitlines() if line.startswith(group)]
        return {int(cells[-2]): int(cells[-1]) for cells in told}

    def at(hours_ago: float) -> str:
        return (now - timedelta(hours=hours_ago)).strftime("%Y-%m-%dT%H:%M:%S.000")

    assert reset("--topic", topic, "--to-datetime", at(7.5)) == {0: 3, 1: 3}
    assert reset("--topic", f"{topic}:1", "--by-duration", "PT4H30M") == {1: 6}
    assert reset("--topic", topic, "--to-datetime", at(0.5)) == {0: 10, 1: 10}
    assert reset("--topic", f"{topic}:0,1", "--by-duration", "PT4H30M") == {0: 6, 1: 6}
    plan = reset("--topic", topic, "--to-earliest", execute="--dry-run")
    assert plan == {0: 0, 1: 0}
    assert reset("--topic", topic, "--to-current") == {0: 6, 1: 6}, "a plan changes nothing"
    if isinstance(target, LocalBroker):
        labels = f'{{group="{group}",partition="1",topic="{topic}"}}'
        samples = target.metrics()
        assert samples[f"headrace_group_lag_records{labels}"] == 4
        assert samples[f"headrace_group_lag_seconds{labels}"] == pytest.approx(4 * 3600, abs=300)


@pytest.mark.java
def test_configs_of_a_group(tool: Tool, java: JavaTools, target: Target, unique: Unique) -> None:
    group = unique("jc-configured")
    entity = ("--entity-type", "groups", "--entity-name", group)
    alter = ("--alter", "--add-config", "consumer.session.timeout.ms=9000")
    tool("kafka-configs", *entity, *alter)
    described = tool("kafka-configs", *entity, "--describe").stdout
    assert "consumer.session.timeout.ms=9000" in described
    assert "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=9000" in described
    tool("kafka-configs", *entity, "--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "9000" not in tool("kafka-configs", *entity, "--describe").stdout
    servers = ("--bootstrap-server", target.bootstrap_servers)
    for wrong in ("consumer.session.timeout.ms=1", "no.such.key=1"):
        refused = java.run("kafka-configs", *servers, *entity, "--alter", "--add-config", wrong)
        assert refused.status == 1
        assert wrong.partition("=")[0] in refused.stdout + refused.stderr


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_verifiable_consumers_rebalance(
    target: Target, tool: Tool, unique: Unique, protocol: str
) -> None:
    """Two JVMs: the second joins, the first dies, every record is read."""
    topic, group = unique("jc-verifiable"), unique("jc-verifiable")
    create(tool, topic, 4)
    produce(producer_of(target.bootstrap_servers), topic, [(None, b"%d" % n) for n in range(400)])
    words = [*java_command(), TOOLS["kafka-verifiable-consumer"]]
    words += ["--bootstrap-server", target.bootstrap_servers, "--topic", topic]
    words += ["--group-id", group, "--group-protocol", protocol, "--reset-policy", "earliest"]
    if protocol == "classic":
        words += ["--session-timeout", "6000"]
    first = _Verifiable([*words, "--verbose"])
    try:
        first.wait_for(lambda: len(first.assigned) == 4)
        second = _Verifiable([*words, "--verbose"])
        try:
            second.wait_for(lambda: len(second.assigned) == 2)
            first.wait_for(lambda: len(first.assigned) == 2)
            assert first.assigned.isdisjoint(second.assigned)
            first.kill()
            second.wait_for(lambda: len(second.assigned) == 4)
            assert len(first.values | second.values) == 400
        finally:
            second.kill()
    finally:
        first.kill()


class _Verifiable:
    """A kafka-verifiable-consumer in a JVM of its own, and what it told so far."""

    def __init__(self, words: list[str]) -> None:
        self._process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self._lines = iter(self._process.stdout)
        self.assigned: set[int] = set()
        self.values: set[str] = set()

    def wait_for(self, is_reached: Callable[[], bool], timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while not is_reached():
            # Heartbeats of the tool's own log keep the lines coming: no read waits for ever.
            assert time.monotonic() < deadline, self.assigned
            line = next(self._lines, None)
            assert line is not None, "the consumer ended"
            if line.startswith("{"):
                self._take(json.loads(line))

    def _take(self, event: dict[str, object]) -> None:
        match event:
            case {"name": "partitions_assigned", "partitions": list(parts)}:
                self.assigned |= {part["partition"] for part in parts}
            case {"name": "partitions_revoked", "partitions": list(parts)}:
                self.assigned -= {part["partition"] for part in parts}
            case {"name": "record_data", "value": str(value)}:
                self.values.add(value)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.mark.java
def test_dump_log_reads_the_records(target: Target, java: JavaTools, unique: Unique) -> None:
    topic, group = unique("dumped"), unique("dumped-group")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    consumer = member(target, group)
    consumer.subscribe([topic])
    poll_until([consumer], lambda: len(consumer.assignment()) == 2)
    consumer.close()
    told = ""
    for log in target.data.rglob("__consumer_offsets-*/*.log"):
        if log.stat().st_size:
            words = ("--offsets-decoder", "--files", str(log))
            told += java.run("kafka-dump-log", *words).check().stdout
    mine = "\n".join(line for line in told.splitlines() if group in line)
    for field in ("epoch", "metadataHash", "assignmentEpoch", "assignmentTimestamp", "memberEpoch"):
        assert re.search(rf'"{field}":-?\d+', mine), mine
    assert f'"subscribedTopicNames":["{topic}"]' in mine, mine
    assert re.search(r'"partitions":\[0,1\],"assignmentEpochs":\[\d+,\d+\]', mine), mine
    assert "Could not decode" not in told
