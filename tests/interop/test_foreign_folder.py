"""Partition folders travel: ours opens what the real Kafka wrote, Kafka opens what ours wrote.

A topic is made on the receiving broker, the broker is stopped or killed, the files of its one
partition are replaced by the other's, and the broker serves them. Topic ids differ, so
`partition.metadata` stays the receiver's: both refuse a folder of another topic.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka import TopicPartition as Part
from tests.interop.confluent import TIMEOUT_S, consumer_of, produce, producer_of, read_all
from tests.interop.conftest import Target, control
from tests.interop.foreign import EXPECTED, START_MS, TOPIC, served_by, written_by

pytestmark = pytest.mark.java


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


@pytest.mark.parametrize("receiver_name", [pytest.param("kafka", marks=control)])
def test_kafka_serves_what_ours_wrote(tmp_path: Path, receiver_name: str) -> None:
    source = written_by("headrace", tmp_path / "folder")
    for receiver in served_by(receiver_name, source, lambda target: target.stop()):
        assert pairs(read_all(receiver.bootstrap_servers, TOPIC)) == EXPECTED
