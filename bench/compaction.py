"""Compaction side by side with Apache Kafka 4.3.0: the same topic, cleaned by each.

    python -m bench.compaction [--mb 200] [--value 100] [--keys 200000] [--codec none] [--no-kafka]

A topic is filled while its dirty ratio forbids cleaning, then the ratio is lowered, and the clock
runs until `cleaner-offset-checkpoint` has reached the active segment. The second of `--rounds`
cleanings counts a warm JVM, or compiled code. Prints MB of log a second, by the wall and by the
CPU time of the server and its children.
"""

import argparse
import random
import shutil
import time
from pathlib import Path

from bench.servers import BUILD, HeadraceServer, KafkaServer, cpu_seconds
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

SETTINGS = {"log.cleaner.backoff.ms": "50", "auto.create.topics.enable": "false"}
NEVER, ALWAYS = "1.0", "0.001"
CLEANED_WITHIN_S = 600.0
TIMEOUT_S = 30.0

AnyServer = KafkaServer | HeadraceServer


def cpu_of(server: AnyServer) -> float:
    """Of the server and its children: the cleaner is one of them."""
    total = cpu_seconds(server.pid)
    for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        try:
            total += cpu_seconds(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def fill(servers: str, topic: str, arguments: argparse.Namespace) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(64 << 20),
        "min.cleanable.dirty.ratio": NEVER,
    }
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(TIMEOUT_S)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": arguments.codec,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    rng = random.Random(1)
    blob = rng.randbytes(1 << 20)
    count = (arguments.mb << 20) // (arguments.value + 25)
    for _ in range(count):
        start = rng.randrange(1 << 19)
        key = b"user-%012d" % rng.randrange(arguments.keys)
        while True:
            try:
                producer.produce(topic, blob[start : start + arguments.value], key)
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


def run(server: AnyServer, topic: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """MB of log a second, by the wall and by CPU."""
    host, port = server.address
    servers = f"{host}:{port}"
    fill(servers, topic, arguments)
    folder = next(server.data.rglob(f"{topic}-0"))
    sizes = sorted((int(path.stem), path.stat().st_size) for path in folder.glob("*.log"))
    size_mb = sum(size for _, size in sizes[:-1]) / 1e6
    cpu_s, began_s = cpu_of(server), time.monotonic()
    allow_cleaning(servers, topic)
    while not is_clean(server.data, topic):
        assert time.monotonic() < began_s + CLEANED_WITHIN_S, "not cleaned in time"
        time.sleep(0.02)
    took_s, used_s = time.monotonic() - began_s, cpu_of(server) - cpu_s
    return size_mb / took_s, size_mb / max(used_s, 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--value", type=int, default=100)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--codec", default="none")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-kafka", action="store_true")
    arguments = parser.parse_args()
    kinds: list[type[AnyServer]] = [HeadraceServer]
    if not arguments.no_kafka:
        kinds.insert(0, KafkaServer)
    for kind in kinds:
        data = BUILD / f"compaction-{kind.__name__}"
        shutil.rmtree(data, ignore_errors=True)
        server = kind(data, settings=SETTINGS)
        try:
            server.start()
            for number in range(arguments.rounds):
                wall, cpu = run(server, f"cleaned-{number}", arguments)
                print(f"{kind.__name__:15} {wall:7.1f} MB/s   {cpu:7.1f} MB per CPU second")
        finally:
            server.stop()
            shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    main()
