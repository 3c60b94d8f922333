"""librdkafka (confluent-kafka) produces and consumes: codecs, keys, headers, times, acks."""

from collections.abc import Callable

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
)
from confluent_kafka import TopicPartition as Part
from tests.interop.confluent import (
    TIMEOUT_S,
    consume,
    consumer_of,
    create_topic,
    produce,
    producer_of,
    read_all,
)
from tests.interop.conftest import Target

from headrace.testing import checkers
from headrace.testing.history import Content, History, Poll, TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Unique = Callable[[str], str]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_bytes_come_out_as_they_went_in(
    target: Target, unique: Unique, codec: str, idempotent: bool
) -> None:
    topic = unique(f"codec-{codec}")
    servers = target.bootstrap_servers
    create_topic(servers, topic, partitions=3)
    history = History()
    producer = producer_of(servers, compression_type=codec, enable_idempotence=idempotent)
    for number in range(600):
        value = f"{number}-".encode() * 20
        key = None if number % 5 == 0 else f"key-{number}".encode()
        headers = [("number", str(number).encode()), ("empty", b""), ("null", None)]
        timestamp_ms = 1_700_000_000_000 + number
        content = Content(key, value, tuple(headers), timestamp_ms)
        token = history.begin_send("producer", value.decode(), content=content)

        def on_delivery(error: object, message: object, token: int = token) -> None:
            assert error is None, error
            where = TopicPartition(topic, message.partition())  # type: ignore[attr-defined]
            history.send_ok(token, where, message.offset())  # type: ignore[attr-defined]

        producer.produce(
            topic,
            value,
            key,
            headers=headers,
            timestamp=timestamp_ms,
            partition=number % 3,
            on_delivery=on_delivery,
        )
    assert producer.flush(TIMEOUT_S) == 0
    for message in read_all(servers, topic, partitions=3):
        kind, timestamp_ms = message.timestamp()
        assert kind == TIMESTAMP_CREATE_TIME
        content = Content(
            message.key(), message.value(), tuple(message.headers() or ()), timestamp_ms
        )
        where = TopicPartition(topic, message.partition())
        text = (message.value() or b"").decode()
        history.add(Poll("reader", where, message.offset(), text, content=content))
    assert checkers.check(history) == []
    assert len(list(history.events(Poll))) == 600


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(target: Target, unique: Unique, acks: str) -> None:
    topic = unique(f"acks-{acks}")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers, acks=acks)
    produce(producer, topic, [(None, str(number).encode()) for number in range(100)])
    # acks=0 is done once it is on the wire; the reader waits until the broker has it.
    reader = consumer_of(target.bootstrap_servers, unique("acks"))
    reader.assign([Part(topic, 0, 0)])
    assert [message.offset() for message in consume(reader, 100)] == list(range(100))
    reader.close()


def test_null_and_empty_are_not_the_same(target: Target, unique: Unique) -> None:
    topic = unique("nulls")
    create_topic(target.bootstrap_servers, topic)
    sent = [(None, None), (b"", b""), (b"k", None), (None, b"v")]
    produce(producer_of(target.bootstrap_servers), topic, sent)
    received = read_all(target.bootstrap_servers, topic)
    assert [(message.key(), message.value()) for message in received] == sent


def test_log_append_time_is_the_brokers(target: Target, unique: Unique) -> None:
    topic = unique("append-time")
    config = {"message.timestamp.type": "LogAppendTime"}
    create_topic(target.bootstrap_servers, topic, config=config)
    producer = producer_of(target.bootstrap_servers, compression_type="lz4")
    for _ in range(10):
        producer.produce(topic, b"v", timestamp=1_000)
    assert producer.flush(TIMEOUT_S) == 0
    for message in read_all(target.bootstrap_servers, topic):
        kind, timestamp_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert timestamp_ms > 1_600_000_000_000


def test_topic_of_another_codec_recompresses(target: Target, unique: Unique) -> None:
    topic = unique("recompress")
    create_topic(target.bootstrap_servers, topic, config={"compression.type": "gzip"})
    producer = producer_of(target.bootstrap_servers, compression_type="zstd")
    sent = [(None, str(number).encode() * 50) for number in range(200)]
    produce(producer, topic, sent)
    received = read_all(target.bootstrap_servers, topic)
    assert [(message.key(), message.value()) for message in received] == sent


def test_too_large_a_record_is_refused_and_the_next_one_taken(
    target: Target, unique: Unique
) -> None:
    topic = unique("large")
    create_topic(target.bootstrap_servers, topic, config={"max.message.bytes": "2000"})
    producer = producer_of(target.bootstrap_servers)
    errors: list[str | None] = []

    def on_delivery(error: object, _message: object) -> None:
        errors.append(None if error is None else error.name())  # type: ignore[attr-defined]

    for size_bytes in (3_000, 100):
        producer.produce(topic, b"x" * size_bytes, on_delivery=on_delivery)
        assert producer.flush(TIMEOUT_S) == 0
    assert errors == ["MSG_SIZE_TOO_LARGE", None]


