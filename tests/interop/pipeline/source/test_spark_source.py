"""`format("headrace")` in a real Spark, against a real broker: ours and the real Kafka."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.interop.confluent import TIMEOUT_S, admin_of, create_topic, produce, producer_of
from tests.interop.conftest import Target
from tests.interop.nodes import until
from tests.interop.pipeline.source.test_read_range import CODECS, KEPT, fill

SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
)
QUERY_TIMEOUT_S = 180


def test_a_read_has_the_columns_of_sparks_own_source(
    spark: SparkSession, target: Target, unique: Callable[[str], str]
) -> None:
    topic = unique("batch")
    create_topic(target.bootstrap_servers, topic, partitions=2, config=KEPT)
    fill(target, topic, 40)
    options = {"kafka.bootstrap.servers": target.bootstrap_servers, "subscribe": topic}
    reader = spark.read.format("headrace").options(**options)
    frame = reader.options(includeHeaders="true", minPartitions="2").load()
    assert frame.schema.simpleString() == SCHEMA
    rows = sorted(frame.collect(), key=lambda row: row.offset)
    assert [row.offset for row in rows] == list(range(40 * len(CODECS)))
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {(topic, 0, 0)}
    for row in rows:
        index = row.offset % 40
        assert row.key == (None if index % 3 == 0 else b"k%d" % index)
        assert row.value == (None if index % 5 == 0 else b"%d" % index * (index % 50))
        assert row.timestamp.timestamp() == pytest.approx(1_700_000_000 + index / 1000, abs=1e-4)
        found = None if row.headers is None else [(each.key, each.value) for each in row.headers]
        assert found == ([("h", b"%d" % index), ("é", None), ("e", b"")] if index % 2 else None)


def test_what_a_read_covers_is_chosen_by_options(
    spark: SparkSession, target: Target, unique: Callable[[str], str]
) -> None:
    servers, first, second = target.bootstrap_servers, unique("options-a"), unique("options-b")
    producer = producer_of(servers)
    for topic, partitions in ((first, 2), (second, 1)):
        create_topic(servers, topic, partitions, KEPT)
        for number in range(10 * partitions):
            at_ms = 1_700_000_000_000 + 1000 * (number // partitions)
            producer.produce(topic, b"v", partition=number % partitions, timestamp=at_ms)
    assert producer.flush(TIMEOUT_S) == 0

    def read(**options: str) -> list[tuple[str, int, int]]:
        reader = spark.read.format("headrace").option("kafka.bootstrap.servers", servers)
        rows = reader.options(**options).load().select("topic", "partition", "offset").collect()
        return sorted(tuple(row) for row in rows)

    def offsets(topic: str, partition: int, start: int, end: int) -> list[tuple[str, int, int]]:
        return [(topic, partition, offset) for offset in range(start, end)]

    whole = offsets(first, 0, 0, 10) + offsets(first, 1, 0, 10)
    pattern = first.replace("options-a", "options-[ab]")
    assert read(subscribePattern=pattern) == whole + offsets(second, 0, 0, 10)
    assert read(subscribePattern=pattern[:-1]) == [], "a part of the name is no match"
    assert read(assign=json.dumps({first: [1]})) == offsets(first, 1, 0, 10)
    late = read(subscribe=first, startingTimestamp="1700000007000")
    assert late == offsets(first, 0, 7, 10) + offsets(first, 1, 7, 10)
    between = {
        "startingOffsets": json.dumps({first: {"0": 2, "1": -2}}),
        "endingOffsets": json.dumps({first: {"0": 5, "1": -1}}),
    }
    assert read(subscribe=first, **between) == offsets(first, 0, 2, 5) + offsets(first, 1, 0, 10)
    admin = admin_of(servers)
    (deleted,) = admin.delete_records([TopicPartition(first, 0, 4)]).values()
    deleted.result(TIMEOUT_S)
    with pytest.raises(PySparkException, match="retention passed the checkpoint"):
        read(subscribe=first, **between)
    rest = offsets(first, 0, 4, 5) + offsets(first, 1, 0, 10)
    assert read(subscribe=first, failOnDataLoss="false", **between) == rest


def test_a_missing_topic_and_a_wrong_option_are_told_in_a_sentence(
    spark: SparkSession, target: Target
) -> None:
    base = {"kafka.bootstrap.servers": target.bootstrap_servers}
    missing = spark.read.format("headrace").options(**base, subscribe="no-such-topic").load()
    with pytest.raises(PySparkException, match="there is no topic 'no-such-topic'"):
        missing.collect()
    secured = {**base, "kafka.security.protocol": "SSL", "subscribe": "t"}
    with pytest.raises(PySparkException, match="only PLAINTEXT is"):
        spark.read.format("headrace").options(**secured).load().collect()


class Stream:
    """A query with Trigger.AvailableNow into Parquet files, as often as it is run."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "25",
        }

    def run(self) -> list[int]:
        """The rows of each batch; raises what stopped the query."""
        query = (
            self.spark.readStream.format("headrace")
            .options(**self.options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(self.folder / "rows"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
        finally:
            query.stop()
        return [progress["numInputRows"] for progress in query.recentProgress]

    def seen(self) -> list[tuple[int, int, Any]]:
        files = sorted((self.folder / "rows").glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return sorted((row["partition"], row["offset"], row["value"]) for row in rows)


def test_a_stream_goes_on_where_it_stopped_and_stops_when_data_is_lost(
    spark: SparkSession, target: Target, unique: Callable[[str], str], tmp_path: Path
) -> None:
    servers, topic = target.bootstrap_servers, unique("stream")
    create_topic(servers, topic)
    producer = producer_of(servers, compression_type="lz4")

    def send(partition: int, count: int) -> list[tuple[int, int, bytes]]:
        records = [(b"k", b"%d-%d" % (partition, index)) for index in range(count)]
        sent = produce(producer, topic, records, partition=partition)
        return [(partition, message.offset(), message.value()) for message in sent]

    expected = send(0, 60)
    stream = Stream(spark, servers, topic, tmp_path)
    assert [rows for rows in stream.run() if rows] == [25, 25, 10]
    assert stream.seen() == expected

    admin = admin_of(servers)
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(TIMEOUT_S)
    producer = producer_of(servers)
    until(lambda: len(producer.list_topics(topic, 5).topics[topic].partitions) == 2)
    expected = sorted(expected + send(0, 5) + send(1, 7))
    assert sum(stream.run()) == 12
    assert stream.seen() == expected

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    until(lambda: topic not in admin.list_topics(timeout=5).topics)
    create_topic(servers, topic, partitions=2)
    producer = producer_of(servers)
    send(0, 80)
    with pytest.raises(PySparkException, match="the topic was deleted and created anew"):
        stream.run()
    assert stream.seen() == expected
