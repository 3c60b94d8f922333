"""Consumers that say where they stand read from the replica there (KIP-392)."""

import contextlib
import os
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.confluent import admin_of, consume, consumer_of, produce, producer_of
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import running_node, until

from headrace.base.ids import uuid_text
from headrace.broker.replica_selector import RACK_AWARE
from headrace.testing.cluster import parse_metrics

WAIT_S = 60.0
COUNT = 50
BROKERS = {1, 2, 3}


def free_ports(count: int) -> list[int]:
    """Below the kernel's own range, so that they stay free."""
    found: list[int] = []
    for port in range(17_000, 19_000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                found.append(port)
        if len(found) == count:
            break
    return found


class Racks:
    """Three brokers, each in a rack of its own; the first is the controller too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.controller_port, *ports = free_ports(7)
        self.ports = dict(zip(sorted(BROKERS), ports[:3], strict=True))
        self.metrics_ports = dict(zip(sorted(BROKERS), ports[3:], strict=True))
        self.cluster_id = uuid_text(os.urandom(16))

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def words(self, node_id: int) -> list[str]:
        settings = {
            "cluster.id": self.cluster_id,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "broker.rack": f"rack-{node_id}",
            "replica.selector.class": RACK_AWARE,
            "replica.fetch.wait.max.ms": "50",
        }
        words = ["--data", str(self.directory / f"node-{node_id}"), "--node-id", str(node_id)]
        words += ["--listen", f"127.0.0.1:{self.ports[node_id]}"]
        words += ["--metrics-listen", f"127.0.0.1:{self.metrics_ports[node_id]}"]
        if node_id > 1:
            settings["process.roles"] = "broker"
        else:
            words += ["--controller-listen", f"127.0.0.1:{self.controller_port}"]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    def fetch_count(self, node_id: int) -> float:
        """Fetches that this broker was asked for."""
        url = f"http://127.0.0.1:{self.metrics_ports[node_id]}/metrics"
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            samples = parse_metrics(answer.read().decode())
        return samples.get('headrace_requests_total{api="Fetch"}', 0.0)


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racks]:
    made = Racks(tmp_path_factory.mktemp("racks"))
    with contextlib.ExitStack() as running:
        for node_id in sorted(BROKERS):
            log = made.directory / f"{node_id}.log"
            running.enter_context(running_node(log, "broker", *made.words(node_id)))
        yield made


def written(racks: Racks, admin: AdminClient, topic: str) -> int:
    """Make the topic and fill it; a broker that has a replica and does not lead."""
    created = admin.create_topics([NewTopic(topic, 1, 3)], request_timeout=WAIT_S)
    created[topic].result(WAIT_S)

    def isr() -> set[int]:
        return set(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].isrs)

    until(lambda: isr() == BROKERS, WAIT_S)
    records = [(None, b"%d" % number) for number in range(COUNT)]
    produce(producer_of(racks.bootstrap_servers, acks="all"), topic, records, partition=0)
    leader = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions[0].leader
    return max(BROKERS - {leader})


@pytest.mark.long
def test_librdkafka_reads_where_it_stands(racks: Racks, unique: Callable[[str], str]) -> None:
    topic = unique("near")
    near = written(racks, admin_of(racks.bootstrap_servers), topic)
    before = racks.fetch_count(near)
    reader = consumer_of(
        racks.bootstrap_servers, "unused", client_rack=f"rack-{near}", enable_auto_commit=False
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    read = [message.value() for message in consume(reader, COUNT, WAIT_S)]
    reader.close()
    assert read == [b"%d" % number for number in range(COUNT)]
    assert racks.fetch_count(near) > before


@pytest.mark.long
@pytest.mark.java
def test_javas_consumer_reads_where_it_stands(
    racks: Racks, unique: Callable[[str], str], java: JavaTools
) -> None:
    topic = unique("near")
    near = written(racks, admin_of(racks.bootstrap_servers), topic)
    before = racks.fetch_count(near)
    told = java.run(
        "kafka-console-consumer",
        *("--bootstrap-server", racks.bootstrap_servers, "--topic", topic),
        *("--partition", "0", "--offset", "earliest", "--max-messages", str(COUNT)),
        *("--command-property", f"client.rack=rack-{near}", "--timeout-ms", "30000"),
    ).check()
    assert told.stdout.split() == [str(number) for number in range(COUNT)]
    assert racks.fetch_count(near) > before
