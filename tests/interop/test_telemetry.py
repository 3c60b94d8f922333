"""Clients' own metrics: subscribed by Kafka's tool, pushed by librdkafka and Java, shown by us."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.testing.cluster import LocalBroker

pytestmark = pytest.mark.java

WAIT_S = 30.0
PUSHES = 'headrace_requests_total{api="PushTelemetry"}'


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as started:
        yield started


def metrics_tool(java: JavaTools, broker: LocalBroker, *arguments: str) -> str:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    return java.run("kafka-client-metrics", *servers, *arguments).check().stdout


def test_a_subscription_is_pushed_to_and_shown(java: JavaTools, broker: LocalBroker) -> None:
    subscription = ("--name", "all", "--metrics", "*", "--interval", "200")
    metrics_tool(java, broker, "--alter", *subscription)
    assert "all" in metrics_tool(java, broker, "--list")
    assert "interval.ms=200" in metrics_tool(java, broker, "--describe", "--name", "all")
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "told",
            "enable.metrics.push": True,
        }
    )
    producer.produce("events", b"v")
    producer.flush(20)

    def is_shown() -> bool:
        producer.poll(0.05)
        return any(
            name.startswith("headrace_client_metric{") and 'client_id="told"' in name
            for name in broker.metrics()
        )

    until(is_shown)
    producer.close()  # from here on nobody pushes but Java, which does so when it ends
    before = broker.metrics()[PUSHES]
    words = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "events")

    def java_pushes() -> bool:
        """One that ends before it has heard of the subscription has nothing to push."""
        java.run("kafka-console-producer", *words, stdin="v\n").check()
        return broker.metrics()[PUSHES] > before

    until(java_pushes)
    assert broker.metrics()["headrace_telemetry_refused_total"] == 0
    metrics_tool(java, broker, "--delete", "--name", "all")
    assert "all" not in metrics_tool(java, broker, "--list").split()


def test_kafka_configs_lists_and_alters_what_is_dynamic(
    java: JavaTools, broker: LocalBroker
) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)

    def configs(*arguments: str) -> str:
        return java.run("kafka-configs", *servers, *arguments).check().stdout

    every = ("--entity-type", "brokers", "--entity-default")
    one = ("--entity-type", "brokers", "--entity-name", "1")
    configs("--alter", *every, "--add-config", "log.cleaner.backoff.ms=2000")
    configs("--alter", *one, "--add-config", "log.cleaner.backoff.ms=1000")
    assert "log.cleaner.backoff.ms=2000" in configs("--describe", *every)
    told = configs("--describe", *one)
    assert "log.cleaner.backoff.ms=1000" in told
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.backoff.ms=2000" in told
    configs("--alter", *one, "--delete-config", "log.cleaner.backoff.ms")
    refused = java.run(
        "kafka-configs", *servers, "--alter", *one, "--add-config", "process.roles=broker"
    )
    assert "process.roles" in refused.stdout + refused.stderr
    assert "process.roles" not in configs("--describe", *one)
    fetchers = java.run(
        "kafka-configs", *servers, "--alter", *every, "--add-config", "num.replica.fetchers=4"
    )
    assert "Cannot update these configs dynamically" in fetchers.stdout + fetchers.stderr


def test_max_connections_counts_from_when_it_is_altered(broker: LocalBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def allow(count: int) -> None:
        entry = ConfigEntry(
            "max.connections", str(count), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)

    def refused() -> float:
        return broker.metrics()["headrace_connections_refused_total"]

    allow(1_000)
    before = refused()
    with contextlib.ExitStack() as opened:

        def connect(count: int) -> None:
            for _ in range(count):
                opened.enter_context(socket.create_connection(broker.address, WAIT_S))

        connect(12)
        until(lambda: broker.metrics()["headrace_connections"] >= 12)
        assert refused() == before
        allow(5)  # on the connection that is there
        connect(3)
        until(lambda: refused() == before + 3)
        allow(1_000)
        connect(3)
        until(lambda: broker.metrics()["headrace_connections"] >= 15)
        assert refused() == before + 3
