"""kafka-python: a client of another family, pure Python, with its own codecs and group code."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target

with warnings.catch_warnings():
    # Its schemas are loaded by a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

TIMEOUT_S = 20.0
Unique = Callable[[str], str]


def consumer_of(target: Target, **settings: Any) -> Any:
    return KafkaConsumer(
        bootstrap_servers=target.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        **settings,
    )


def take(consumer: Any, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        # Long enough for a group to be joined: a poll that ends between SyncGroup and its answer
        # leaves this client (3.0.12) in the group without its partitions, for good.
        for batch in consumer.poll(timeout_ms=5_000).values():
            records += batch
    assert len(records) == count, f"{len(records)} of {count} records came"
    return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_codecs(target: Target, unique: Unique, codec: str | None) -> None:
    topic = unique(f"kp-{codec}")
    create_topic(target.bootstrap_servers, topic)
    producer = KafkaProducer(
        bootstrap_servers=target.bootstrap_servers, compression_type=codec, linger_ms=20
    )
    sent = [(f"k{n}".encode(), f"{n}-".encode() * 30, [("h", str(n).encode())]) for n in range(200)]
    futures = [
        producer.send(topic, value=value, key=key, headers=headers, timestamp_ms=1_700_000_000_000)
        for key, value, headers in sent
    ]
    offsets = [future.get(timeout=TIMEOUT_S).offset for future in futures]
    producer.close()
    assert offsets == list(range(200))
    consumer = consumer_of(target)
    consumer.assign([TopicPartition(topic, 0)])
    records = take(consumer, 200)
    assert [(r.key, r.value, list(r.headers)) for r in records] == sent
    assert {r.timestamp for r in records} == {1_700_000_000_000}
    consumer.close()


def test_idempotent_producer(target: Target, unique: Unique) -> None:
    topic = unique("kp-idempotent")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    producer = KafkaProducer(
        bootstrap_servers=target.bootstrap_servers, enable_idempotence=True, acks="all"
    )
    futures = [producer.send(topic, b"%d" % n, partition=n % 2) for n in range(100)]
    for future in futures:
        future.get(timeout=TIMEOUT_S)
    producer.close()
    consumer = consumer_of(target)
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert sorted(int(r.value) for r in take(consumer, 100)) == list(range(100))
    consumer.close()


def test_group_commits_and_continues(target: Target, unique: Unique) -> None:
    topic, group = unique("kp-group"), unique("kp-group")
    create_topic(target.bootstrap_servers, topic)
    producer = KafkaProducer(bootstrap_servers=target.bootstrap_servers)
    for n in range(20):
        producer.send(topic, b"%d" % n)
    producer.close()
    for start in (0, 10):
        consumer = consumer_of(
            target, group_id=group, enable_auto_commit=False, max_poll_records=10
        )
        consumer.subscribe([topic])
        assert [r.offset for r in take(consumer, 10)] == list(range(start, start + 10))
        consumer.commit()
        assert consumer.committed(TopicPartition(topic, 0)) == start + 10
        consumer.close()


def test_offsets_and_times(target: Target, unique: Unique) -> None:
    topic = unique("kp-offsets")
    create_topic(target.bootstrap_servers, topic)
    producer = KafkaProducer(bootstrap_servers=target.bootstrap_servers)
    for n in range(10):
        producer.send(topic, b"v", timestamp_ms=1_700_000_000_000 + n * 100)
    producer.close()
    consumer, part = consumer_of(target), TopicPartition(topic, 0)
    assert consumer.beginning_offsets([part]) == {part: 0}
    assert consumer.end_offsets([part]) == {part: 10}
    found = consumer.offsets_for_times({part: 1_700_000_000_250})[part]
    assert (found.offset, found.timestamp) == (3, 1_700_000_000_300)
    consumer.close()


def test_admin(target: Target, unique: Unique) -> None:
    topic = unique("kp-admin")
    create_topic(target.bootstrap_servers, topic, partitions=2)
    admin = KafkaAdminClient(bootstrap_servers=target.bootstrap_servers)
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
