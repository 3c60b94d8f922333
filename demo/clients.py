"""Producing and consuming as users do: with confluent-kafka, or with ours where it is missing."""

import json
import random
import time
from importlib.util import find_spec

from rich.console import Console
from rich.syntax import Syntax

_CODE = """\
consumer = Consumer({
    "bootstrap.servers": "%s", "group.id": "%s", "auto.offset.reset": "earliest"})
consumer.subscribe(["%s"])"""

TIMEOUT_S = 60.0


def have_confluent() -> bool:
    return find_spec("confluent_kafka") is not None


def event(number: int, source: random.Random) -> tuple[bytes, bytes]:
    customer = f"customer-{source.randint(1, 500)}"
    order = {"order": number, "customer": customer, "cents": source.randint(100, 50_000)}
    return customer.encode(), json.dumps(order).encode()


def produce_events(servers: str, topic: str, count: int) -> None:
    source = random.Random(7)
    if have_confluent():
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
            }
        )
        for number in range(count):
            key, value = event(number, source)
            producer.produce(topic, value, key, headers={"source": "demo"})
            producer.poll(0)
        if producer.flush(TIMEOUT_S):
            raise TimeoutError("not every event was acknowledged")
        return
    from headrace.client.cluster import Cluster
    from headrace.client.producer import Producer as OurProducer
    from headrace.wire.kafka.compression import Compression

    with Cluster(servers) as cluster:
        ours = OurProducer(cluster, compression=Compression.LZ4)
        for number in range(count):
            key, value = event(number, source)
            ours.send(topic, value, key=key, headers=[("source", b"demo")])
        ours.flush()


def consume_events(servers: str, topic: str, group: str, count: int, console: Console) -> list[int]:
    """The numbers of the events that a group got, until they are `count`."""
    if have_confluent():
        code = _CODE % (servers, group, topic)
        console.print(Syntax(code, "python", background_color="default", word_wrap=True))
        return _with_confluent(servers, topic, group, count)
    return _with_ours(servers, topic, group, count)


def _with_confluent(servers: str, topic: str, group: str, count: int) -> list[int]:
    from confluent_kafka import Consumer

    seen: list[int] = []
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while len(seen) < count and time.monotonic() < deadline:
        for message in consumer.consume(1_000, 0.5):
            if message.error() is None:
                seen.append(json.loads(message.value() or b"")["order"])
    consumer.commit(asynchronous=False)
    consumer.close()
    return seen


def _with_ours(servers: str, topic: str, group: str, count: int) -> list[int]:
    from headrace.client.cluster import Cluster
    from headrace.client.group_consumer import GroupConsumer

    seen: list[int] = []
    with Cluster(servers) as cluster:
        consumer = GroupConsumer(cluster, group, [topic])
        deadline = time.monotonic() + TIMEOUT_S
        while len(seen) < count and time.monotonic() < deadline:
            seen.extend(json.loads(record.value or b"")["order"] for record in consumer.poll(500))
        consumer.close()
    return seen
