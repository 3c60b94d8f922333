"""Small verbs over confluent-kafka (librdkafka) that several interop tests share.

Owns: bounded waiting. Nothing here sleeps to synchronise; every loop ends by a deadline.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 20.0

PATIENCE = {
    # A test that waits for a reconnect must not wait for librdkafka's patience.
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    # A broker that is down on purpose is no news.
    "log_level": 2,
}


def admin_of(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, **PATIENCE})


def producer_of(bootstrap_servers: str, **settings: object) -> Producer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 2, **PATIENCE, **named})


def consumer_of(bootstrap_servers: str, group: str, **settings: object) -> Consumer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **PATIENCE,
            **named,
        }
    )


def create_topic(
    bootstrap_servers: str,
    topic: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    new = NewTopic(topic, num_partitions=partitions, config=dict(config or {}))
    admin = admin_of(bootstrap_servers)  # held: the answer dies with the client
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def produce(
    producer: Producer,
    topic: str,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    partition: int | None = None,
) -> list[Message]:
    """Send all, wait for all, return the delivered messages in the order of the calls."""
    delivered: list[Message | None] = [None] * len(records)

    def on_delivery(index: int) -> Callable[[KafkaError | None, Message], None]:
        def settle(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            delivered[index] = message

        return settle

    where = {} if partition is None else {"partition": partition}
    for index, (key, value) in enumerate(records):
        producer.produce(topic, value=value, key=key, on_delivery=on_delivery(index), **where)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return [message for message in delivered if message is not None]


def consume(consumer: Consumer, count: int, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """Exactly `count` records, or an assertion after the deadline."""
    received: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(received) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(received), 0.2):
            assert message.error() is None, message.error()
            received.append(message)
    assert len(received) == count, f"{len(received)} of {count} records came"
    return received


def read_all(bootstrap_servers: str, topic: str, partitions: int = 1) -> list[Message]:
    """Everything between the watermarks of each partition, without a group."""
    reader = consumer_of(bootstrap_servers, "unused", enable_auto_commit=False)
    try:
        wanted = 0
        parts = []
        for partition in range(partitions):
            low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
            wanted += high - low
            parts.append(TopicPartition(topic, partition, low))
        reader.assign(parts)
        return consume(reader, wanted)
    finally:
        reader.close()


def poll_until(
    consumers: Sequence[Consumer], ready: Callable[[], bool], timeout_s: float = TIMEOUT_S
) -> None:
    """Serve the consumers' callbacks until `ready()`."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        assert time.monotonic() < deadline, "not ready in time"
        for consumer in consumers:
            consumer.poll(0.05)
