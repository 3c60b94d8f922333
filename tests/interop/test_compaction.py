"""A compacted topic as clients see it after cleanings by the broker's child process."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.interop.confluent import (
    TIMEOUT_S,
    consume,
    consumer_of,
    create_topic,
    produce,
    producer_of,
)
from tests.interop.conftest import Target
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import run_headrace, until

from headrace.testing.cluster import LocalBroker

TOPIC = "users"
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
}
KEYS = 50
CLEANED_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    settings = {"log.cleaner.backoff.ms": "100", "offsets.topic.num.partitions": "1"}
    with LocalBroker(settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def expected(broker: LocalBroker) -> dict[bytes, bytes]:
    """What a topic holds that was written with and without transactions, and cleaned since."""
    servers = broker.bootstrap_servers
    create_topic(servers, TOPIC, config=CONFIG)
    values: dict[bytes, bytes] = {}
    rng = random.Random(1)
    plain = producer_of(servers, compression_type="lz4", batch_size=20_000)
    for _ in range(3):
        records = [(b"user-%d" % rng.randrange(KEYS), rng.randbytes(1000)) for _ in range(1500)]
        produce(plain, TOPIC, records)
        values.update(records)
    produce(plain, TOPIC, [(b"user-0", None)])
    values.pop(b"user-0", None)
    transactional = producer_of(servers, transactional_id="writer")
    transactional.init_transactions(TIMEOUT_S)
    for is_committed in (True, False, True):
        transactional.begin_transaction()
        records = [(b"user-%d" % key, rng.randbytes(500)) for key in range(1, 20)]
        produce(transactional, TOPIC, records)
        if is_committed:
            transactional.commit_transaction(TIMEOUT_S)
            values.update(records)
        else:
            transactional.abort_transaction(TIMEOUT_S)
    produce(plain, TOPIC, [(b"filler", rng.randbytes(1000)) for _ in range(2200)])
    produce(plain, TOPIC, [(b"filler", b"end")])
    values[b"filler"] = b"end"
    until_clean(broker, TOPIC)
    return values


def until_clean(broker: Target, topic: str) -> None:
    """All but the active segment: that is where the checkpoint's offset stands then."""

    def is_clean() -> bool:
        path = next(iter(broker.data.rglob("cleaner-offset-checkpoint")), None)
        told = "" if path is None else path.read_text()
        active = max(int(each.stem) for each in folder(broker, f"{topic}-0").glob("*.log"))
        return active > 0 and f"{topic} 0 {active}\n" in told

    until(is_clean, timeout_s=CLEANED_WITHIN_S)


def until_cleaned(broker: LocalBroker, count: int) -> None:
    until(
        lambda: broker.metrics().get("headrace_cleanings_total", 0) >= count,
        timeout_s=CLEANED_WITHIN_S,
    )


def folder(broker: Target, name: str = f"{TOPIC}-0") -> Path:
    return next(broker.data.rglob(name))


def records_of(
    broker: Target, topic: str, isolation: str = "read_uncommitted"
) -> list[tuple[bytes, bytes | None]]:
    """What a reader of everything is told."""
    reader = consumer_of(
        broker.bootstrap_servers, "r", isolation_level=isolation, enable_partition_eof=True
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes, bytes | None]] = []
    offset = -1
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        message = reader.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        assert message.offset() > offset
        offset = message.offset()
        found.append((message.key(), message.value()))
    else:
        pytest.fail("the end of the log was not reached in time")
    reader.close()
    return found


def last_values(
    broker: LocalBroker, isolation: str, topic: str = TOPIC
) -> tuple[dict[bytes, bytes], int]:
    """The map that a reader of everything ends with, and how many records it read."""
    found = records_of(broker, topic, isolation)
    return {key: value for key, value in dict(found).items() if value is not None}, len(found)


def test_readers_see_the_last_value_of_each_key(
    broker: LocalBroker, expected: dict[bytes, bytes]
) -> None:
    values, count = last_values(broker, "read_committed")
    assert values == expected
    assert count < 3500, "what an active segment holds, and one record for each key"


def test_every_offset_can_be_asked_for(broker: LocalBroker, expected: dict[bytes, bytes]) -> None:
    assert expected
    reader = consumer_of(broker.bootstrap_servers, "seeker")
    for offset in (1, 777, 1500, 3000, 4500):
        reader.assign([TopicPartition(TOPIC, 0, offset)])
        assert consume(reader, 1)[0].offset() >= offset
    reader.close()


@pytest.mark.long
def test_our_own_dump_reads_cleaned_segments(
    broker: LocalBroker, expected: dict[bytes, bytes]
) -> None:
    assert expected
    rows = []
    for path in sorted(folder(broker).glob("*.log")):
        told = run_headrace("log", "dump", str(path), "--json")
        rows += [json.loads(line) for line in told.splitlines() if line.strip()]
    assert rows
    assert not [row for row in rows if "damage" in row]


def test_a_record_without_a_key_is_refused(broker: LocalBroker) -> None:
    create_topic(broker.bootstrap_servers, "keyed", config=CONFIG)
    refused: list[KafkaError] = []
    producer = producer_of(broker.bootstrap_servers)
    producer.produce("keyed", value=b"v", on_delivery=lambda error, _: refused.append(error))
    producer.flush(TIMEOUT_S)
    assert [error.code() for error in refused] == [KafkaError.INVALID_RECORD]


