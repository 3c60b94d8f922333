"""The chapters of the pipeline: events become Parquet files while they arrive, and that is proven.

The generator is what a shop would send: keys, headers, events that come late, and transactions of
which some are aborted. Nothing of an aborted one may be in any file.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.syntax import Syntax

from demo.stage import Stage, StoryError

TOPIC = "shop"
TARGET = "/lake/shop"
PARTITION_COUNT = 3
TRANSACTION_COUNT = 60
EVENTS_A_TRANSACTION = 200
ABORTED_EVERY = 6
LATE_EVERY = 25
LATE_S = 3 * 3600
FLUSH_TIMEOUT_S = 90.0
STATUSES = ("created", "paid", "packed", "shipped", "returned")

_SQL = """\
SELECT o.status, count(*) AS orders, round(sum(o.cents) / 100, 2) AS euros
FROM (SELECT from_json(CAST(value AS STRING), 'order LONG, status STRING, cents LONG') AS o
      FROM parquet.`{folder}`)
GROUP BY o.status ORDER BY o.status"""

_ARROW = """\
dataset = pyarrow.dataset.dataset("{folder}", filesystem=headrace.fs.FileSystem("{fs}"),
                                  format="parquet", partitioning="hive")
events = dataset.to_table(columns=["date", "hour"])
events.group_by(["date", "hour"]).aggregate([([], "count_all")])"""


@dataclass
class Sent:
    """What the generator had acknowledged: the events of committed transactions, and the others."""

    committed: dict[str, int] = field(default_factory=dict)
    cents: int = 0
    aborted: int = 0

    @property
    def total(self) -> int:
        return sum(self.committed.values())


def events_become_files(stage: Stage) -> None:
    stage.title(
        "Events become files while they arrive",
        "Spark plans and schedules; each task writes Parquet; a rename publishes, exactly once.",
    )
    stage.headrace("topic", "create", TOPIC, "-p", str(PARTITION_COUNT), *stage.here)
    with _pipeline(stage) as log:
        sent = _generate(stage)
        stage.done(
            f"{sent.total:,} events committed, {sent.aborted:,} aborted, some three hours late"
        )
        _await_no_lag(stage, log)
    stage.headrace("pipeline", "status", *_pipeline_words(stage))
    stage.headrace("pipeline", "verify", *_pipeline_words(stage))
    stage.done("proven from the log and the files: each committed event in exactly one file")
    _ask_spark(stage, sent)
    _ask_arrow(stage, sent)


def _pipeline_words(stage: Stage) -> tuple[str, ...]:
    return ("--topic", TOPIC, "--target", TARGET, *stage.here)


@contextmanager
def _pipeline(stage: Stage) -> Iterator[str]:
    """The pipeline beside us; gives the name of the file that it talks into."""
    words = ["pipeline", "run", *_pipeline_words(stage), "--trigger", "2s"]
    stage.command(f"headrace {' '.join(words)} &")
    path = stage.data / "logs" / "pipeline.log"
    began = time.monotonic()
    with path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while "ready after" not in path.read_text():
            if process.poll() is not None or time.monotonic() - began > FLUSH_TIMEOUT_S:
                raise StoryError(f"the pipeline did not start: {path.read_text()[-800:]}")
            time.sleep(0.1)
        stage.done(f"the pipeline runs after {time.monotonic() - began:.1f} s, most of them Java's")
        yield str(path)
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            raise StoryError(f"the pipeline ended badly: {path.read_text()[-800:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    for line in path.read_text().splitlines()[-3:]:
        stage.say(f"  {line}", style="dim")


def _generate(stage: Stage) -> Sent:
    """Transactions of orders; every sixth is aborted after it was sent."""
    from confluent_kafka import Producer

    dice = random.Random(7)
    sent = Sent()
    producer = Producer(
        {"bootstrap.servers": stage.servers, "transactional.id": "demo-shop", "linger.ms": 5}
    )
    producer.init_transactions(30)
    number = 0
    for transaction in range(TRANSACTION_COUNT):
        is_aborted = transaction % ABORTED_EVERY == ABORTED_EVERY - 1
        producer.begin_transaction()
        for _ in range(EVENTS_A_TRANSACTION):
            number += 1
            status, cents = dice.choice(STATUSES), dice.randrange(100, 50_000)
            late_s = LATE_S if number % LATE_EVERY == 0 else 0
            producer.produce(
                TOPIC,
                json.dumps({"order": number, "status": status, "cents": cents}).encode(),
                key=f"customer-{dice.randrange(500)}",
                headers={"source": b"demo", "aborted": str(is_aborted).encode()},
                timestamp=int((time.time() - late_s) * 1000),
            )
            if not is_aborted:
                sent.committed[status] = sent.committed.get(status, 0) + 1
                sent.cents += cents
        if is_aborted:
            producer.flush(30)
            producer.abort_transaction(30)
            sent.aborted += EVENTS_A_TRANSACTION
        else:
            producer.commit_transaction(30)
    return sent


def _await_no_lag(stage: Stage, log: str) -> None:
    began = time.monotonic()
    while time.monotonic() - began < FLUSH_TIMEOUT_S:
        told = stage.headrace("pipeline", "status", *_pipeline_words(stage), "--json", quiet=True)
        if json.loads(told)["lag_records"] == 0:
            stage.done(f"no lag any more {time.monotonic() - began:.1f} s after the last event")
            return
        time.sleep(0.3)
    raise StoryError(f"the pipeline still lags; it says so in {log}")


def _ask_spark(stage: Stage, sent: Sent) -> None:
    from headrace.pipeline.spark import start_session

    folder = f"{stage.fs}{TARGET}/topic={TOPIC}"
    query = _SQL.format(folder=folder)
    stage.console.print(Syntax(query, "sql", background_color="default", word_wrap=True))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = start_session("demo", "local[2]", {"spark.sql.shuffle.partitions": "1"})
    try:
        rows = spark.sql(query).collect()
    finally:
        spark.stop()
    for row in rows:
        stage.say(f"  {row['status']:<10} {row['orders']:>6} {row['euros']:>12}")
    found = {row["status"]: row["orders"] for row in rows}
    stage.check(found == sent.committed, f"Spark counts {found}, sent were {sent.committed}")
    cents = round(100 * sum(row["euros"] for row in rows))
    stage.check(cents == sent.cents, f"Spark sums up {cents} cents, sent were {sent.cents}")
    stage.done("Spark SQL over the files counts what was committed, to the cent")


def _ask_arrow(stage: Stage, sent: Sent) -> None:
    from pyarrow import dataset

    from headrace.fs import FileSystem

    folder = f"{TARGET}/topic={TOPIC}"
    code = _ARROW.format(folder=folder, fs=stage.fs)
    stage.console.print(Syntax(code, "python", background_color="default", word_wrap=True))
    files = dataset.dataset(
        folder, filesystem=FileSystem(stage.fs), format="parquet", partitioning="hive"
    )
    columns = files.to_table(columns=["date", "hour", "partition", "offset"])
    hours = columns.group_by(["date", "hour"]).aggregate([([], "count_all")]).to_pylist()
    for row in hours:
        stage.say(f"  date={row['date']} hour={row['hour']}  {row['count_all']:>6} events")
    places = zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True)
    stage.check(columns.num_rows == sent.total, f"pyarrow reads {columns.num_rows} events")
    stage.check(len(set(places)) == sent.total, "an offset is in the files twice")
    stage.check(len(hours) > 1, "the late events are not in hours of their own")
    stage.done(f"pyarrow without Spark reads the same {sent.total:,}, late ones in their own hour")
