"""A topic of our broker into files of our file system, by Spark: run, run again, verify, read.

One Spark session for all: starting one is most of the time.
"""

import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator

import confluent_kafka
import confluent_kafka.admin
import pyarrow.dataset
import pytest

from headrace.base.errors import UsageError
from headrace.fs import FileSystem
from headrace.pipeline import dead_letters, inspection
from headrace.pipeline.fence import Fenced
from headrace.pipeline.job import Pipeline
from headrace.pipeline.settings import Settings
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

# PySpark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDS = 3_000
PARTITIONS = 2
TIMEOUT_S = 240
NOON_MS = 1_772_366_400_000
"""Of 1 March 2026, UTC."""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        yield running


@pytest.fixture(scope="module")
def dfs() -> Iterator[LocalFileSystem]:
    with LocalFileSystem(datanodes=1) as running:
        yield running


class Case:
    def __init__(self, broker: LocalBroker, dfs: LocalFileSystem, spark) -> None:  # type: ignore[no-untyped-def]
        self.topic = f"orders-{uuid.uuid4().hex[:6]}"
        self.broker, self.dfs, self.spark = broker, dfs, spark
        self.target = f"{dfs.url}/lake-{self.topic}"
        self.said: list[str] = []
        producer = confluent_kafka.admin.AdminClient(
            {"bootstrap.servers": broker.bootstrap_servers}
        )
        made = producer.create_topics([confluent_kafka.admin.NewTopic(self.topic, PARTITIONS, 1)])
        made[self.topic].result(30)

    def settings(self, **more: object) -> Settings:
        chosen: dict[str, object] = {
            "topics": (self.topic,),
            "available_now": True,
            "metrics_port": -1,
            **more,
        }
        return Settings(self.broker.bootstrap_servers, self.target, **chosen)  # type: ignore[arg-type]

    def produce(self, count: int, *, commit: bool = True, first: int = 0) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "transactional.id": f"tx-{self.topic}",
                "compression.type": "lz4",
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(first, first + count):
            producer.produce(
                self.topic,
                key=b"%d" % number,
                value=None if number % 50 == 0 else b'{"id": %d}' % number,
                partition=number % PARTITIONS,
                headers={"n": b"%d" % number},
            )
        producer.flush(60)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    def run(self, **more: object) -> Pipeline:
        pipeline = Pipeline(self.settings(**more), spark=self.spark, say=self.said.append)
        pipeline.run()
        return pipeline

    def keys(self) -> list[int]:
        """Read as a stranger would: by folder, without Spark."""
        found = pyarrow.dataset.dataset(
            f"/lake-{self.topic}",
            filesystem=FileSystem(self.dfs.url),
            format="parquet",
            partitioning="hive",
        )
        return sorted(int(key) for key in found.to_table(columns=["key"]).column("key").to_pylist())


@pytest.fixture
def case(broker: LocalBroker, dfs: LocalFileSystem, spark) -> Case:  # type: ignore[no-untyped-def]
    return Case(broker, dfs, spark)


