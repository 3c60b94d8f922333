"""Quotas set by Kafka's own tool, and held against librdkafka."""

import contextlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.confluent import TIMEOUT_S, consume, create_topic, produce, producer_of
from tests.interop.java_tools import JavaTools

from headrace.client.cluster import Cluster
from headrace.testing.cluster import LocalBroker
from headrace.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)

pytestmark = pytest.mark.java

TOPIC = "limited"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    # A window of two seconds: what was used is soon forgotten, and the test soon done.
    settings = {"quota.window.num": "3", "quota.window.size.seconds": "1"}
    with LocalBroker(settings=settings) as started:
        create_topic(started.bootstrap_servers, TOPIC)
        yield started


def configs(java: JavaTools, broker: LocalBroker, *arguments: str) -> str:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    return java.run("kafka-configs", *servers, *arguments).check().stdout


@contextlib.contextmanager
def quota(
    cluster: Cluster, entity: dict[str, str | None], key: str, value: float
) -> Iterator[None]:
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]

    def alter(*, remove: bool) -> None:
        op = OpData(key=key, value=value, remove=remove)
        request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=[op])])
        (entry,) = cluster.call(request, AlterClientQuotasResponse).entries
        assert entry.error_code == 0, entry.error_message

    alter(remove=False)
    try:
        yield
    finally:
        alter(remove=True)


def test_the_tool_sets_tells_and_removes(java: JavaTools, broker: LocalBroker) -> None:
    user = ("--entity-type", "users", "--entity-name", "alice")
    default = ("--entity-type", "clients", "--entity-default")
    configs(java, broker, "--alter", *user, "--add-config", "producer_byte_rate=1024")
    configs(java, broker, "--alter", *default, "--add-config", "request_percentage=250")
    configs(java, broker, "--alter", *user, *default, "--add-config", "consumer_byte_rate=2048")
    told = configs(java, broker, "--describe", "--entity-type", "users")
    assert "producer_byte_rate=1024.0" in told
    assert "alice" in told
    told = configs(java, broker, "--describe", *default)
    assert "request_percentage=250.0" in told
    told = configs(java, broker, "--describe", *user, *default)
    assert "consumer_byte_rate=2048.0" in told
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    configs(java, broker, "--alter", *address, "--add-config", "connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in configs(java, broker, "--describe", *address)
    for entity, key in (
        (user, "producer_byte_rate"),
        (default, "request_percentage"),
        ((*user, *default), "consumer_byte_rate"),
        (address, "connection_creation_rate"),
    ):
        configs(java, broker, "--alter", *entity, "--delete-config", key)
    assert "byte_rate" not in configs(java, broker, "--describe", "--entity-type", "users")


def test_a_producer_and_a_consumer_are_held_to_their_rates(
    java: JavaTools, broker: LocalBroker
) -> None:
    servers, quota = broker.bootstrap_servers, 200_000
    client = ("--entity-type", "clients", "--entity-name", "slow")
    rates = f"producer_byte_rate={quota},consumer_byte_rate={quota}"
    configs(java, broker, "--alter", *client, "--add-config", rates)
    throttled: list[float] = []
    settings = {
        "bootstrap.servers": servers,
        "client.id": "slow",
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    producer = Producer({**settings, "batch.size": 20_000, "linger.ms": 1})
    started_s = time.monotonic()
    records = [(b"k", bytes(1000)) for _ in range(1000)]
    produce(producer, TOPIC, records)
    took_s = time.monotonic() - started_s
    assert took_s > 1.5, f"1 MB at 0.2 MB/s, with a burst of two seconds, took {took_s} s"
    assert max(throttled, default=0) > 0
    throttled.clear()
    reading = {
        "group.id": "slow",
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": 90_000,
    }
    reader = Consumer({**settings, **reading})
    reader.subscribe([TOPIC])
    started_s = time.monotonic()
    consume(reader, 1000, timeout_s=3 * TIMEOUT_S)
    took_s = time.monotonic() - started_s
    reader.close()
    assert took_s > 1.5, f"1 MB at 0.2 MB/s, with a burst of two seconds, took {took_s} s"
    assert max(throttled, default=0) > 0
    assert broker.metrics()["headrace_throttled_requests_total"] > 0
    fast = producer_of(servers, client_id="fast")
    started_s = time.monotonic()
    produce(fast, TOPIC, records)
    assert time.monotonic() - started_s < 2.0 + took_s, "others are not held back"


def test_the_default_of_users_binds_whoever_has_none_of_its_own(broker: LocalBroker) -> None:
    """All clients are one user here: nobody says who he is."""
    throttled: list[float] = []
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "anybody",
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    records = [(b"k", bytes(1000)) for _ in range(300)]
    with (
        Cluster(broker.bootstrap_servers) as cluster,
        quota(cluster, {"user": None}, "producer_byte_rate", 100_000.0),
    ):
        producer = Producer({**settings, "batch.size": 20_000, "linger.ms": 1})
        produce(producer, TOPIC, records)
        assert max(throttled, default=0) > 0
    throttled.clear()
    produce(Producer(settings), TOPIC, records[:10])
    assert not any(throttled), "the quota is gone"


def test_mutations_above_their_rate_make_an_admin_client_wait(broker: LocalBroker) -> None:
    """A burst of three seconds is free; what comes behind it waits until it is paid for."""
    with (
        Cluster(broker.bootstrap_servers) as cluster,
        quota(cluster, {"user": None}, "controller_mutation_rate", 2.0),
    ):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        before = broker.metrics()["headrace_throttled_requests_total"]
        first = admin.create_topics([NewTopic("burst", 10, 1)], request_timeout=TIMEOUT_S)
        first["burst"].result(TIMEOUT_S)
        started_s = time.monotonic()
        second = admin.create_topics([NewTopic("more", 1, 1)], request_timeout=TIMEOUT_S)
        second["more"].result(TIMEOUT_S)
        took_s = time.monotonic() - started_s
        # librdkafka asks in an older version, which knows no refusal: its connection is muted.
        assert took_s > 1.0, f"four above a burst of six, at two a second, took {took_s} s"
        assert broker.metrics()["headrace_throttled_requests_total"] > before


def test_the_time_of_requests_above_its_share_makes_a_producer_wait(broker: LocalBroker) -> None:
    """A ten-thousandth of one thread: soon used up by requests of one record each."""
    throttled: list[float] = []
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "busy",
        "linger.ms": 0,
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    with (
        Cluster(broker.bootstrap_servers) as cluster,
        quota(cluster, {"client-id": "busy"}, "request_percentage", 0.01),
    ):
        before = broker.metrics()["headrace_throttled_requests_total"]
        producer = Producer(settings)
        deadline_s = time.monotonic() + TIMEOUT_S
        while not any(throttled):
            assert time.monotonic() < deadline_s, "never held back"
            producer.produce(TOPIC, b"v", b"k")
            assert producer.flush(TIMEOUT_S) == 0
        assert broker.metrics()["headrace_throttled_requests_total"] > before
    throttled.clear()
    other = Producer({**settings, "client.id": "idle"})
    produce(other, TOPIC, [(b"k", b"v")] * 20)
    assert not any(throttled), "others are not held back"