@pytest.mark.java
def test_java_reads_it_and_its_files(
    broker: LocalBroker, java: JavaTools, expected: dict[bytes, bytes]
) -> None:
    _, count = last_values(broker, "read_committed")
    told = java.run(
        "kafka-console-consumer",
        *("--bootstrap-server", broker.bootstrap_servers),
        *("--topic", TOPIC, "--partition", "0", "--offset", "earliest"),
        *("--isolation-level", "read_committed", "--timeout-ms", "30000"),
        *("--max-messages", str(count)),
        *("--property", "print.key=true", "--property", "print.value=false"),
    )
    keys = {line.strip().encode() for line in told.stdout.splitlines() if line.strip()}
    assert set(expected) <= keys
    for path in sorted(folder(broker).glob("*.log")):
        dumped = java.run("kafka-dump-log", "--deep-iteration", "--files", str(path)).check()
        assert "isvalid: true" in dumped.stdout or path.stat().st_size == 0
        assert "isvalid: false" not in dumped.stdout
    for suffix in ("index", "timeindex", "txnindex"):
        for path in sorted(folder(broker).glob(f"*.{suffix}")):
            sane = () if suffix == "txnindex" else ("--index-sanity-check",)
            java.run("kafka-dump-log", *sane, "--files", str(path)).check()


@pytest.mark.long
def test_offsets_of_groups_outlive_a_cleaning(broker: LocalBroker) -> None:
    """`__consumer_offsets` is compacted, and what a coordinator loads from it is whole."""
    topic, servers = "read-by-groups", broker.bootstrap_servers
    create_topic(servers, topic)
    groups = [consumer_of(servers, f"group-{n}", enable_auto_commit=False) for n in range(3)]
    before = broker.metrics()["headrace_cleanings_total"]
    alter(servers, "__consumer_offsets", CONFIG)
    for round_ in range(4):
        for group in groups:
            for _ in range(1500):
                offsets = [TopicPartition(topic, 0, round_, metadata="m" * 60)]
                group.commit(offsets=offsets, asynchronous=True)
            group.commit(offsets=[TopicPartition(topic, 0, 100 + round_)], asynchronous=False)
    until_cleaned(broker, int(before) + 1)
    broker.kill()
    broker.start()
    for group in groups:
        group.close()
    for n in range(3):
        reader = consumer_of(servers, f"group-{n}")
        (committed,) = reader.committed([TopicPartition(topic, 0)], TIMEOUT_S)
        assert committed.offset == 103
        reader.close()


def alter(servers: str, topic: str, configs: dict[str, str]) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
    from tests.interop.confluent import admin_of

    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_of(servers)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


@pytest.mark.long
def test_a_killed_cleaner_is_started_again(broker: LocalBroker) -> None:
    topic, servers = "cleaned-again", broker.bootstrap_servers
    before = int(broker.metrics().get("headrace_cleanings_total", 0))
    create_topic(servers, topic, config=CONFIG)
    producer = producer_of(servers)
    produce(producer, topic, [(b"k%d" % (n % 7), bytes(1000)) for n in range(1500)])
    for child in children(broker.pid):
        os.kill(child, signal.SIGKILL)
    until_clean(broker, topic)
    assert broker.metrics()["headrace_cleanings_total"] > before
    assert broker.is_alive


def children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in told.split()]


def test_transactions_go_on_behind_a_cleaning(
    broker: LocalBroker, expected: dict[bytes, bytes]
) -> None:
    assert expected
    producer = producer_of(broker.bootstrap_servers, transactional_id="writer")
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    produce(producer, TOPIC, [(b"user-1", b"again")])
    try:
        producer.commit_transaction(TIMEOUT_S)
    except KafkaException as error:
        pytest.fail(str(error))
    assert last_values(broker, "read_committed")[0][b"user-1"] == b"again"


def is_cleaning(broker: LocalBroker) -> bool:
    told = broker.metrics()
    return told.get("headrace_cleaner_busy", 0) + told.get("headrace_cleanings_total", 0) > 0


@pytest.mark.long
def test_kills_while_logs_are_cleaned_lose_nothing() -> None:
    """kill -9 of the broker, again and again, with cleanings under way all the time."""
    settings = {"log.cleaner.backoff.ms": "1", "log.segment.delete.delay.ms": "100"}
    rng, topic = random.Random(3), "killed"
    values: dict[bytes, bytes] = {}
    with LocalBroker(settings=settings) as broker:
        create_topic(broker.bootstrap_servers, topic, config=CONFIG)
        for _ in range(8):
            producer = producer_of(broker.bootstrap_servers, enable_idempotence=True)
            for _ in range(3):
                records = [(b"k%d" % rng.randrange(30), rng.randbytes(1000)) for _ in range(1500)]
                produce(producer, topic, records)
                values.update(records)
            until(lambda: is_cleaning(broker))
            time.sleep(rng.random() * 1.5)  # anywhere in a cleaning: what is tested is any moment
            broker.kill()
            broker.start()
        assert last_values(broker, "read_uncommitted", topic)[0] == values
        left = [path.name for path in folder(broker, f"{topic}-0").iterdir()]
        assert not [name for name in left if name.endswith(".swap")]
