"""Independent readers of everything that is there, for the end of a fault test.

Two client families and a walk over the bare files: a record that one of them misses was not
delivered, a record that all of them miss is lost.
"""

from collections.abc import Iterator
from pathlib import Path

from tests.faults.load import record_poll, value_of
from tests.faults.node_rig import RigNode
from tests.interop.confluent import read_all
from tests.interop.conftest import Target
from tests.interop.test_kafka_python import TopicPartition as KafkaPythonPartition
from tests.interop.test_kafka_python import consumer_of, take

from headrace.testing.history import History, Poll, Position, Send, TopicPartition
from headrace.wire.kafka.record_batch import BatchHeader, read_header
from headrace.wire.kafka.records import read_records


def read_by_librdkafka(victim: Target, topic: str, partitions: int, history: History) -> None:
    for message in read_all(victim.bootstrap_servers, topic, partitions):
        record_poll(history, "librdkafka", message)


def read_by_kafka_python(victim: Target, topic: str, partitions: int, history: History) -> None:
    consumer = consumer_of(victim)
    parts = [KafkaPythonPartition(topic, partition) for partition in range(partitions)]
    consumer.assign(parts)
    for record in take(consumer, sum(consumer.end_offsets(parts).values())):
        where = TopicPartition(topic, record.partition)
        history.add(Poll("kafka-python", where, record.offset, value_of(record.value)))
    consumer.close()


def read_from_disk(data: Path, topic: str, partitions: int, history: History) -> None:
    for partition in range(partitions):
        where = TopicPartition(topic, partition)
        history.add(Position("disk", (where,)))
        for log in segments(data, topic, partition):
            content = log.read_bytes()
            for position, header in batches(content):
                batch = memoryview(content)[position : position + header.size_bytes]
                for record in read_records(batch):
                    value = value_of(bytes(record.value or b""))
                    history.add(Poll("disk", where, record.offset, value))


def segments(data: Path, topic: str, partition: int) -> list[Path]:
    return sorted(next(data.rglob(f"{topic}-{partition}")).glob("*.log"))


def batches(content: bytes) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < len(content):
        header = read_header(content, position)
        yield position, header
        position += header.size_bytes


def end_offsets(history: History) -> dict[int, int]:
    ends: dict[int, int] = {}
    for poll in history.events(Poll):
        partition = poll.partition.partition
        ends[partition] = max(ends.get(partition, 0), poll.offset + 1)
    return ends


def invented(history: History) -> list[Poll]:
    """Records that nobody sent."""
    sent = {send.value for send in history.events(Send)}
    return [poll for poll in history.events(Poll) if poll.value not in sent]


def held_by(node: RigNode, topic: str, partition: int) -> list[tuple[int, int, str]]:
    """Offset, leader epoch and value of every record in a node's replica."""
    records = []
    for log in segments(node.data, topic, partition):
        content = log.read_bytes()
        for position, header in batches(content):
            batch = memoryview(content)[position : position + header.size_bytes]
            for record in read_records(batch):
                value = value_of(bytes(record.value or b""))
                records.append((record.offset, header.partition_leader_epoch, value))
    return records
