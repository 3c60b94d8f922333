"""Three controllers and three brokers as processes, looked at with Kafka's own tools."""

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Part
from confluent_kafka.admin import NewTopic
from tests.interop.confluent import admin_of, consumer_of, producer_of
from tests.interop.java_tools import JavaTools, ToolResult
from tests.interop.nodes import meta, run_headrace, running_node, until

from headrace.node.local_ports import is_free
from headrace.testing.cluster import parse_metrics
from headrace.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.java

Tool = Callable[..., ToolResult]
Unique = Callable[[str], str]

WAIT_S = 60.0
VOTERS = {101, 102, 103}
OBSERVERS = {1, 2, 3}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, controllers=3) as running:
        yield running


@pytest.fixture(params=["--bootstrap-server", "--bootstrap-controller"])
def tool(request: pytest.FixtureRequest, cluster: LocalCluster, java: JavaTools) -> Tool:
    """A tool that asks brokers, or controllers."""
    asks_brokers = request.param == "--bootstrap-server"
    servers = cluster.bootstrap_servers if asks_brokers else cluster.controllers

    def run(name: str, *arguments: str, stdin: str = "") -> ToolResult:
        words = [request.param, servers, *arguments]
        if name == "kafka-cluster":
            words = [*arguments, request.param, servers]  # it wants its command first
        return java.run(name, *words, stdin=stdin).check()

    return run


@pytest.fixture
def broker_tool(cluster: LocalCluster, java: JavaTools) -> Tool:
    def run(name: str, *arguments: str) -> ToolResult:
        return java.run(name, "--bootstrap-server", cluster.bootstrap_servers, *arguments).check()

    return run


def metrics_of(cluster: LocalCluster, name: str) -> dict[str, float]:
    url = f"http://{cluster.node(name)['metrics']}/metrics"
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return parse_metrics(answer.read().decode())


def until_all_know(cluster: LocalCluster) -> None:
    """What was changed is known to every broker: they learn of it a moment after the controllers,
    and a tool may ask any of them."""

    def replayed(role: str) -> list[float]:
        names = cluster.names(role)
        return [metrics_of(cluster, each)["headrace_quorum_high_watermark"] for each in names]

    changed = max(replayed("controller"))
    until(lambda: min(replayed("broker")) >= changed, WAIT_S)


def ids_in(text: str, field: str) -> set[int]:
    (line,) = re.findall(rf"^{field}:\s+(.*)$", text, re.MULTILINE)
    return {int(each) for each in re.findall(r'"id": (\d+)', line)} or {
        int(each) for each in re.findall(r"\d+", line)
    }


def status_of(tool: Tool) -> str:
    return tool("kafka-metadata-quorum", "describe", "--status").stdout


def test_quorum_status(tool: Tool) -> None:
    told = status_of(tool)
    (leader,) = ids_in(told, "LeaderId")
    assert leader in VOTERS
    assert ids_in(told, "CurrentVoters") == VOTERS
    assert ids_in(told, "CurrentObservers") == OBSERVERS
    (watermark,) = ids_in(told, "HighWatermark")
    assert watermark > 0
    (epoch,) = ids_in(told, "LeaderEpoch")
    assert epoch >= 1


def test_quorum_replication(tool: Tool) -> None:
    told = tool("kafka-metadata-quorum", "describe", "--replication").stdout
    rows = [line.split() for line in told.splitlines() if re.match(r"\d", line)]
    status = {int(row[0]): row[-1] for row in rows}
    assert set(status) == VOTERS | OBSERVERS
    assert sorted(status[each] for each in VOTERS) == ["Follower", "Follower", "Leader"]
    assert {status[each] for each in OBSERVERS} == {"Observer"}


def test_features(tool: Tool) -> None:
    told = tool("kafka-features", "describe").stdout
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: 4\.3-IV0", told)
    assert re.search(r"Feature: kraft.version\s.*SupportedMaxVersion: 1", told)


