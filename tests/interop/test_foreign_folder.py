"""Partition folders travel: ours opens what the real Kafka wrote, Kafka opens what ours wrote.

A topic is made on the receiving broker, the broker is stopped or killed, the files of its one
partition are replaced by the other's, and the broker serves them. Topic ids differ, so
`partition.metadata` stays the receiver's: both refuse a folder of another topic.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka import TopicPartition as Part
from tests.conftest import not_run
from tests.interop.confluent import (
    TIMEOUT_S,
    consumer_of,
    create_topic,
    produce,
    producer_of,
    read_all,
)
from tests.interop.conftest import Target, start_target
from tests.interop.java_tools import JavaMissingError, prepare

pytestmark = pytest.mark.java

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_PER_CODEC = 500
TOPIC = "travelling"
START_MS = 1_700_000_000_000


def value_of(number: int) -> bytes:
    return random.Random(number).randbytes(800) + bytes(400)


EXPECTED = [
    (f"{codec}-{n}".encode(), value_of(n)) for codec in CODECS for n in range(RECORDS_PER_CODEC)
]


def write(servers: str) -> None:
    create_topic(servers, TOPIC, config={"segment.bytes": "1048576"})
    number = 0
    for codec in CODECS:
        producer = producer_of(servers, compression_type=codec, batch_size=16_384)
        for n in range(RECORDS_PER_CODEC):
            key = f"{codec}-{n}".encode()
            producer.produce(TOPIC, value_of(n), key, timestamp=START_MS + number)
            number += 1
        assert producer.flush(TIMEOUT_S) == 0


def folder(data: Path) -> Path:
    return next(data.rglob(f"{TOPIC}-0"))


def written_by(name: str, copy: Path) -> Path:
    with start_target(name) as writer:
        write(writer.bootstrap_servers)
        writer.stop()
        shutil.copytree(folder(writer.data), copy)
    assert len(list(copy.glob("*.log"))) >= 3, "too little data to roll segments"
    return copy


def replace_files(data: Path, source: Path) -> None:
    receiver = folder(data)
    for path in receiver.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, receiver)


def served_by(name: str, source: Path, stop: Callable[[Target], None]) -> Iterator[Target]:
    with start_target(name) as receiver:
        create_topic(receiver.bootstrap_servers, TOPIC)
        # A record of its own: from then on the folder is surely there.
        produce(producer_of(receiver.bootstrap_servers), TOPIC, [(None, b"replaced")])
        stop(receiver)
        replace_files(receiver.data, source)
        receiver.start()
        yield receiver


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        prepare()
    except JavaMissingError as missing:
        not_run(str(missing))
    return written_by("kafka", tmp_path_factory.mktemp("kafka") / "folder")


@pytest.fixture(scope="module", params=["stopped", "killed"])
def receiver(request: pytest.FixtureRequest, kafka_folder: Path) -> Iterator[Target]:
    def stop(target: Target) -> None:
        target.stop() if request.param == "stopped" else target.kill()

    yield from served_by("headrace", kafka_folder, stop)


def pairs(messages: list[Message]) -> list[tuple[bytes | None, bytes | None]]:
    return [(message.key(), message.value()) for message in messages]


def test_everything_kafka_wrote_is_served(receiver: Target) -> None:
    received = read_all(receiver.bootstrap_servers, TOPIC)[: len(EXPECTED)]
    assert pairs(received) == EXPECTED
    assert [message.offset() for message in received] == list(range(len(EXPECTED)))
    assert [message.timestamp()[1] for message in received] == [
        START_MS + number for number in range(len(EXPECTED))
    ]


def test_times_are_found_in_kafkas_segments(receiver: Target) -> None:
    reader = consumer_of(receiver.bootstrap_servers, "unused")
    for offset in (0, 1, 777, 1_500, len(EXPECTED) - 1):
        (found,) = reader.offsets_for_times([Part(TOPIC, 0, START_MS + offset)], TIMEOUT_S)
        assert found.offset == offset
    reader.close()


def test_the_next_record_goes_behind_kafkas(receiver: Target) -> None:
    producer = producer_of(receiver.bootstrap_servers, enable_idempotence=True)
    (message,) = produce(producer, TOPIC, [(b"next", b"record")])
    assert message.offset() == len(EXPECTED)
    last = read_all(receiver.bootstrap_servers, TOPIC)[-1]
    assert (last.offset(), last.key()) == (len(EXPECTED), b"next")


@pytest.mark.skipif("HEADRACE_CONTROL" not in os.environ, reason="the control runs on demand")
def test_kafka_serves_what_ours_wrote(tmp_path: Path) -> None:
    source = written_by("headrace", tmp_path / "folder")
    for receiver in served_by("kafka", source, lambda target: target.stop()):
        assert pairs(read_all(receiver.bootstrap_servers, TOPIC)) == EXPECTED
