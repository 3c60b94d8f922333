"""Replicas moved between directories by Kafka's own tools, under load and through a kill -9."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from tests.faults.node_rig import NodeRig, rig_of
from tests.faults.replicas import await_told, is_whole
from tests.interop.confluent import TIMEOUT_S, admin_of, read_all
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

pytestmark = pytest.mark.java

TOPIC = "moved"
RECORDS = 3_000


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeRig]:
    with rig_of(tmp_path_factory.mktemp("rig"), directories=2) as running:
        yield running


def create(rig: NodeRig, topic: str) -> None:
    admin = admin_of(rig.bootstrap_servers)
    new = NewTopic(topic, num_partitions=1, replication_factor=3)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    await_told(rig.addresses(), topic, is_whole)


def produce(rig: NodeRig, topic: str, count: int, first: int = 0) -> list[bytes]:
    producer = Producer({"bootstrap.servers": rig.bootstrap_servers, "enable.idempotence": True})
    values = [f"{number}".encode().ljust(1_000, b"-") for number in range(first, first + count)]
    for value in values:
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return values


def home_of(rig: NodeRig, node_id: int, topic: str) -> Path:
    (home,) = [d for d in rig.nodes[node_id].log_dirs if (d / f"{topic}-0").is_dir()]
    return home


def other_of(rig: NodeRig, node_id: int, topic: str) -> Path:
    home = home_of(rig, node_id, topic)
    return next(each for each in rig.nodes[node_id].log_dirs if each != home)


def plan_of(path: Path, topic: str, replicas: list[int], log_dirs: list[str]) -> Path:
    moved = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    return path


def reassign(java: JavaTools, rig: NodeRig, plan: Path, *words: str) -> str:
    arguments = ["--bootstrap-server", rig.bootstrap_servers]
    arguments += ["--reassignment-json-file", str(plan), *words]
    return java.run("kafka-reassign-partitions", *arguments).check().stdout


def log_dirs_shown(java: JavaTools, rig: NodeRig, topic: str) -> list[tuple[int, str, bool, int]]:
    """What kafka-log-dirs prints: broker, directory, whether it is a future replica, its lag."""
    words = ["--bootstrap-server", rig.bootstrap_servers, "--describe", "--topic-list", topic]
    told = java.run("kafka-log-dirs", *words).check().stdout
    (line,) = [line for line in told.splitlines() if line.startswith("{")]
    return [
        (broker["broker"], directory["logDir"], partition["isFuture"], partition["offsetLag"])
        for broker in json.loads(line)["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    ]


@pytest.mark.long
def test_a_replica_is_moved_by_a_plan_with_log_dirs(
    rig: NodeRig, java: JavaTools, tmp_path: Path
) -> None:
    create(rig, TOPIC)
    sent = produce(rig, TOPIC, RECORDS)
    targets = {node_id: other_of(rig, node_id, TOPIC) for node_id in (1, 2)}
    wanted = [str(targets[1]), str(targets[2]), "any"]
    plan = plan_of(tmp_path / "plan.json", TOPIC, [1, 2, 3], wanted)
    told = reassign(java, rig, plan, "--execute")
    assert told.count("Successfully started moving log directory") == 2, told

    def is_done() -> bool:
        told = reassign(java, rig, plan, "--verify")
        return told.count("Reassignment of replica") == told.count("completed successfully") == 2

    until(is_done, 60)
    for node_id, target in targets.items():
        assert home_of(rig, node_id, TOPIC) == target
    shown = log_dirs_shown(java, rig, TOPIC)
    assert {(broker, path) for broker, path, _, _ in shown} >= {
        (node_id, str(target)) for node_id, target in targets.items()
    }
    assert [row for row in shown if row[2]] == []
    sent += produce(rig, TOPIC, 100, RECORDS)
    assert [message.value() for message in read_all(rig.bootstrap_servers, TOPIC, 1)] == sent
    await_told(rig.addresses(), TOPIC, is_whole)


@pytest.mark.long
def test_a_throttled_move_is_shown_and_outlives_a_kill(
    rig: NodeRig, java: JavaTools, tmp_path: Path
) -> None:
    topic = "killed-while-moved"
    create(rig, topic)
    sent = produce(rig, topic, RECORDS)
    target = other_of(rig, 2, topic)
    plan = plan_of(tmp_path / "plan.json", topic, [1, 2, 3], ["any", str(target), "any"])
    throttle = ["--replica-alter-log-dirs-throttle", "300000"]
    reassign(java, rig, plan, "--execute", *throttle)
    (future,) = [row for row in log_dirs_shown(java, rig, topic) if row[2]]
    assert future[:2] == (2, str(target))
    assert future[3] > 0, "it is behind"
    assert "is still in progress" in reassign(java, rig, plan, "--verify", "--preserve-throttles")
    rig.kill(2)
    assert list(target.glob(f"{topic}-0.*-future")), "void: the move was over"
    assert not (target / f"{topic}-0").exists()
    rig.start(2)
    sent += produce(rig, topic, 100, RECORDS)
    deadline_s = time.monotonic() + 90
    while "completed successfully" not in reassign(java, rig, plan, "--verify"):
        assert time.monotonic() < deadline_s
    assert home_of(rig, 2, topic) == target
    await_told(rig.addresses(), topic, is_whole)
    assert [message.value() for message in read_all(rig.bootstrap_servers, topic, 1)] == sent
    rig.kill(1)
    rig.kill(3)
    rig.start(1)
    rig.start(3)
    led = await_told(rig.addresses(), topic, is_whole)
    assert led[0].isr == frozenset({1, 2, 3})
