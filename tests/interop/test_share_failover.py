"""Share groups on three brokers: leaders, coordinators and states move, and nothing is lost."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic
from tests.interop.confluent import admin_of, produce, producer_of
from tests.interop.java_tools import JavaTools
from tests.interop.share_script import Delivered, ShareScript

from headrace.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.java, pytest.mark.long]

Unique = Callable[[str], str]
WAIT_S = 60.0
DEADLINE_S = 180.0
PARTITIONS = 3
EACH = 100
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.heartbeat.interval.ms": 100,
}


def test_each_broker_dies_once_and_every_record_is_accepted_once(
    java: JavaTools, unique: Unique
) -> None:
    topic, group = unique("topic"), unique("group")
    with LocalCluster(brokers=3, settings=SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        new = NewTopic(topic, PARTITIONS, 3)
        admin = admin_of(servers)
        admin.create_topics([new])[topic].result(WAIT_S)
        java.run(
            "kafka-configs",
            *("--bootstrap-server", servers, "--alter", "--entity-type", "groups"),
            *("--entity-name", group, "--add-config", "share.auto.offset.reset=earliest"),
        ).check()
        producer = producer_of(servers)
        for partition in range(PARTITIONS):
            records = [(None, str(number).encode()) for number in range(EACH)]
            assert len(produce(producer, topic, records, partition=partition)) == EACH
        with ShareScript(servers) as script:
            accepted = accept_while_brokers_die(cluster, script, group, topic)
    assert accepted == {(p, offset) for p in range(PARTITIONS) for offset in range(EACH)}


def accept_while_brokers_die(
    cluster: LocalCluster, script: ShareScript, group: str, topic: str
) -> set[tuple[int, int]]:
    names = ("a", "b")
    for name in names:
        # Ten at a time and no more: there is something left for every death.
        limits = {"max_poll_records": "10", "share_acquire_mode": "record_limit"}
        script.open(name, group, topic, request_timeout_ms="5000", **limits)
    accepted: set[tuple[int, int]] = set()
    brokers = sorted(cluster.names("broker"))
    total = PARTITIONS * EACH
    deaths = [total * (n + 1) // (len(brokers) + 1) for n in range(len(brokers))]
    dead: list[str] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(accepted) < total and time.monotonic() < deadline:
        for name in names:
            found = script.poll(name)
            again = accepted & {record.place for record in found}
            assert not again, f"accepted and delivered again: {sorted(again)}"
            if found and deaths and len(accepted) >= deaths[0]:
                deaths.pop(0)
                for each in dead:
                    cluster.start_node(each)
                dead = [brokers.pop(0)]
                cluster.kill(dead[0])
            script.acknowledge(name, found)
            if found:
                accepted |= kept_of(found, script.commit(name))
    assert not deaths, "not every broker died"
    return accepted


def kept_of(found: list[Delivered], told: list[str]) -> set[tuple[int, int]]:
    kept = {int(line.split()[-1]) for line in told if line.startswith("kept")}
    return {record.place for record in found if record.partition in kept}
