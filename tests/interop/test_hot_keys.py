"""Keys that are too much for one partition: written in several, read as one, through a broker."""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from tests.interop.confluent import TIMEOUT_S, create_topic, producer_of
from tests.interop.conftest import Target

from headrace.client.cluster import Cluster
from headrace.client.consumer import ConsumedRecord, Consumer
from headrace.client.partitioners import KeySalt, SpreadingPartitioner, merged, partition_of_key
from headrace.client.producer import Producer
from headrace.testing.local_cluster import LocalCluster

PARTITIONS = 6
COUNT = 120


@pytest.fixture
def cluster(target: Target) -> Iterator[Cluster]:
    with Cluster(target.bootstrap_servers) as found:
        yield found


def read(cluster: Cluster, topic: str, count: int) -> list[list[ConsumedRecord]]:
    """All records, by partition."""
    consumer = Consumer(cluster, {(topic, index): 0 for index in range(PARTITIONS)})
    found: list[list[ConsumedRecord]] = [[] for _ in range(PARTITIONS)]
    deadline_s = time.monotonic() + TIMEOUT_S
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline_s, "records are missing"
        for record in consumer.poll(100):
            found[record.partition].append(record)
    return found


def test_a_salted_key_is_read_back_in_the_order_of_its_writing(
    cluster: Cluster, target: Target, unique: Callable[[str], str]
) -> None:
    topic, salt = unique("salted"), KeySalt(16)
    create_topic(target.bootstrap_servers, topic, PARTITIONS)
    ours = Producer(cluster)
    theirs = producer_of(target.bootstrap_servers, partitioner="murmur2_random")
    start_ms = int(time.time() * 1000) - COUNT
    for number in range(COUNT):  # a record a millisecond, from two clients in turn
        name, value, time_ms = salt.salted(b"hot"), b"%d" % number, start_ms + number
        if number % 32 < 16:
            ours.send(topic, value, key=name, timestamp_ms=time_ms)
        else:
            ours.flush()
            theirs.produce(topic, value, name, timestamp=time_ms)
            assert theirs.flush(TIMEOUT_S) == 0
    ours.flush()
    found = read(cluster, topic, COUNT)
    assert sum(1 for records in found if records) > PARTITIONS // 2, "it is spread"
    partitions = defaultdict(set)
    for record in (record for records in found for record in records):
        assert record.key is not None
        assert salt.original(record.key) == b"hot"
        partitions[record.key].add(record.partition)
    assert set(partitions) == set(salt.names(b"hot"))
    for name, where in partitions.items():
        assert where == {partition_of_key(name, PARTITIONS)}, "whichever client wrote it"
    assert [record.value for record in merged(found)] == [b"%d" % n for n in range(COUNT)]


def test_a_key_above_its_rate_goes_round_and_is_read_back_in_order(
    cluster: Cluster, target: Target, unique: Callable[[str], str]
) -> None:
    topic = unique("spread")
    create_topic(target.bootstrap_servers, topic, PARTITIONS)
    spreading, producer = (
        SpreadingPartitioner(100.0, window_s=10.0, now_s=lambda: 0.0),
        Producer(cluster),
    )
    start_ms = int(time.time() * 1000) - COUNT
    for number in range(COUNT):
        key = b"cold" if number % 20 == 0 else b"hot"
        partition = spreading.partition(key, 50, PARTITIONS)
        value, time_ms = b"%d" % number, start_ms + number
        producer.send(topic, value, key=key, partition=partition, timestamp_ms=time_ms)
    producer.flush()
    assert set(spreading.hot_keys()) == {b"hot"}
    found = read(cluster, topic, COUNT)
    where = {(record.key, record.partition) for records in found for record in records}
    assert {index for key, index in where if key == b"hot"} == set(range(PARTITIONS))
    cold = {index for key, index in where if key == b"cold"}
    assert cold == {partition_of_key(b"cold", PARTITIONS)}
    assert [record.value for record in merged(found)] == [b"%d" % n for n in range(COUNT)]


@pytest.mark.long
def test_hot_partitions_of_several_leaders_are_named_with_their_keys() -> None:
    """Three brokers, each of which leads one partition; the command asks them all."""
    with LocalCluster(brokers=3) as running:
        create_topic(running.bootstrap_servers, "busy", 3)
        producer = producer_of(running.bootstrap_servers, linger_ms=20)
        leaders = producer.list_topics("busy", TIMEOUT_S).topics["busy"].partitions
        assert len({each.leader for each in leaders.values()}) == 3
        told = {
            source: _hot_while_written(producer, *words)
            for source, words in {
                "metrics": ("--data", str(running.data)),
                "sizes": ("--bootstrap-servers", running.bootstrap_servers),
            }.items()
        }
    for source, rows in told.items():
        busy = {row["partition"]: row for row in rows if row["topic"] == "busy"}
        assert sorted(busy) == [0, 1, 2], source
        rates = [busy[index]["written_bytes_per_s"] for index in range(3)]
        assert rates[0] > rates[1] > rates[2] > 0, source
        keys = {index: row["keys"][0] for index, row in busy.items()}
        assert {index: key["key"] for index, key in keys.items()} == {
            index: f"key-{index}" for index in range(3)
        }
        assert all(key["share"] > 0.5 for key in keys.values())
    # What is written is counted by brokers; by sizes alone nobody knows what was read.
    assert {row["read_bytes_per_s"] for row in told["sizes"]} == {None}
    assert None not in {row["read_bytes_per_s"] for row in told["metrics"]}


def _hot_while_written(producer: ConfluentProducer, *words: str) -> list[dict[str, Any]]:
    """Partition 0 takes four times as much as 1, and that four times as much as 2."""
    command = [sys.executable, "-P", "-m", "headrace", "topic", "hot", "--for", "1.5", "--json"]
    with subprocess.Popen(
        [*command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        deadline_s = time.monotonic() + TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline_s:
            for partition, times in ((0, 16), (1, 4), (2, 1)):
                for key in (f"key-{partition}", f"key-{partition}", "rare"):
                    for _ in range(times):
                        producer.produce("busy", bytes(500), key, partition=partition)
            producer.poll(0.02)
        assert process.poll() == 0
        assert process.stdout is not None
        told: list[dict[str, Any]] = json.loads(process.stdout.read())
    assert producer.flush(TIMEOUT_S) == 0
    return told