def test_a_feature_goes_down_and_up_again(cluster: LocalCluster, broker_tool: Tool) -> None:
    def level() -> int:
        told = broker_tool("kafka-features", "describe").stdout
        (line,) = (line for line in told.splitlines() if "transaction.version" in line)
        found = re.search(r"FinalizedVersionLevel: (\d+)", line)
        assert found is not None, line
        return int(found[1])

    assert level() == 2
    broker_tool("kafka-features", "downgrade", "--feature", "transaction.version=1")
    until_all_know(cluster)
    assert level() == 1
    planned = ("upgrade", "--feature", "transaction.version=2", "--dry-run")
    assert "can be upgraded to 2" in broker_tool("kafka-features", *planned).stdout
    assert level() == 1, "a plan changes nothing"
    broker_tool("kafka-features", "upgrade", "--feature", "transaction.version=2")
    until_all_know(cluster)
    assert level() == 2


def test_cluster_id(tool: Tool, cluster: LocalCluster) -> None:
    told = tool("kafka-cluster", "cluster-id").stdout
    properties = (cluster.data / "broker-1" / "log" / "meta.properties").read_text()
    (cluster_id,) = re.findall(r"cluster\.id=(\S+)", properties)
    assert cluster_id in told


def test_endpoints(tool: Tool, cluster: LocalCluster, request: pytest.FixtureRequest) -> None:
    told = tool("kafka-cluster", "list-endpoints").stdout
    asks_controllers = "--bootstrap-controller" in request.node.name
    expected = cluster.controllers if asks_controllers else cluster.bootstrap_servers
    for address in expected.split(","):
        assert re.search(rf"{address.rpartition(':')[2]}", told), told


def test_topics_through_any_broker_are_seen_by_all(
    cluster: LocalCluster, java: JavaTools, unique: Unique
) -> None:
    servers = cluster.bootstrap_servers.split(",")
    topics = [unique(f"any-{index}") for index in range(len(servers))]
    for server, topic in zip(servers, topics, strict=True):
        words = ("--create", "--topic", topic, "--partitions", "6")
        java.run("kafka-topics", "--bootstrap-server", server, *words).check()
    until_all_know(cluster)
    for server in servers:
        for topic in topics:
            words = ("--describe", "--topic", topic)
            told = java.run("kafka-topics", "--bootstrap-server", server, *words).check().stdout
            leaders = re.findall(r"Leader: (\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]+)", told)
            assert len(leaders) == 6
            assert {int(leader) for leader, _, _ in leaders} == OBSERVERS
            for leader, replicas, isr in leaders:
                assert replicas.split(",")[0] == leader
                assert set(replicas.split(",")) == set(isr.split(",")) == set(map(str, OBSERVERS))


def lags(cluster: LocalCluster, group: str) -> list[dict[str, float]]:
    """The series of a group's lag as each broker tells them."""
    pages = []
    for name in cluster.names("broker"):
        samples = metrics_of(cluster, name)
        mine = re.compile(rf'headrace_group_lag_\w+{{group="{group}"')
        pages.append({name: value for name, value in samples.items() if mine.match(name)})
    return pages


@pytest.mark.long
def test_the_coordinator_tells_the_lag_of_partitions_that_live_elsewhere(
    cluster: LocalCluster, broker_tool: Tool, unique: Unique
) -> None:
    """Three partitions, each on one broker alone; groups stand at their second records."""
    topic, readers, workers = unique("scattered"), unique("readers"), unique("workers")
    servers = cluster.bootstrap_servers
    new = NewTopic(topic, 3, replica_assignment=[[1], [2], [3]])
    admin = admin_of(servers)
    admin.create_topics([new])[topic].result(WAIT_S)
    producer = producer_of(servers)
    for number in range(15):
        hours_ago = 5 - number // 3
        time_ms = int((time.time() - hours_ago * 3600) * 1000)
        producer.produce(topic, b"v", partition=number % 3, timestamp=time_ms)
    assert producer.flush(WAIT_S) == 0
    reader = consumer_of(servers, readers)
    reader.commit(offsets=[Part(topic, index, 1) for index in range(3)], asynchronous=False)
    reader.close()
    reset = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    broker_tool("kafka-share-groups", "--group", workers, *reset)
    for group, records, hours in ((readers, 4, 4), (workers, 5, 5)):
        told = until(lambda group=group: complete(lags(cluster, group), 6), WAIT_S)  # type: ignore[misc]
        assert sorted(told.values()) == [
            *[records] * 3,
            *[pytest.approx(hours * 3600, abs=300)] * 3,
        ]