def until(reached: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not reached():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


def test_flushed_once_and_again_with_other_settings(case: Case) -> None:
    case.produce(RECORDS)
    case.produce(500, commit=False, first=900_000)
    case.run()
    assert case.keys() == list(range(RECORDS))
    case.produce(RECORDS, first=RECORDS)
    # Nothing of before is written again, though files are cut in another way now.
    case.run(file_bytes=64 * 1024, codec="snappy")
    assert case.keys() == list(range(2 * RECORDS))
    report = inspection.verify(case.settings())
    assert report.is_right, report.all_problems
    assert sum(each.records for each in report.partitions) == 2 * RECORDS
    told = inspection.status(case.settings())
    assert (told.lag_records, told.batches) == (0, report.batches)
    # A run without anything new does nothing.
    case.run()
    assert inspection.verify(case.settings()).batches == report.batches


def test_a_running_pipeline_tells_its_lag_and_yields_to_a_second_driver(case: Case) -> None:
    case.produce(100)
    running = Pipeline(
        case.settings(available_now=False, trigger_s=0.5, metrics_port=0),
        spark=case.spark,
        say=case.said.append,
    )
    failures: list[BaseException] = []

    def run() -> None:
        try:
            running.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        until(lambda: any(text.startswith("batch 0") for text in case.said), "no batch")
        url = next(text for text in case.said if "/metrics" in text).split()[-1]
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        assert 'headrace_pipeline_records_total{pipeline="' in text
        # Records that come while it runs are flushed without being asked for.
        case.produce(100, first=100)
        until(lambda: len(case.keys()) == 200, "the second batch")
        other = Pipeline(case.settings(), spark=case.spark)
        other._open()
        case.produce(100, first=200)
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
    finally:
        running.stop()
        thread.join(TIMEOUT_S)
    assert isinstance(failures[0], Fenced)
    assert "another driver" in str(failures[0])
    assert case.keys() == list(range(200))
    case.run()
    assert case.keys() == list(range(300))
    assert inspection.verify(case.settings()).is_right


def test_json_through_a_query_with_dead_letters(case: Case) -> None:
    case.produce(1_000)
    producer = confluent_kafka.Producer({"bootstrap.servers": case.broker.bootstrap_servers})
    for value in (b"not json", b'{"id": "x"}'):
        producer.produce(case.topic, value=value, key=b"bad", partition=0, headers={"h": b"1"})
    producer.flush(60)
    chosen = {
        "schema": "id BIGINT",
        "sql": "SELECT id, id * 2 AS twice FROM events WHERE id % 2 = 0",
    }
    case.run(**chosen)
    found = pyarrow.dataset.dataset(
        f"/lake-{case.topic}",
        filesystem=FileSystem(case.dfs.url),
        format="parquet",
        partitioning="hive",
    ).to_table()
    wanted = [number for number in range(1_000) if number % 2 == 0 and number % 50]
    assert sorted(found.column("id").to_pylist()) == wanted
    assert sorted(found.column("twice").to_pylist()) == [2 * number for number in wanted]
    assert {"partition", "offset", "timestamp"} <= set(found.schema.names)
    settings = case.settings(**chosen)
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    assert sum(each.dead for each in report.partitions) == 2
    assert sum(each.filtered for each in report.partitions) == 1_000 - len(wanted)
    letters = list(dead_letters.read(settings.log, settings.dead_letters))
    assert sorted(each.value or b"" for each in letters) == [b"not json", b'{"id": "x"}']
    # Spark does not even read for such a query, and tells no count: it is no reason to wait.
    case.produce(10, first=1_000)
    case.run(schema="id BIGINT", sql="SELECT id FROM events WHERE false")
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    assert {(each.topic, each.key, each.headers) for each in letters} == {
        (case.topic, b"bad", (("h", b"1"),))
    }


def test_a_query_that_spark_refuses_ends_the_pipeline_with_its_reason(case: Case) -> None:
    case.produce(10)
    for chosen, cause in (
        ({"sql": "SELECT nowhere FROM events"}, "--sql: Spark refuses it: .*nowhere"),
        ({"sql": "SELECT key FROM events WHERE WHERE"}, "--sql: Spark refuses it"),
        ({"schema": "id NUMBERISH"}, "--schema: Spark refuses it"),
    ):
        with pytest.raises(UsageError, match=cause):
            case.run(**chosen)
    assert not FileSystem(case.dfs.url).exists(f"/lake-{case.topic}/topic={case.topic}")


@pytest.mark.long
def test_an_inferred_schema_stays_and_late_rows_are_dead_letters(case: Case) -> None:
    chosen = {
        "schema": "infer",
        "sql": "SELECT id, item, try_cast(at AS TIMESTAMP) AS at FROM events",
        "event_time": "at",
        "late_after_s": 3600.0,
        "late": "dead-letter",
    }
    # Nothing there: nothing is inferred, and it is said.
    case.run(**chosen)
    assert any("no schema yet" in text for text in case.said)
    producer = confluent_kafka.Producer({"bootstrap.servers": case.broker.bootstrap_servers})

    def send(value: str, minute: int) -> None:
        producer.produce(
            case.topic, value=value.encode(), key=b"k", partition=0, timestamp=NOON_MS + minute
        )

    for number in range(20):
        at = "2026-03-01T08:00:00Z" if number % 5 == 0 else "2026-03-01T11:30:00Z"
        send(f'{{"id": {number}, "item": "a", "at": "{at}"}}', number)
    producer.flush(60)
    case.run(**chosen)
    pinned = next(text for text in case.said if text.startswith("schema of 20 records"))
    assert "id BIGINT" in pinned
    # Later records are of another form; the schema is not: one fits no more, one has a field more.
    send('{"id": "twenty", "item": "b"}', 20)
    send('{"id": 21, "item": "b", "more": 1}', 21)
    producer.flush(60)
    case.run(**chosen)
    assert sum("schema of" in text for text in case.said) == 1
    found = pyarrow.dataset.dataset(
        f"/lake-{case.topic}",
        filesystem=FileSystem(case.dfs.url),
        format="parquet",
        partitioning="hive",
    ).to_table()
    assert sorted(found.column("id").to_pylist()) == [n for n in range(20) if n % 5] + [21]
    settings = case.settings(**chosen)
    report = inspection.verify(settings)
    assert report.is_right, report.all_problems
    assert sum(each.dead for each in report.partitions) == 5
    letters = {each.offset: each for each in dead_letters.read(settings.log, settings.dead_letters)}
    assert sorted(letters) == [0, 5, 10, 15, 20]
    assert letters[5].cause.startswith("late: at is over 3600.0 s")
    assert (letters[5].timestamp_ms, letters[5].key) == (NOON_MS + 5, b"k")
    assert letters[5].value == b'{"id": 5, "item": "a", "at": "2026-03-01T08:00:00Z"}'
    assert "does not fit the schema" in letters[20].cause
    # The same records, dropped instead of sent, by another pipeline: filtered, and counted late.
    dropped = {**chosen, "late": "drop", "name": "dropping", "checkpoint": ""}
    case.target += "-dropped"
    case.run(**dropped)
    report = inspection.verify(case.settings(**dropped))
    assert report.is_right, report.all_problems
    assert sum(each.filtered for each in report.partitions) == 4
    assert any("; 4 late (drop)" in text for text in case.said)
