"""Kafka's Java client in groups: cooperative and static members, patterns that the broker
resolves, and groups that move to the new protocol and back while they are read.

All members of the module live in one JVM, each on a thread of its own.
"""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupType
from tests.interop.confluent import TIMEOUT_S, admin_of, create_topic, producer_of
from tests.interop.conftest import Target, start_target
from tests.interop.consumer_script import ConsumerScript
from tests.interop.java_tools import JavaTools
from tests.interop.test_consumer_groups import SETTINGS, type_of

pytestmark = pytest.mark.java

Unique = Callable[[str], str]

PACKAGE = "org.apache.kafka.clients.consumer"
CLASSIC = {
    "group_protocol": "classic",
    "heartbeat_interval_ms": "200",
    "session_timeout_ms": "6000",
}
COOPERATIVE = {**CLASSIC, "partition_assignment_strategy": f"{PACKAGE}.CooperativeStickyAssignor"}
NEW = {"group_protocol": "consumer"}


@pytest.fixture(scope="module")
def target(target_name: str) -> Iterator[Target]:
    """A broker whose consumer groups are quick."""
    with start_target(target_name, **SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def script(target: Target, java: JavaTools) -> Iterator[ConsumerScript]:
    del java  # its jars and classes are there
    with ConsumerScript(target.bootstrap_servers) as running:
        yield running
        # Who is fenced learns of it after another took over its instance id.
        doubled = [line for line in running.doubled() if not line.startswith("static-")]
        assert doubled == [], "a partition had two owners at once"


def test_cooperative_members_keep_what_they_hold(
    target: Target, script: ConsumerScript, unique: Unique
) -> None:
    topic, group = unique("cooperative"), unique("group")
    a, b = unique("a"), unique("b")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    script.open(a, group, topic, **COOPERATIVE)
    script.until_shared(a, parts=4)
    script.told(a)
    before = script.show(a).held
    script.open(b, group, topic, **COOPERATIVE)
    script.until_shared(a, b, parts=4)
    kept, moved = script.show(a).held, script.show(b).held
    assert kept < before
    # Only what moves is let go, and what stays is not assigned again.
    assert script.told(a) == [("revoked", moved)]
    assert script.told(b) == [("assigned", moved)]
    script.close(b)
    script.until_shared(a, parts=4)
    assert script.told(a) == [("assigned", moved)]
    script.close(a)


@pytest.mark.parametrize("settings", [CLASSIC, NEW], ids=["classic", "consumer"])
def test_static_member_comes_back_unnoticed(
    target: Target, script: ConsumerScript, unique: Unique, settings: dict[str, str]
) -> None:
    topic, group = unique("static"), unique("group")
    a, b, rival = unique("a"), unique("b"), unique("rival")
    create_topic(target.bootstrap_servers, topic, partitions=4)
    for name in (a, b):
        script.open(name, group, topic, group_instance_id=name, **settings)
    script.until_shared(a, b, parts=4)
    first, second = script.show(a), script.show(b)
    script.told(a)
    script.close(b)
    script.open(b, group, topic, group_instance_id=b, **settings)
    script.until("it has its partitions back", lambda: script.show(b).held == second.held, b)
    assert script.told(a) == [], "the other member noticed"
    assert script.show(a)[:2] == first[:2], "there was another generation"
    # A second owner of an instance id: the classic protocol fences the first one, the new one
    # turns the second away.
    script.open(rival, group, topic, group_instance_id=b, **settings)
    if settings is CLASSIC:
        script.until("it is fenced", lambda: bool(script.show(b).error), b)
        assert script.show(b).error == "FencedInstanceIdException"
        script.until("it took over", lambda: script.show(rival).held == second.held, rival)
    else:
        script.until("it is refused", lambda: bool(script.show(rival).error), rival)
        assert script.show(rival).error == "UnreleasedInstanceIdException"
        assert script.show(b).held == second.held
        assert script.show(b).error == ""
    for name in (a, b, rival):
        script.close(name)


def test_pattern_is_resolved_by_the_broker_and_assigned_by_range(
    target: Target, script: ConsumerScript, unique: Unique
) -> None:
    group, a, b = unique("group"), unique("a"), unique("b")
    one, other, late, unlike = (unique(f"range-{each}") for each in ("one", "two", "late", "un"))
    create_topic(target.bootstrap_servers, one, partitions=4)
    create_topic(target.bootstrap_servers, other, partitions=4)
    create_topic(target.bootstrap_servers, unlike, partitions=4)
    tag = one.rpartition("-")[2]
    for name in (a, b):
        script.open(
            name, group, f"^range-(one|two|late)-{tag}$", group_remote_assignor="range", **NEW
        )
    script.until_shared(a, b, parts=8)
    # Range: each has a run of neighbours, and the same ones of every topic.
    halves = [{f"{topic}:{p}" for topic in (one, other) for p in run} for run in ((0, 1), (2, 3))]
    assert sorted((script.show(a).held, script.show(b).held), key=sorted) == halves
    admin = admin_of(target.bootstrap_servers)
    described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
    assert described.partition_assignor == "range"
    create_topic(target.bootstrap_servers, late, partitions=2)
    script.until_shared(a, b, parts=10)
    held = script.show(a).held | script.show(b).held
    assert {part.rpartition(":")[0] for part in held} == {one, other, late}
    script.close(a)
    script.close(b)


@pytest.mark.parametrize(
    ("subscription", "settings", "error"),
    [
        ("^(unclosed", {}, "InvalidRegularExpression"),
        ("^fine", {"group_remote_assignor": "nobody"}, "UnsupportedAssignorException"),
    ],
)
def test_what_the_broker_cannot_do_is_told(
    script: ConsumerScript, unique: Unique, subscription: str, settings: dict[str, str], error: str
) -> None:
    name = unique("wrong")
    script.open(name, unique("group"), subscription, **NEW, **settings)
    script.until("it is refused", lambda: bool(script.show(name).error), name)
    assert script.show(name).error == error
    script.close(name)


def test_up_to_the_new_protocol_and_down_again_while_records_flow(
    target: Target, script: ConsumerScript, unique: Unique
) -> None:
    topic, group = unique("moving"), unique("group")
    names = [unique(f"m{number}") for number in range(4)]
    create_topic(target.bootstrap_servers, topic, partitions=4)
    producer = producer_of(target.bootstrap_servers)
    sent: set[str] = set()
    seen: set[str] = set()

    def turn(*members: str) -> None:
        """The members share the topic, and each reads something that was just written."""
        script.until_shared(*members, parts=4)
        fresh: set[str] = set()
        for partition in range(4):
            value = str(len(sent))
            producer.produce(topic, value, partition=partition)
            sent.add(value)
            fresh.add(value)
        assert producer.flush(TIMEOUT_S) == 0

        def is_read() -> bool:
            seen.update(value for name in members for value in script.values(name))
            return fresh <= seen

        script.until("what was written is read", is_read, *members)

    def leave(name: str) -> None:
        seen.update(script.values(name))
        script.close(name)

    script.open(names[0], group, topic, **COOPERATIVE)
    turn(names[0])
    script.open(names[1], group, topic, **COOPERATIVE)
    turn(*names[:2])
    assert type_of(target, group) is ConsumerGroupType.CLASSIC
    script.open(names[2], group, topic, **NEW)
    turn(*names[:3])
    assert type_of(target, group) is ConsumerGroupType.CONSUMER
    leave(names[0])
    turn(*names[1:3])
    leave(names[1])
    turn(names[2])
    assert type_of(target, group) is ConsumerGroupType.CONSUMER
    script.open(names[3], group, topic, **COOPERATIVE)
    turn(*names[2:])
    leave(names[2])
    turn(names[3])
    assert type_of(target, group) is ConsumerGroupType.CLASSIC
    assert script.show(names[3]).error == ""
    leave(names[3])
    assert seen == sent
