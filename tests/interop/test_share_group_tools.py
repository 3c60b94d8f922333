"""Share groups as Kafka's tools and our own command see and change them."""

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.interop.confluent import create_topic, producer_of
from tests.interop.conftest import Target
from tests.interop.java_tools import JavaTools, ToolResult
from tests.interop.nodes import until

from headrace.cli.main import run
from headrace.client.cluster import Cluster
from headrace.client.offsets import coordinator_of
from headrace.testing.cluster import LocalBroker
from headrace.wire.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

pytestmark = pytest.mark.java

Unique = Callable[[str], str]
Tool = Callable[..., ToolResult]
DEADLINE_S = 60.0


@pytest.fixture
def tool(target: Target, java: JavaTools) -> Tool:
    def run(name: str, *arguments: str) -> ToolResult:
        return java.run(name, "--bootstrap-server", target.bootstrap_servers, *arguments)

    return run


@pytest.fixture
def cluster(target: Target) -> Iterator[Cluster]:
    with Cluster(target.bootstrap_servers) as found:
        yield found


class Member:
    """A member that only beats: what it is assigned it never reads."""

    def __init__(self, cluster: Cluster, group: str, topic: str) -> None:
        self._cluster = cluster
        self._group = group
        self._epoch = 0
        self._topic = topic
        self.partitions: list[int] = []

    def beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id="member-1",
            member_epoch=self._epoch,
            subscribed_topic_names=[self._topic] if self._epoch == 0 else None,
        )

        def ask(_: Any) -> ShareGroupHeartbeatResponse:
            connection = coordinator_of(self._cluster, self._group)
            return connection.call(request, ShareGroupHeartbeatResponse)

        answer = self._cluster.retry(ask)
        if answer.error_code == 0:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self.partitions = [
                    index
                    for each in answer.assignment.topic_partitions
                    for index in each.partitions
                ]

    def enter(self) -> None:
        """Beat until there is something to read: Kafka tells it with a later heartbeat."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.partitions:
            assert time.monotonic() < deadline, "was never assigned anything"
            self.beat()
            if not self.partitions:
                time.sleep(0.2)

    def leave(self) -> None:
        self._epoch = -1
        self.beat()


@pytest.fixture
def rig(target: Target, cluster: Cluster, unique: Unique) -> tuple[str, str, Member]:
    """A topic with five records in each of two partitions, the oldest five hours old, the newest
    one hour, and a group with a member."""
    topic, group = unique("topic"), unique("group")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    producer = producer_of(target.bootstrap_servers)
    for number in range(10):
        time_ms = int((time.time() - (5 - number // 2) * 3600) * 1000)
        value = str(number).encode()
        producer.produce(topic, value, partition=number % 2, timestamp=time_ms)
    assert producer.flush(DEADLINE_S) == 0
    member = Member(cluster, group, topic)
    member.enter()
    return topic, group, member


def rows(result: ToolResult, group: str) -> list[list[str]]:
    """The cells of the lines that tell of a group, in the order of their partitions."""
    return sorted(line.split() for line in result.stdout.splitlines() if line.startswith(group))


def offsets(tool: Tool, group: str) -> list[list[str]]:
    shown = tool("kafka-share-groups", "--describe", "--group", group, "--offsets").check()
    return [cells[2:] for cells in rows(shown, group)]


def test_groups_are_listed_and_described(tool: Tool, rig: tuple[str, str, Member]) -> None:
    topic, group, _ = rig
    listed = tool("kafka-share-groups", "--list").check()
    assert group in listed.stdout.split()
    states = tool("kafka-share-groups", "--list", "--state", "Stable").check()
    assert [group, "Stable"] in rows(states, group)
    kinds = tool("kafka-groups", "--list", "--share")
    assert rows(kinds, group) == [[group, "Share", "share"]]
    members = tool(
        "kafka-share-groups", "--describe", "--group", group, "--members", "--verbose"
    ).check()
    ((_, member_id, host, *_, assignment),) = rows(members, group)
    assert (member_id, host, assignment) == ("member-1", "/127.0.0.1", f"{topic}:0,1")
    state = tool("kafka-share-groups", "--describe", "--group", group, "--state").check()
    ((*_, shown, member_count),) = rows(state, group)
    assert (shown, member_count) == ("Stable", "1")
    assert offsets(tool, group) == [["0", "-", "-"], ["1", "-", "-"]]


def test_a_group_in_use_is_left_alone(tool: Tool, rig: tuple[str, str, Member]) -> None:
    topic, group, _ = rig
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    refused = tool("kafka-share-groups", *reset)
    assert f"Share group '{group}' is not empty" in refused.stdout + refused.stderr
    deleted = tool("kafka-share-groups", "--delete", "--group", group)
    assert "is not EMPTY" in deleted.stdout
    forgotten = tool("kafka-share-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" not in forgotten.stdout
    assert offsets(tool, group) == [["0", "-", "-"], ["1", "-", "-"]]


def test_offsets_are_reset_deleted_and_the_group_is_gone(
    tool: Tool, target: Target, rig: tuple[str, str, Member]
) -> None:
    topic, group, member = rig
    member.leave()

    def reset(*arguments: str) -> ToolResult:
        return tool("kafka-share-groups", "--reset-offsets", "--group", group, *arguments).check()

    reset("--topic", f"{topic}:0", "--to-earliest", "--execute")
    assert offsets(tool, group) == [["0", "0", "5"], ["1", "-", "-"]]
    plan = reset("--all-topics", "--to-latest", "--dry-run")
    assert [cells[2:] for cells in rows(plan, group)] == [["0", "5"], ["1", "5"]]
    assert offsets(tool, group)[0] == ["0", "0", "5"], "a plan changes nothing"
    middle = (datetime.now(UTC) - timedelta(hours=2.5)).strftime("%Y-%m-%dT%H:%M:%S.000")
    reset("--all-topics", "--to-datetime", middle, "--execute")
    assert offsets(tool, group) == [["0", "3", "2"], ["1", "3", "2"]]
    if isinstance(target, LocalBroker):
        labels = f'{{group="{group}",partition="1",topic="{topic}"}}'
        target.metrics()  # asks; what is found is told from the next reading on
        until(lambda: target.metrics().get(f"headrace_group_lag_records{labels}") == 2, DEADLINE_S)
        seconds = target.metrics()[f"headrace_group_lag_seconds{labels}"]
        assert seconds == pytest.approx(2 * 3600, abs=300)
    reset("--all-topics", "--to-latest", "--execute")
    assert offsets(tool, group) == [["0", "5", "0"], ["1", "5", "0"]]
    forget = ("--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in tool("kafka-share-groups", *forget).check().stdout
    assert offsets(tool, group) == []
    assert "no offset information to delete" in tool("kafka-share-groups", *forget).stdout
    gone = tool("kafka-share-groups", "--delete", "--group", group).check()
    assert re.search(r"Deletion of requested share groups .* was successful", gone.stdout)
    assert group not in tool("kafka-share-groups", "--list").check().stdout.split()


def test_a_group_may_begin_before_it_has_members(
    tool: Tool, rig: tuple[str, str, Member], unique: Unique
) -> None:
    topic, _, _ = rig
    group = unique("fresh")
    arguments = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest")
    tool("kafka-share-groups", *arguments, "--execute").check()
    assert offsets(tool, group) == [["0", "0", "5"], ["1", "0", "5"]]


def test_a_group_that_nobody_knows(tool: Tool, unique: Unique) -> None:
    described = tool("kafka-share-groups", "--describe", "--group", unique("nobody"))
    assert "GroupIdNotFoundException" in described.stdout


def test_configs_of_a_share_group(tool: Tool, unique: Unique) -> None:
    entity = ("--entity-type", "groups", "--entity-name", unique("group"))
    wanted = ("share.auto.offset.reset=by_duration:PT1H", "share.isolation.level=read_committed")
    tool("kafka-configs", "--alter", *entity, "--add-config", ",".join(wanted)).check()
    shown = tool("kafka-configs", "--describe", *entity).check().stdout
    for each in wanted:
        assert f"  {each} sensitive=false" in shown
    assert "DEFAULT_CONFIG:share.auto.offset.reset=latest" in shown
    for bad in ("share.auto.offset.reset=soon", "share.record.lock.duration.ms=5"):
        refused = tool("kafka-configs", "--alter", *entity, "--add-config", bad)
        assert refused.status != 0
        assert "InvalidConfigurationException" in refused.stderr
    features = tool("kafka-features", "describe").check().stdout
    (share,) = (line for line in features.splitlines() if "share.version" in line)
    assert re.search(r"FinalizedVersionLevel: 1\b", share)


def test_our_own_command(
    target: Target, rig: tuple[str, str, Member], capsys: pytest.CaptureFixture[str]
) -> None:
    topic, group, member = rig

    def headrace(*words: str) -> Any:
        servers = ("--bootstrap-servers", target.bootstrap_servers, "--json")
        capsys.readouterr()
        assert run(["group", *words, *servers]) == 0
        return json.loads(capsys.readouterr().out)

    listed = {each["group"]: each for each in headrace("list", "--type", "share")}
    assert listed[group]["state"] == "Stable"
    described = headrace("describe", group)
    assert (described["type"], described["state"]) == ("share", "Stable")
    assert [each["assignment"] for each in described["members"]] == [{topic: [0, 1]}]
    assert [row["start"] for row in described["partitions"]] == [None, None]
    member.leave()
    changed = headrace("reset", group, "--topic", topic, "--to", "3")
    assert [each["after"] for each in changed["offsets"]] == [3, 3]
    described = headrace("describe", group)
    assert described["lag"] == 4
    assert [(row["start"], row["end"], row["lag"]) for row in described["partitions"]] == [
        (3, 5, 2),
        (3, 5, 2),
    ]
    assert headrace("delete", group) == {"deleted": group}


def test_kafka_reads_what_is_kept_of_a_group(
    target: Target, java: JavaTools, tool: Tool, rig: tuple[str, str, Member]
) -> None:
    topic, group, member = rig
    member.leave()
    arguments = ("--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute")
    tool("kafka-share-groups", *arguments).check()

    def dump(log: str, decoder: str) -> str:
        name = group.encode()
        found = [each for each in target.data.rglob(f"{log}-*/*.log") if name in each.read_bytes()]
        files = ",".join(map(str, found))
        return java.run("kafka-dump-log", f"--{decoder}", "--files", files).check().stdout

    states = dump("__share_group_state", "share-group-state-decoder")
    assert f'"groupId":"{group}"' in states
    assert '"startOffset":5,"deliveryCompleteCount":0' in states, states
    kept = dump("__consumer_offsets", "offsets-decoder")
    ours = [line for line in kept.splitlines() if group in line]
    assert any('"subscribedTopicNames":["' + topic in line for line in ours), kept
    assert any('"initializedTopics":[{' in line for line in ours), kept
    assert any('"assignmentEpoch":' in line for line in ours), kept