def test_record_without_a_key_is_refused_by_a_compacted_topic(
    target: Target, unique: Unique
) -> None:
    topic = unique("compacted")
    create_topic(target.bootstrap_servers, topic, config={"cleanup.policy": "compact"})
    producer = producer_of(target.bootstrap_servers, compression_type="lz4")
    errors: list[str | None] = []

    def on_delivery(error: object, _message: object) -> None:
        errors.append(None if error is None else error.name())  # type: ignore[attr-defined]

    for key in (None, b"k"):
        producer.produce(topic, b"v" * 100, key, on_delivery=on_delivery)
        assert producer.flush(TIMEOUT_S) == 0
    assert errors == ["INVALID_RECORD", None]


def test_record_larger_than_the_fetch_limit_still_comes(target: Target, unique: Unique) -> None:
    topic = unique("big-fetch")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers)
    produce(producer, topic, [(None, b"x" * 900_000), (None, b"small")])
    reader = consumer_of(
        target.bootstrap_servers,
        unique("big"),
        fetch_message_max_bytes=1_000,
        fetch_max_bytes=1_000_000,
    )
    reader.assign([Part(topic, 0, 0)])
    assert [len(message.value() or b"") for message in consume(reader, 2)] == [900_000, 5]
    reader.close()


def test_topic_is_made_by_its_first_record(target: Target, unique: Unique) -> None:
    topic = unique("auto-created")
    (message,) = produce(producer_of(target.bootstrap_servers), topic, [(b"k", b"v")])
    assert message.offset() == 0
    assert [m.value() for m in read_all(target.bootstrap_servers, topic)] == [b"v"]


def test_offsets_by_time(target: Target, unique: Unique) -> None:
    topic = unique("times")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers, compression_type="gzip")
    for number in range(100):
        producer.produce(topic, b"v", timestamp=1_700_000_000_000 + number * 10)
    assert producer.flush(TIMEOUT_S) == 0
    reader = consumer_of(target.bootstrap_servers, unique("times"))
    asked = {1_699_999_999_999: 0, 1_700_000_000_000: 0, 1_700_000_000_495: 50}
    for timestamp_ms, offset in asked.items():
        (answer,) = reader.offsets_for_times([Part(topic, 0, timestamp_ms)], TIMEOUT_S)
        assert answer.offset == offset
    (beyond,) = reader.offsets_for_times([Part(topic, 0, 1_800_000_000_000)], TIMEOUT_S)
    assert beyond.offset == -1
    reader.close()


def test_fetch_from_the_middle_of_a_batch(target: Target, unique: Unique) -> None:
    topic = unique("middle")
    create_topic(target.bootstrap_servers, topic)
    producer = producer_of(target.bootstrap_servers, compression_type="zstd", linger_ms=200)
    produce(producer, topic, [(None, str(number).encode()) for number in range(500)])
    reader = consumer_of(target.bootstrap_servers, unique("middle"))
    reader.assign([Part(topic, 0, 321)])
    received = consume(reader, 500 - 321)
    assert [message.offset() for message in received] == list(range(321, 500))
    reader.close()


def test_offset_out_of_range_is_told(target: Target, unique: Unique) -> None:
    topic = unique("range")
    create_topic(target.bootstrap_servers, topic)
    produce(producer_of(target.bootstrap_servers), topic, [(None, b"v")])
    reader = consumer_of(target.bootstrap_servers, unique("range"), auto_offset_reset="error")
    reader.assign([Part(topic, 0, 1_000)])
    message = reader.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is not None
    assert message.error().name() in ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")
    reader.close()


def test_unknown_topic_is_told_when_not_created_by_reading(target: Target, unique: Unique) -> None:
    reader = consumer_of(target.bootstrap_servers, unique("nobody"), allow_auto_create_topics=False)
    reader.subscribe([unique("no-such-topic")])
    message = reader.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is not None
    assert message.error().name() == "UNKNOWN_TOPIC_OR_PART"
    reader.close()


def test_many_partitions_in_one_fetch_session(target: Target, unique: Unique) -> None:
    topic = unique("session")
    create_topic(target.bootstrap_servers, topic, partitions=50)
    producer = producer_of(target.bootstrap_servers)
    reader = consumer_of(target.bootstrap_servers, unique("session"))
    reader.assign([Part(topic, partition, 0) for partition in range(50)])
    for round_number in range(3):
        for partition in range(round_number, 50, 3):
            producer.produce(topic, f"{round_number}-{partition}", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        expected = {(p, f"{round_number}-{p}".encode()) for p in range(round_number, 50, 3)}
        received = consume(reader, len(expected))
        assert {(m.partition(), m.value()) for m in received} == expected
    reader.close()
