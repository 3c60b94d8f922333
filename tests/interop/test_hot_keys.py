"""Keys that are too much for one partition: written in several, read as one, through a broker."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from tests.interop.confluent import TIMEOUT_S, create_topic, producer_of
from tests.interop.conftest import Target

from headrace.client.cluster import Cluster
from headrace.client.consumer import ConsumedRecord, Consumer
from headrace.client.partitioners import KeySalt, SpreadingPartitioner, merged, partition_of_key
from headrace.client.producer import Producer

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
