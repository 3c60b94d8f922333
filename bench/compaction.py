"""Compaction: a topic is filled while its dirty ratio forbids cleaning, then that is lowered.

Owns: that work of the comparison with Kafka. The clock runs until `cleaner-offset-checkpoint` has
reached the active segment; CPU is that of the server and its children, because ours cleans in one.
"""

import itertools
import random
import time
from pathlib import Path

from bench.servers import Server, cpu_seconds
from bench.works import Figures, Scale, delete_topic, where
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

VALUE_BYTES = 100
KEYS = 200_000
NEVER, ALWAYS = "1.0", "0.001"
CLEANED_WITHIN_S = 600.0
TIMEOUT_S = 30.0

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


def fill(servers: str, topic: str, size_mb: int) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(8 << 20),
        "min.cleanable.dirty.ratio": NEVER,
    }
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(TIMEOUT_S)
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


def clean(server: Server, scale: Scale) -> Figures:
    topic = f"cleaned{next(_numbers)}"
    servers = where(server)
    fill(servers, topic, scale.compacted_mb)
    folder = next(server.data.rglob(f"{topic}-0"))
    sizes = sorted((int(path.stem), path.stat().st_size) for path in folder.glob("*.log"))
    size_mb = sum(size for _, size in sizes[:-1]) / 1e6
    cpu_s, began_s = cpu_of(server), time.monotonic()
    allow_cleaning(servers, topic)
    while not is_clean(server.data, topic):
        assert time.monotonic() < began_s + CLEANED_WITHIN_S, "not cleaned in time"
        time.sleep(0.02)
    took_s, used_s = time.monotonic() - began_s, cpu_of(server) - cpu_s
    delete_topic(server, topic)
    return {"mb_per_s": size_mb / took_s, "cpu_s_per_gb": used_s / (size_mb / 1e3)}
