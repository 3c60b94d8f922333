"""What Spark calls, without Spark: a reader travels into tasks, limits are obeyed, it is found."""

import json
import pickle
import pkgutil
import re
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from tests.unit.client.fake_broker import FakeBroker
from tests.unit.pipeline.fake_partition import TOPIC, FakePartition, batch

import pyspark_headrace
from headrace.pipeline.errors import DataLost
from headrace.pipeline.source.readers import LogBatchReader, LogStreamReader
from headrace.pipeline.source.source_options import SourceOptions


@pytest.fixture
def partition(broker: FakeBroker) -> FakePartition:
    return FakePartition(broker, [batch(0, 10), batch(10, 10)])


def options(broker: FakeBroker, *, is_streaming: bool = True, **given: str) -> SourceOptions:
    base = {"kafka.bootstrap.servers": broker.address, "subscribe": TOPIC}
    return SourceOptions.of(base | given, is_streaming=is_streaming)


def stream(broker: FakeBroker, **given: str) -> LogStreamReader:
    return LogStreamReader(options(broker, startingOffsets="earliest", **given))


def offsets_in(reader: Any, parts: Any) -> list[int]:
    copy = pickle.loads(pickle.dumps(reader))
    tasks = pickle.loads(pickle.dumps(parts))
    return [o for task in tasks for each in copy.read(task) for o in each["offset"].to_pylist()]


def at(offset: dict[str, Any]) -> int:
    found: int = offset["topics"][TOPIC]["partitions"]["0"]
    return found


@pytest.mark.usefixtures("partition")
def test_a_batch_reader_plans_in_the_driver_and_reads_in_tasks(broker: FakeBroker) -> None:
    reader = LogBatchReader(options(broker, is_streaming=False, minPartitions="4"))
    parts = reader.partitions()
    assert len(parts) >= 4
    assert offsets_in(reader, parts) == list(range(20))
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.usefixtures("partition")
def test_a_stream_goes_by_limits_and_its_reader_travels(broker: FakeBroker) -> None:
    reader = stream(broker, maxOffsetsPerTrigger="7")
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    start = reader.initialOffset()
    first = json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(7))))
    assert (at(start), at(first)) == (0, 7)
    assert offsets_in(reader, reader.partitions(start, first)) == list(range(7))
    rest = reader.latestOffset(first, ReadAllAvailable())
    assert at(rest) == 20
    assert offsets_in(reader, reader.partitions(first, rest)) == list(range(7, 20))
    assert reader.latestOffset(rest, ReadMaxRows(7)) == rest
    assert at(reader.reportLatestOffset() or {}) == 20
    reader.commit(rest)
    reader.stop()


def test_a_minimum_is_waited_for_but_not_for_ever(
    broker: FakeBroker, partition: FakePartition
) -> None:
    reader = stream(broker, minOffsetsPerTrigger="15")
    assert reader.getDefaultReadLimit() == ReadMinRows(15)
    start = reader.initialOffset()
    partition.stable = 10
    assert reader.latestOffset(start, ReadMinRows(15)) == start
    hurried = stream(broker, minOffsetsPerTrigger="15", maxTriggerDelay="0s")
    assert at(hurried.latestOffset(start, ReadMinRows(15))) == 10
    partition.stable = 20
    assert at(reader.latestOffset(start, ReadMinRows(15))) == 20
    for each in (reader, hurried):
        each.stop()


def test_available_now_ends_where_the_log_ended(
    broker: FakeBroker, partition: FakePartition
) -> None:
    partition.stable = 10
    reader = stream(broker, minOffsetsPerTrigger="15")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    partition.stable = 20
    end = reader.latestOffset(start, ReadMinRows(15))
    assert at(end) == 10
    assert at(reader.latestOffset(end, ReadMinRows(15))) == 10
    reader.stop()


def test_a_topic_that_was_recreated_stops_the_query(
    broker: FakeBroker, partition: FakePartition
) -> None:
    reader = stream(broker)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    broker.topic_ids[TOPIC] = b"another-topic-id"
    partition.end = partition.stable = 30
    with pytest.raises(DataLost, match="created anew"):
        reader.latestOffset(end, ReadAllAvailable())
    reader.stop()


def test_spark_finds_the_source_by_its_packages_name() -> None:
    """As PySpark looks: top-level modules named pyspark_* that have a DefaultSource."""
    names = [each.name for each in pkgutil.iter_modules() if re.match("pyspark_", each.name)]
    assert "pyspark_headrace" in names
    assert pyspark_headrace.DefaultSource.name() == "headrace"
    plain = pyspark_headrace.DefaultSource({}).schema()
    headed = pyspark_headrace.DefaultSource({"includeHeaders": "TRUE"}).schema()
    assert plain.names == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    ]
    assert headed.names == [*plain.names, "headers"]
