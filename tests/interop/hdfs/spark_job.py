"""A Spark program on a file system: `spark_job.py hdfs://HOST:PORT FOLDER PART…`. Prints ALL OK.

    tables   partitioned Parquet, CSV and JSON: written, appended to, overwritten, exact
    begin    a streaming query with its checkpoint on the same file system, stopped in mid-work
    resume   the same query from that checkpoint, to the end; then given more

Each part has a session of its own.
Imports nothing of ours: it may run under another Python, the one that has PySpark.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

ROWS = 1000
COLUMNS = "id LONG, s STRING, p INT"
FILES, FILE_ROWS = 8, 10
"""Of the stream's input; each is a batch."""
BATCHES_BEFORE_STOP = 2
STREAM_TIMEOUT_S = 60


def session(url: str) -> SparkSession:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "1",
        "spark.hadoop.fs.defaultFS": url,
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows_of(spark: SparkSession, ids: range, files: int = 1) -> DataFrame:
    columns = ("id", "concat('row ', id) AS s", "CAST(id % 4 AS INT) AS p")
    return spark.range(ids.start, ids.stop, numPartitions=files).selectExpr(*columns)


def check(found: DataFrame, copies: dict[range, int], what: str) -> None:
    """Every id of each range is there so many times, with the rest of its row, and no other is."""
    counts = {row["id"]: row["count"] for row in found.groupBy("id").count().collect()}
    wanted = {number: times for numbers, times in copies.items() for number in numbers}
    assert counts == wanted, f"{what}: {len(counts)} ids, not {len(wanted)}"
    wrong = found.where("s <> concat('row ', id) OR p <> id % 4 OR s IS NULL OR p IS NULL").count()
    assert wrong == 0, f"{what}: {wrong} rows are wrong"


def tables(spark: SparkSession, base: str) -> None:
    first, second = range(ROWS), range(ROWS // 2, ROWS + 100)
    both = {range(ROWS // 2): 1, range(ROWS // 2, ROWS): 2, range(ROWS, ROWS + 100): 1}
    steps = (
        ("error", first, {first: 1}),
        ("append", second, both),
        ("overwrite", first, {first: 1}),
    )
    for kind in ("parquet", "csv", "json"):
        table = f"{base}/{kind}"
        for mode, ids, copies in steps:
            rows_of(spark, ids).write.mode(mode).partitionBy("p").format(kind).save(table)
            found = spark.read.schema(COLUMNS).format(kind).load(table)
            check(found, copies, f"{kind} after {mode}")
        assert found.where("p = 1").count() == ROWS // 4, f"{kind}: one partition"


def give(spark: SparkSession, base: str, files: range) -> None:
    if files:
        ids = range(files.start * FILE_ROWS, files.stop * FILE_ROWS)
        rows_of(spark, ids, len(files)).write.mode("append").json(f"{base}/input")


def start(spark: SparkSession, base: str, *, to_the_end: bool) -> StreamingQuery:
    source = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    writer = (
        source.json(f"{base}/input")
        .writeStream.format("parquet")
        .partitionBy("p")
        .option("checkpointLocation", f"{base}/checkpoint")
        .option("path", f"{base}/out")
    )
    if to_the_end:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def begin(spark: SparkSession, base: str) -> None:
    give(spark, base, range(FILES))
    query = start(spark, base, to_the_end=False)
    deadline = time.monotonic() + STREAM_TIMEOUT_S
    while (query.lastProgress or {"batchId": -1})["batchId"] < BATCHES_BEFORE_STOP - 1:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, "the query does not get on"
        time.sleep(0.01)
    query.stop()
    seen = spark.read.schema(COLUMNS).parquet(f"{base}/out").count()
    done, given = BATCHES_BEFORE_STOP * FILE_ROWS, FILES * FILE_ROWS
    assert done <= seen < given, f"{seen} of {given} rows: not in mid-work"


def resume(spark: SparkSession, base: str) -> None:
    for end in (FILES, FILES + 2):
        give(spark, base, range(FILES, end))
        query = start(spark, base, to_the_end=True)
        assert query.awaitTermination(STREAM_TIMEOUT_S), "the query did not end"
        assert query.exception() is None, query.exception()
        first = query.recentProgress[0]["batchId"]
        assert first >= BATCHES_BEFORE_STOP, f"it began anew, with batch {first}"
        found = spark.read.schema(COLUMNS).parquet(f"{base}/out")
        check(found, {range(end * FILE_ROWS): 1}, "the stream's output")


def main() -> None:
    url, folder, *parts = sys.argv[1:]
    for part in parts:
        spark = session(url)
        {"tables": tables, "begin": begin, "resume": resume}[part](spark, url + folder)
        spark.stop()
    print("ALL OK")


if __name__ == "__main__":
    main()
