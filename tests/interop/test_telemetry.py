"""Clients' own metrics: subscribed by Kafka's tool, pushed by librdkafka and Java, shown by us."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.testing.cluster import LocalBroker

pytestmark = pytest.mark.java


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
