"""Compaction: a topic is filled while its dirty ratio forbids cleaning, then that is lowered.

Owns: that work of the comparison with Kafka, and the latency of others while it is done. The clock
runs until `cleaner-offset-checkpoint` has reached the active segment; CPU is that of the server and
its children, because ours cleans in one.
"""

import functools
import itertools
import random
import time
from pathlib import Path

from bench.servers import Server, cpu_seconds
from bench.works import (
    RECORD_BYTES,
    Client,
    Figures,
    Scale,
    create_topic,
    delete_topic,
    end_offsets,
    where,
)
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from tests.wire.raw import Connection, request
from tests.wire.serving import produce_body

from headrace.wire.kafka.records import build_batch

VALUE_BYTES = 100
KEYS = 200_000
NEVER, ALWAYS = "1.0", "0.001"
CLEANED_WITHIN_S = 600.0
TIMEOUT_S = 30.0
BESIDE_TOPICS = 3
"""Cleaned one after the other, so that a cleaning is under way as long as latencies are taken."""
BATCH_RECORDS = 7_000
PRODUCE_VERSION = 7
RATE = 2000

_numbers = itertools.count()


def cpu_of(server: Server) -> float:
    """Of the server and its children: the cleaner is one of them."""
    total = cpu_seconds(server.pid)
    for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        try:
            total += cpu_seconds(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def create(servers: str, topic: str) -> None:
    """A topic that is compacted, but never dirty enough."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(8 << 20),
        "min.cleanable.dirty.ratio": NEVER,
    }
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(TIMEOUT_S)


def fill(servers: str, topic: str, size_mb: int) -> None:
    create(servers, topic)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    rng = random.Random(1)
    blob = rng.randbytes(1 << 20)
    count = (size_mb << 20) // (VALUE_BYTES + 25)
    for _ in range(count):
        start = rng.randrange(1 << 19)
        key = b"user-%012d" % rng.randrange(KEYS)
        while True:
            try:
                producer.produce(topic, blob[start : start + VALUE_BYTES], key)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def allow_cleaning(servers: str, topic: str) -> None:
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", ALWAYS, incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def is_clean(data: Path, topic: str) -> bool:
    folder = next(data.rglob(f"{topic}-0"))
    active = max(int(path.stem) for path in folder.glob("*.log"))
    return any(
        f"{topic} 0 {active}\n" in path.read_text()
        for path in data.rglob("cleaner-offset-checkpoint")
    )


def until_clean(server: Server, topic: str, client: Client | None = None) -> None:
    """Or until the client is done, who is what this is about then."""
    began_s = time.monotonic()
    while not is_clean(server.data, topic) and (client is None or client.is_running):
        assert time.monotonic() < began_s + CLEANED_WITHIN_S, "not cleaned in time"
        time.sleep(0.02)


def clean(server: Server, scale: Scale) -> Figures:
    topic = f"cleaned{next(_numbers)}"
    servers = where(server)
    fill(servers, topic, scale.compacted_mb)
    folder = next(server.data.rglob(f"{topic}-0"))
    sizes = sorted((int(path.stem), path.stat().st_size) for path in folder.glob("*.log"))
    size_mb = sum(size for _, size in sizes[:-1]) / 1e6
    cpu_s, began_s = cpu_of(server), time.monotonic()
    allow_cleaning(servers, topic)
    until_clean(server, topic)
    took_s, used_s = time.monotonic() - began_s, cpu_of(server) - cpu_s
    delete_topic(server, topic)
    return {"mb_per_s": size_mb / took_s, "cpu_s_per_gb": used_s / (size_mb / 1e3)}


@functools.cache
def batches() -> tuple[bytes, ...]:
    """Every key once, in batches of nearly a megabyte: made once, sent as they are."""
    rng = random.Random(2)
    blob = rng.randbytes(1 << 20)
    keys = [b"user-%012d" % number for number in range(KEYS)]
    rng.shuffle(keys)
    now_ms = int(time.time() * 1000)
    made = []
    for first in range(0, KEYS, BATCH_RECORDS):
        records = []
        for key in keys[first : first + BATCH_RECORDS]:
            start = rng.randrange(1 << 19)
            records.append((key, blob[start : start + VALUE_BYTES], (), now_ms))
        made.append(bytes(build_batch(records)))
    return tuple(made)


def fill_quickly(server: Server, topic: str, size_mb: int) -> None:
    """All keys again and again, without a client's work on each record."""
    create(where(server), topic)
    frames = [
        request("produce", PRODUCE_VERSION, **produce_body(batch, topic, 0, 1))
        for batch in batches()
    ]
    sent_bytes = 0
    with Connection(server.address) as connection:
        for frame in itertools.cycle(frames):
            connection.send(frame)
            connection.read_frame()
            sent_bytes += len(frame)
            if sent_bytes >= size_mb << 20:
                break
    records_min = sent_bytes // (VALUE_BYTES + 40)
    assert end_offsets(server, topic, 1) >= records_min, "not all of it was taken"


def latency_beside(server: Server, scale: Scale) -> Figures:
    """The latency of one topic while others are cleaned; and for how much of the time they were."""
    topics = [f"beside{next(_numbers)}" for _ in range(BESIDE_TOPICS)]
    for topic in topics:
        fill_quickly(server, topic, scale.compacted_mb)
    create_topic(server, "latency", 1)
    seconds = max(3, scale.latency_s // 2)
    words = (where(server), "latency", RATE, seconds, scale.latency_warm_s, RECORD_BYTES)
    client = Client("latency", *words).ready()  # it tells when it is warm
    began_s = time.monotonic()
    for topic in topics:
        if client.is_running:
            allow_cleaning(where(server), topic)
            until_clean(server, topic, client)
    cleaned_s = time.monotonic() - began_s
    figures = client.go()
    for topic in [*topics, "latency"]:
        delete_topic(server, topic)
    return {**figures, "cleaned_share": min(1.0, cleaned_s / seconds)}
