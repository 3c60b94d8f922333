"""A topic of our broker into files of our file system, by Spark: run, run again, verify, read.

One Spark session for all: starting one is most of the time.
"""

import json
import urllib.request

import confluent_kafka
import pytest
from tests.interop.confluent import consumer_of
from tests.interop.pipeline.flush_case import PARTITIONS, TIMEOUT_S, Case, until

from headrace.base.errors import UsageError
from headrace.cli.main import run
from headrace.fs import FileSystem
from headrace.pipeline import dead_letters, inspection
from headrace.pipeline.fence import Fenced
from headrace.pipeline.job import Pipeline

# PySpark leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECORDS = 3_000
NOON_MS = 1_772_366_400_000
"""Of 1 March 2026, UTC."""


def log_ends(case: Case) -> dict[tuple[str, int], int]:
    """Where Kafka's tools see the end, for their lag."""
    reader = consumer_of(case.broker.bootstrap_servers, "ends", enable_auto_commit=False)
    try:
        return {
            (case.topic, each): reader.get_watermark_offsets(
                confluent_kafka.TopicPartition(case.topic, each), 30
            )[1]
            for each in range(PARTITIONS)
        }
    finally:
        reader.close()


def gauges(url: str, name: str) -> dict[int, float]:
    """A metric by partition, as a scraper would find it."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = [line for line in lines if line.startswith(f"headrace_pipeline_{name}{{")]
    return {
        int(line.split('partition="')[1].split('"')[0]): float(line.split()[-1]) for line in found
    }


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
    # An ordinary group stands where the files end, which is where the log ends.
    ends = {(each.topic, each.partition): each.end for each in report.partitions}
    assert case.group() == ends
    assert log_ends(case) == ends
    assert min(ends.values()) > RECORDS
    # A run without anything new does nothing.
    case.run()
    assert inspection.verify(case.settings()).batches == report.batches


def test_a_running_pipeline_tells_its_lag_and_yields_to_a_second_driver(case: Case) -> None:
    case.produce(100)
    with case.running(metrics_port=0) as running:
        until(lambda: any(text.startswith("batch 0") for text in case.said), "no batch")
        url = next(text for text in case.said if "/metrics" in text).split()[-1]
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        assert 'headrace_pipeline_records_total{pipeline="' in text
        told = {"lag_records", "lag_seconds"}
        until(lambda: all(set(gauges(url, name)) == {0, 1} for name in told), "no lag is told")
        # Records that come while it runs are flushed without being asked for.
        case.produce(100, first=100)
        until(lambda: len(case.keys()) == 200, "the second batch")
        other = Pipeline(case.settings(), spark=case.spark)
        other._open()
        case.produce(100, first=200)
        running.join(TIMEOUT_S)
        assert not running.is_alive()
    assert isinstance(running.failure, Fenced)
    assert "another driver" in str(running.failure)
    assert case.keys() == list(range(200))
    case.run()
    assert case.keys() == list(range(300))
    assert inspection.verify(case.settings()).is_right


def test_a_function_and_folders_by_event_time(case: Case) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": case.broker.bootstrap_servers})
    hours = ("2026-02-27 23", "2026-02-28 00", "2026-03-01 09")
    for number in range(60):
        producer.produce(
            case.topic,
            value=f'{{"id": {number}, "at": "{hours[number % 3]}:30:00"}}'.encode(),
            partition=number % PARTITIONS,
            timestamp=NOON_MS,
        )
    assert producer.flush(60) == 0
    chosen = {"transform": "tests.interop.pipeline.shop_functions:orders", "event_time": "at"}
    case.run(**chosen)
    rows = case.table().to_pylist()
    assert sorted((row["id"], row["twice"]) for row in rows) == [
        (number, 2 * number) for number in range(60) if number % 10
    ]
    for row in rows:
        assert f"{row['date']} {row['hour']:02d}" == hours[row["id"] % 3], row
        assert row["timestamp"].timestamp() * 1000 == NOON_MS
    folders = {(str(row["date"]), row["hour"]) for row in rows}
    assert folders == {("2026-02-27", 23), ("2026-02-28", 0), ("2026-03-01", 9)}
    report = inspection.verify(case.settings(**chosen))
    assert report.is_right, report.all_problems
    assert sum(each.filtered for each in report.partitions) == 6
    # A function that drops the columns by which records are counted is refused, with their name.
    with pytest.raises(UsageError, match="does not keep the column topic"):
        case.run(transform="tests.interop.pipeline.shop_functions:forgetful")


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
    found = case.table()
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
def test_the_lag_of_a_waiting_pipeline_is_in_its_metrics_and_its_status(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.produce(100)
    where = ["-b", case.broker.bootstrap_servers, "--target", case.target]
    words = ["pipeline", "status", *where, "-t", case.topic]
    assert run(words) == 0
    assert "has committed no batch yet" in capsys.readouterr().err
    # It flushes what is there, and then not before an hour has passed.
    with case.running(metrics_port=0, trigger_s=3600.0):
        until(lambda: any(text.startswith("batch 0") for text in case.said), "no batch")
        url = next(text for text in case.said if "/metrics" in text).split()[-1]
        until(lambda: gauges(url, "lag_records") == {0: 0.0, 1: 0.0}, "the lag is not 0")
        assert gauges(url, "lag_seconds") == {0: 0.0, 1: 0.0}
        case.produce(30, first=100)
        # 15 records and the marker of their transaction, in each partition.
        until(lambda: gauges(url, "lag_records") == {0: 16.0, 1: 16.0}, "the lag is not seen")
        until(lambda: min(gauges(url, "lag_seconds").values()) > 0, "the lag has no age")
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["state"], told["batches"], told["lag_records"]) == ("idle", 1, 32)
        assert told["lag_seconds"] > 0
        assert told["last_batch"]["records"] == 100
        assert [(each["partition"], each["lag_records"]) for each in told["partitions"]] == [
            (0, 16),
            (1, 16),
        ]
        ends = log_ends(case)
        assert all(ends[where] - position == 16 for where, position in case.group().items())
        assert run(words) == 0
        first, second, head, *rows = capsys.readouterr().out.splitlines()
        assert first.startswith(
            f"pipeline lake-{case.topic}  state idle  batches 1  lag 32 records"
        )
        assert second.startswith("last batch 0: 100 records in 2 files")
        assert head.split() == ["TOPIC", "PARTITION", "POSITION", "END", "LAG", "LAG", "S"]
        assert [row.split()[:5] for row in rows] == [
            [case.topic, str(each), "51", "67", "16"] for each in range(PARTITIONS)
        ]


@pytest.mark.long
def test_an_inferred_schema_is_kept_and_late_rows_are_dead_letters(case: Case) -> None:
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
    # Later records are of another form: one fits no more; one has a field more, which the query
    # does not select. Nothing is inferred anew.
    send('{"id": "twenty", "item": "b"}', 20)
    send('{"id": 21, "item": "b", "more": 1}', 21)
    producer.flush(60)
    case.run(**chosen)
    assert sum("schema of" in text for text in case.said) == 1
    found = case.table()
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
