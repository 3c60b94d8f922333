"""Ranges read from a real broker, ours and the real Kafka, against librdkafka's consumer."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from tests.interop.confluent import TIMEOUT_S, admin_of, create_topic, producer_of, read_all
from tests.interop.conftest import Target
from tests.interop.nodes import until

from headrace.pipeline.log_client import LogClient
from headrace.pipeline.log_reader import DataLost, LogOptions, OffsetRange, checksum, read_range

KEPT = {"retention.ms": "-1"}
"""For topics that are filled with records of years ago."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def options_of(target: Target, **more: str) -> LogOptions:
    return LogOptions.of({"kafka.bootstrap.servers": target.bootstrap_servers, **more})


def rows_of(options: LogOptions, wanted: OffsetRange, **settings: int) -> list[Row]:
    rows = []
    for batch in read_range(options, wanted, **settings):  # type: ignore[arg-type]
        for row in batch.to_pylist():
            headers = [(header["key"], header["value"]) for header in row["headers"]]
            timestamp_ms = round(row["timestamp"].timestamp() * 1000)
            rows.append((row["offset"], timestamp_ms, row["key"], row["value"], headers))
    return rows


def fill(target: Target, topic: str, count: int) -> None:
    """`count` records in each codec, with nulls, empty values and headers."""
    for codec in CODECS:
        producer = producer_of(target.bootstrap_servers, compression_type=codec, linger_ms=100)
        for index in range(count):
            producer.produce(
                topic,
                key=None if index % 3 == 0 else b"k%d" % index,
                value=None if index % 5 == 0 else b"%d" % index * (index % 50),
                headers=[("h", b"%d" % index), ("é", None), ("e", b"")] if index % 2 else None,
                timestamp=1_700_000_000_000 + index,
                partition=0,
            )
        assert producer.flush(TIMEOUT_S) == 0


def test_all_codecs_are_read_as_librdkafka_reads_them(
    target: Target, unique: Callable[[str], str]
) -> None:
    topic = unique("codecs")
    create_topic(target.bootstrap_servers, topic, config=KEPT)
    fill(target, topic, 200)
    expected = [
        (m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or [])
        for m in read_all(target.bootstrap_servers, topic)
    ]
    options = options_of(target)
    with LogClient(options) as log:
        where = (topic, 0)
        end = log.latest([where])[where]
        assert (log.earliest([where])[where], end) == (0, 1000)
        size = log.size_hint(where, 0, end)
        late = log.offsets_for_times({where: 1_700_000_000_150})[where]
        topic_id = log.topic_ids([topic])[topic]
    assert 5_000 < size < 500_000
    assert late == 150
    whole = OffsetRange(topic, 0, 0, end, topic_id)
    assert rows_of(options, whole) == expected
    assert rows_of(options, OffsetRange(topic, 0, 195, 405), batch_rows=7) == expected[195:405]
    sums = {checksum_of(options, whole, batch_rows) for batch_rows in (3, 500, 100_000)}
    assert len(sums) == 1


def checksum_of(options: LogOptions, wanted: OffsetRange, batch_rows: int) -> int:
    crc = 0
    for batch in read_range(options, wanted, batch_rows=batch_rows):
        crc = checksum(batch, crc)
    return crc


def test_only_what_was_committed_is_read(target: Target, unique: Callable[[str], str]) -> None:
    topic = unique("transactions")
    servers = target.bootstrap_servers
    create_topic(servers, topic)
    plain = producer_of(servers)
    first, second = (producer_of(servers, transactional_id=unique(name)) for name in ("x", "y"))
    for producer in (first, second):
        producer.init_transactions(TIMEOUT_S)

    def send(producer: object, value: bytes) -> None:
        producer.produce(topic, value=value, partition=0)  # type: ignore[attr-defined]
        assert producer.flush(TIMEOUT_S) == 0  # type: ignore[attr-defined]

    first.begin_transaction()
    second.begin_transaction()
    send(first, b"aborted 1")
    send(second, b"committed 1")
    send(plain, b"plain 1")
    send(first, b"aborted 2")
    first.abort_transaction(TIMEOUT_S)
    second.commit_transaction(TIMEOUT_S)
    first.begin_transaction()
    send(first, b"committed 2")
    first.commit_transaction(TIMEOUT_S)
    send(plain, b"plain 2")
    second.begin_transaction()
    send(second, b"open")
    send(plain, b"behind an open one")
    expected = [b"committed 1", b"plain 1", b"committed 2", b"plain 2"]
    where = (topic, 0)
    options = options_of(target)
    with LogClient(options) as log:
        # A transaction's markers are written a moment after its commit is answered.
        end = until(lambda: (at := log.latest([where])[where]) >= 8 and at)
        assert [row[3] for row in rows_of(options, OffsetRange(*where, 0, end))] == expected
        assert rows_of(options, OffsetRange(*where, 3, 4)) == []
        dirty = options_of(target, **{"kafka.isolation.level": "read_uncommitted"})
        with LogClient(dirty) as all_of_it:
            last = all_of_it.latest([where])[where]
        assert last == end + 2
        assert len(rows_of(dirty, OffsetRange(*where, 0, last))) == 8
        second.commit_transaction(TIMEOUT_S)
        stable = until(lambda: (at := log.latest([where])[where]) > last and at)
    values = [row[3] for row in rows_of(options, OffsetRange(*where, 0, stable))]
    assert values == [*expected, b"open", b"behind an open one"]


def test_deleted_records_and_a_recreated_topic_are_lost_with_the_reason(
    target: Target, unique: Callable[[str], str]
) -> None:
    topic = unique("lost")
    servers = target.bootstrap_servers
    create_topic(servers, topic, config=KEPT)
    fill(target, topic, 20)
    options = options_of(target)
    admin = admin_of(servers)
    with LogClient(options) as log:
        topic_id = log.topic_ids([topic])[topic]
        (deleted,) = admin.delete_records([TopicPartition(topic, 0, 30)]).values()
        deleted.result(TIMEOUT_S)
        with pytest.raises(DataLost, match="begins at 30") as caught:
            rows_of(options, OffsetRange(topic, 0, 10, 50, topic_id))
        assert (caught.value.wanted, caught.value.available) == (10, 30)
        assert len(rows_of(options, OffsetRange(topic, 0, 30, 50, topic_id))) == 20
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
        until(lambda: not log.topics_matching([topic]))
        create_topic(servers, topic)
        until(lambda: log.topics_matching([topic]))
    fill(target, topic, 20)
    with pytest.raises(DataLost, match="created anew"):
        rows_of(options, OffsetRange(topic, 0, 30, 50, topic_id))