def complete(pages: list[dict[str, float]], count: int) -> dict[str, float] | None:
    """What one broker, and only one, tells of a group, once it tells all."""
    telling = [page for page in pages if page]
    return telling[0] if len(telling) == 1 and len(telling[0]) == count else None


def test_leader_election(cluster: LocalCluster, broker_tool: Tool, unique: Unique) -> None:
    topic = unique("elect")
    broker_tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3")
    until_all_know(cluster)
    words = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    told = broker_tool("kafka-leader-election", *words)
    assert "Valid replica already elected for partitions" in told.stdout + told.stderr


def test_configs_by_controllers_reach_brokers(
    cluster: LocalCluster, tool: Tool, broker_tool: Tool
) -> None:
    entity = ("--entity-type", "brokers", "--entity-default")
    tool("kafka-configs", *entity, "--alter", "--add-config", "log.retention.ms=123456789")
    until_all_know(cluster)
    told = broker_tool("kafka-configs", *entity, "--describe").stdout
    assert "log.retention.ms=123456789" in told
    tool("kafka-configs", *entity, "--alter", "--delete-config", "log.retention.ms")


def test_no_reassignments_are_under_way(tool: Tool) -> None:
    told = tool("kafka-reassign-partitions", "--list").stdout
    assert "No partition reassignments found" in told


def test_a_controller_is_added_and_removed(
    cluster: LocalCluster, tool: Tool, tmp_path: Path
) -> None:
    node_id, data = 104, tmp_path / "controller-4"
    port = next(p for p in range(18_000, 19_000) if is_free(p))
    shape = ["--data", str(data), "--node-id", str(node_id)]
    cluster_id = meta(cluster.data / "broker-1" / "log")["cluster.id"]
    words = ["--cluster-id", cluster_id, "--roles", "controller", "--no-initial-controllers"]
    run_headrace("storage", "format", *shape, *words)
    servers = ["--set", f"controller.quorum.bootstrap.servers={cluster.controllers}"]
    listen = ["--listen", f"127.0.0.1:{port}"]
    with running_node(tmp_path / "log", "controller", *shape, *listen, *servers):
        directory_id = meta(data / "log")["directory.id"]
        until(lambda: node_id in ids_in(status_of(tool), "CurrentObservers"))
        config = tmp_path / "controller.properties"
        config.write_text(
            f"node.id={node_id}\nprocess.roles=controller\nlog.dirs={data / 'log'}\n"
            f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.bootstrap.servers={cluster.controllers}\n"
        )
        tool("kafka-metadata-quorum", "--command-config", str(config), "add-controller")
        assert ids_in(status_of(tool), "CurrentVoters") == {*VOTERS, node_id}
        named = ("--controller-id", str(node_id), "--controller-directory-id", directory_id)
        tool("kafka-metadata-quorum", "remove-controller", *named)
        assert ids_in(status_of(tool), "CurrentVoters") == VOTERS


def test_a_broker_that_is_down_can_be_unregistered(cluster: LocalCluster, java: JavaTools) -> None:
    name = "broker-3"
    cluster.stop_node(name)
    remaining = ",".join(cluster.bootstrap_servers.split(",")[:2])
    words = ("unregister", "--bootstrap-server", remaining, "--id", "3")
    told = java.run("kafka-cluster", *words).check()
    assert "Broker 3 is no longer registered" in told.stdout
    again = java.run("kafka-cluster", *words)
    assert again.status != 0
    cluster.start_node(name)
    until_all_know(cluster)
    words = ("list-endpoints", "--bootstrap-server", remaining)
    assert len(java.run("kafka-cluster", *words).check().stdout.splitlines()) >= 4
