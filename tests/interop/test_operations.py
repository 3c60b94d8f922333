"""Operating a cluster of three brokers: our command line and Kafka's own tools on the same one."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.confluent import admin_of, producer_of
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.cli.main import run
from headrace.client import cluster_changes
from headrace.client.cluster import Cluster
from headrace.client.replica_plan import Move
from headrace.testing.local_cluster import LocalCluster

Unique = Callable[[str], str]
Capture = pytest.CaptureFixture[str]

WAIT_S = 60.0
RATE_BYTES = 400_000
FETCH_BYTES_MAX = 1 << 20
"""A rate is known to be exceeded after the answer that did it."""
VALUE = b"x" * 10_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> AdminClient:
    return admin_of(cluster.bootstrap_servers)


class Cli:
    def __init__(self, cluster: LocalCluster, capture: Capture) -> None:
        self._data = str(cluster.data)
        self._capture = capture

    def __call__(self, *words: str, status: int = 0) -> str:
        self._capture.readouterr()
        code = run([*words, "--data", self._data])
        told = self._capture.readouterr()
        assert code == status, told.err
        return told.out + told.err

    def json(self, *words: str) -> Any:
        self._capture.readouterr()
        assert run([*words, "--data", self._data, "--json"]) == 0
        return json.loads(self._capture.readouterr().out)


@pytest.fixture
def cli(cluster: LocalCluster, capsys: Capture) -> Cli:
    return Cli(cluster, capsys)


def create(admin: AdminClient, topic: str, assignment: list[list[int]]) -> None:
    new = NewTopic(topic, num_partitions=len(assignment), replica_assignment=assignment)
    admin.create_topics([new])[topic].result(WAIT_S)


def replicas_of(admin: AdminClient, topic: str) -> list[list[int]]:
    told = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions
    return [list(told[index].replicas) for index in sorted(told)]


def fill(cluster: LocalCluster, topic: str, partition: int, size: int) -> None:
    producer = producer_of(cluster.bootstrap_servers, acks="all", linger_ms=20)
    for _ in range(size // len(VALUE)):
        producer.produce(topic, VALUE, partition=partition)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def metric(cluster: LocalCluster, node: str, name: str, **labels: str) -> float:
    address = cluster.node(node)["metrics"]
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
    wanted = ",".join(f'{key}="{value}"' for key, value in labels.items())
    pattern = rf"^{name}{re.escape('{' + wanted + '}') if wanted else ''} (\S+)$"
    return sum(float(value) for value in re.findall(pattern, page, re.MULTILINE))


# -- throttled moves by Kafka's own tool ---------------------------------------------------


class Reassigning:
    """`kafka-reassign-partitions` with one file of wishes."""

    def __init__(self, java: JavaTools, cluster: LocalCluster, wishes: Path) -> None:
        self._java, self._cluster, self._wishes = java, cluster, wishes

    def wish(self, topic: str, replicas: list[list[int]]) -> None:
        partitions = [
            {"topic": topic, "partition": index, "replicas": where}
            for index, where in enumerate(replicas)
        ]
        self._wishes.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def __call__(self, *words: str) -> str:
        servers = ("--bootstrap-server", self._cluster.bootstrap_servers)
        file = () if "--list" in words else ("--reassignment-json-file", str(self._wishes))
        return self._java.run("kafka-reassign-partitions", *servers, *file, *words).check().stdout


@pytest.mark.java
def test_a_throttled_move_is_slow_and_is_cancelled_and_verified_by_kafkas_tool(
    cluster: LocalCluster,
    admin: AdminClient,
    unique: Unique,
    java: JavaTools,
    cli: Cli,
    tmp_path: Path,
) -> None:
    topic = unique("throttled")
    create(admin, topic, [[1, 2], [2, 1]])
    for partition in range(2):
        fill(cluster, topic, partition, 8_000_000)
    tool = Reassigning(java, cluster, tmp_path / "wishes.json")
    tool.wish(topic, [[1, 3], [3, 1]])
    began_s = time.monotonic()
    assert "The inter-broker throttle limit was set" in tool(
        "--execute", "--throttle", str(RATE_BYTES)
    )
    until(lambda: len(_throttles_of(cli, topic)) == 2, WAIT_S)
    configs = _throttles_of(cli, topic)
    assert set(configs["leader.replication.throttled.replicas"].split(",")) == {
        "0:1",
        "0:2",
        "1:1",
        "1:2",
    }
    assert set(configs["follower.replication.throttled.replicas"].split(",")) == {"0:3", "1:3"}
    told = tool("--list")
    assert f"{topic}-0: replicas: 1,3,2. adding: 3. removing: 2." in told, told
    assert "still in progress" in tool("--verify", "--preserve-throttles")
    until(lambda: _held(cluster) > 2, WAIT_S)
    size = _copied(cluster, topic)
    allowed = RATE_BYTES * (time.monotonic() - began_s) + 2 * FETCH_BYTES_MAX
    assert size < min(allowed, 15_000_000), "the throttle does not hold"

    assert "Successfully cancelled" in tool("--cancel")
    until(lambda: [set(each) for each in replicas_of(admin, topic)] == [{1, 2}, {1, 2}], WAIT_S)
    assert "No partition reassignments found" in tool("--list")
    until(lambda: not _throttles_of(cli, topic), WAIT_S)
    until(lambda: metric(cluster, "broker-3", *RATE, side="follower") == -1, WAIT_S)

    tool("--execute", "--throttle", str(10**9))
    until(lambda: metric(cluster, "broker-3", *RATE, side="follower") == 10**9, WAIT_S)

    def is_complete() -> bool:
        told = tool("--verify")
        return told.count("is completed") == 2 and "Clearing" in told

    until(is_complete, WAIT_S)
    until(lambda: replicas_of(admin, topic) == [[1, 3], [3, 1]], WAIT_S)
    until(lambda: metric(cluster, "broker-3", *RATE, side="follower") == -1, WAIT_S)
    until(lambda: not _throttles_of(cli, topic), WAIT_S)


RATE = ("headrace_replication_throttle_bytes_per_second",)


def _held(cluster: LocalCluster) -> float:
    name = "headrace_replication_throttled_waits_total"
    return metric(cluster, "broker-3", name, side="follower") + sum(
        metric(cluster, node, name, side="leader") for node in ("broker-1", "broker-2")
    )


def _throttles_of(cli: Cli, topic: str) -> dict[str, str]:
    """As the broker that is asked knows them: it may be a moment behind the controller."""
    configs = _configs_of(cli, topic)
    return {each["config"]: each["value"] for each in configs if "throttled" in each["config"]}


def _configs_of(cli: Cli, topic: str) -> list[dict[str, str]]:
    told = cli.json("topic", "describe", topic)["configs"]
    return [{"config": key, "value": value} for key, value in told.items()]


def _copied(cluster: LocalCluster, topic: str) -> int:
    name = "headrace_log_size_bytes"
    return int(
        sum(metric(cluster, "broker-3", name, partition=str(p), topic=topic) for p in range(2))
    )


# -- cordons -------------------------------------------------------------------------------


@pytest.mark.java
def test_a_cordon_of_either_tool_is_the_others(
    cluster: LocalCluster, admin: AdminClient, unique: Unique, java: JavaTools, cli: Cli
) -> None:
    words = ["--bootstrap-server", cluster.bootstrap_servers, "--entity-type", "brokers"]
    words += ["--entity-name", "3"]
    assert "cordoned" in cli("cluster", "cordon", "3")
    shown = java.run("kafka-configs", *words, "--describe").check().stdout
    assert "cordoned.log.dirs=*" in shown
    topic = unique("elsewhere")
    create_by_count(admin, topic, 4, 2)
    assert {each for where in replicas_of(admin, topic) for each in where} == {1, 2}
    java.run("kafka-configs", *words, "--alter", "--delete-config", "cordoned.log.dirs").check()
    until(lambda: state_of(cli, 3) == "active", WAIT_S)
    java.run("kafka-configs", *words, "--alter", "--add-config", "cordoned.log.dirs=*").check()
    until(lambda: state_of(cli, 3) == "cordoned", WAIT_S)
    assert "cordoned no more" in cli("cluster", "uncordon", "3")
    assert state_of(cli, 3) == "active"


def create_by_count(admin: AdminClient, topic: str, partitions: int, replicas: int) -> None:
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(WAIT_S)


def state_of(cli: Cli, broker_id: int) -> str:
    brokers = cli.json("cluster", "describe")["brokers"]
    return next(str(each["state"]) for each in brokers if each["id"] == broker_id)


# -- our own moves -------------------------------------------------------------------------


def test_a_plan_is_shown_applied_and_then_there_is_nothing_left_to_do(
    cluster: LocalCluster, admin: AdminClient, unique: Unique, cli: Cli
) -> None:
    topic = unique("lopsided")
    create(admin, topic, [[1, 2]] * 6)
    for partition in range(6):
        fill(cluster, topic, partition, 300_000)
    planned = cli.json("cluster", "rebalance", "--plan")
    assert any(move["topic"] == topic for move in planned["moves"])
    assert replicas_of(admin, topic) == [[1, 2]] * 6
    done = cli.json("cluster", "rebalance", "--apply", "--throttle", "100")
    assert done["moved"] == len(planned["moves"])

    def is_as_planned() -> bool:
        """As the broker that is asked knows it: it may be a moment behind the controller."""
        described = cli.json("cluster", "describe")
        return (
            described["moving"] == described["under_replicated"] == described["offline"] == 0
        ) and all(
            told["leaders"] == told["preferred"] == wanted["after"]["leaders"]
            and told["replicas"] == wanted["after"]["replicas"]
            for told, wanted in zip(described["brokers"], planned["brokers"], strict=True)
        )

    until(is_as_planned, WAIT_S)
    assert cli.json("cluster", "rebalance")["moves"] == []
    until(lambda: not _throttles_of(cli, topic), WAIT_S)

    # As if a run had been stopped whose moves have ended since.
    with Cluster(cluster.bootstrap_servers) as client:
        moved = Move(topic, 0, (1, 2), (1, 3), 1)
        cluster_changes.throttle(client, [moved], (1, 2, 3), RATE_BYTES)
    until(lambda: bool(_throttles_of(cli, topic)), WAIT_S)
    until(lambda: metric(cluster, "broker-1", *RATE, side="leader") == RATE_BYTES, WAIT_S)
    assert "an earlier run had left is lifted" in cli("cluster", "rebalance", "--apply")
    until(lambda: not _throttles_of(cli, topic), WAIT_S)
    until(lambda: metric(cluster, "broker-1", *RATE, side="leader") == -1, WAIT_S)
    assert "lifted" not in cli("cluster", "rebalance", "--apply")


def test_what_can_not_be_done_is_said(cli: Cli) -> None:
    assert "not registered" in cli("cluster", "cordon", "9", status=1)
    assert "runs: stop it first" in cli("cluster", "unregister", "3", status=1)
    assert "give one of" in cli("cluster", "rebalance", "--plan", "--apply", status=2)
    assert "--partition needs --topic" in cli("cluster", "elect-leaders", "-p", "0", status=2)
    assert "nothing is on the move" in cli("cluster", "rebalance", "--cancel")


def test_a_decommission_that_leaves_too_few_brokers_changes_nothing(
    admin: AdminClient, unique: Unique, cli: Cli
) -> None:
    topic = unique("everywhere")
    create_by_count(admin, topic, 1, 3)
    # The broker that the command asks may be another one.
    until(lambda: topic in [each["name"] for each in cli.json("topic", "list")], WAIT_S)
    assert "no broker is left" in cli("cluster", "decommission", "3", "--apply", status=1)
    assert state_of(cli, 3) == "active"


def test_a_leader_that_is_not_the_preferred_one_is_replaced(
    cluster: LocalCluster, admin: AdminClient, unique: Unique, cli: Cli
) -> None:
    topic = unique("led")
    create(admin, topic, [[2, 1, 3]])
    cluster.stop_node("broker-2")
    until(lambda: leader_of(admin, topic) != 2, WAIT_S)
    until(lambda: state_of(cli, 2) == "down", WAIT_S)
    cluster.start_node("broker-2")
    until(lambda: isr_of(admin, topic) == {1, 2, 3}, WAIT_S)
    elected = cli.json("cluster", "elect-leaders", "--topic", topic)
    assert elected["failed"] == []
    # Other brokers than the one that was asked learn of it a moment later, as with Kafka.
    until(lambda: leader_of(admin, topic) == 2, WAIT_S)


def leader_of(admin: AdminClient, topic: str) -> int:
    return int(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].leader)


def isr_of(admin: AdminClient, topic: str) -> set[int]:
    return set(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].isrs)
